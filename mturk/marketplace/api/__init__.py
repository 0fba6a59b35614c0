"""The requester API: MTurk's wire protocol, one module for each family of operations."""
