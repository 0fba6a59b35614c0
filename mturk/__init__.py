"""MTurk: the client, and a self-hosted marketplace with the same API."""
