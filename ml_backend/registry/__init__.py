"""The registry of model versions, and the rotation of the versions that answer."""
