"""The workers' pages: what a marketplace's frame shows, and what its script calls."""
