"""The source and the report of a weekly run, on the wire."""
