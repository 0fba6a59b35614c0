"""Targets: the models that a round is played against, whatever runs them."""
