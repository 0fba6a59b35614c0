"""A marketplace of our own: MTurk's wire protocol for requesters, a site for workers, and a database that adds up."""
