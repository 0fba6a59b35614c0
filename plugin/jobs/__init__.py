"""Runners of jobs: adapters of the port in round_manager/jobs.py."""
