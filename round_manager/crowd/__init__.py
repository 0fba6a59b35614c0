"""The crowd: HITs planned, posted, collected, reviewed and paid through a marketplace, each thing once."""
