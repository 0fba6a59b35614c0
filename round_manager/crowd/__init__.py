"""Work on a crowd: planned, posted, collected, reviewed and paid through the crowd port, each step once."""
