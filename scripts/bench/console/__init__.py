"""The bench of the console: what its pages cost in a large project."""
