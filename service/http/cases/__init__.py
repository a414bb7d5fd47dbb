"""Errors grouped into cases, and the rules that suppress them: the operations."""
