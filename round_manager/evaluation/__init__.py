"""Evaluations: which data sets a task has, which models are measured on them, and where the results are kept."""
