"""What requesters can ask for: one module for each family of MTurk's operations."""
