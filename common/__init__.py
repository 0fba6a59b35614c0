"""Basics that every other package builds on: coded errors, the clock, amounts of money and plain text."""
