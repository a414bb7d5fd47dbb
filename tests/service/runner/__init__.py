"""The runner to start with."""
