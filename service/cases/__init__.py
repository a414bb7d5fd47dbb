"""Errors grouped into cases: reads."""
