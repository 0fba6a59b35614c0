"""What people handed in: attempts, examples and votes, each checked and kept once."""
