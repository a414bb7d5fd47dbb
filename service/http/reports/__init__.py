"""The source and the report of a weekly run: the operations."""
