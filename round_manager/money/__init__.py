"""Money: budgets, the ledger, and the terms of HITs; nothing here calls a marketplace."""
