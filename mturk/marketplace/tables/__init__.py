"""The tables of the marketplace's database. Importing the package registers all of them."""

from mturk.marketplace.tables import people, work

__all__ = ["people", "work"]
