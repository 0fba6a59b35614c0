"""The simulated crowd: programs that work on the marketplace like people, and are always labelled as simulated."""
