"""Errors grouped into cases, and the rules that suppress them, on the wire."""
