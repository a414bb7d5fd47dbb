"""Reads of rows: by turns, in pages."""
