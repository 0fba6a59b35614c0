"""Validation: what votes make of examples, and what that says of a round, its people and its model."""
