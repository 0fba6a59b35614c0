"""The manager: everything that rounds need done, as small steps that can be done again."""
