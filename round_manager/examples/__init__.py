"""What people submitted: attempts, examples and votes, each checked and kept once."""
