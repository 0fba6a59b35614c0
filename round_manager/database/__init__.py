"""The database: connections, transactions, locks, triggers and portable column types."""
