"""The worker site: the pages on which workers find work, do it and see their earnings."""
