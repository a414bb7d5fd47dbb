"""Answers of the interface as files to keep."""
