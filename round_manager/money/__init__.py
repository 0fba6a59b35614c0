"""Money: budgets, the ledger, and what a HIT may cost; nothing here talks to a marketplace."""
