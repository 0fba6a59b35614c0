"""Use cases of the marketplace's owner: each takes a Market, runs its transaction and returns a typed result."""
