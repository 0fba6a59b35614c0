"""The database: opened, checked, used in transactions, and the column types that mean the same on both kinds."""
