"""Use cases of the owner and of workers: each takes a Market, runs its transaction and returns a typed result."""
