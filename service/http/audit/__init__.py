"""The log as outsiders check it: the operations."""
