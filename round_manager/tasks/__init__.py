"""Tasks and their rounds, contexts and budgets, and access to their data."""
