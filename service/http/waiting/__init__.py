"""Answers that are put off until something changes."""
