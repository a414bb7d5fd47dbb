"""The source and the report of each weekly run, as rows."""
