"""Learning: what a new model is trained on and measured with, and where it came from."""
