"""The simulated crowd: programs that work on the marketplace as people would, and say everywhere that they are none."""
