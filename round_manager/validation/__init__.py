"""Validation: outcomes of votes, decisions, flags, and the metrics of a round, its workers and its model."""
