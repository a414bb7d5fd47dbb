"""The report of a weekly run: reading its source, and recording it."""
