"""The self-hosted marketplace: MTurk's protocol for requesters, a site for workers, and an exact ledger."""
