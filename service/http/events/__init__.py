"""Events of the log: the operations."""
