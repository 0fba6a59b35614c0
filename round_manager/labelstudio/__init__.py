"""What stands in Label Studio, as our books know it."""
