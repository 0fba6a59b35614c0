"""Where jobs run: adapters of the JobRunner port."""
