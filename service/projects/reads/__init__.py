"""Queries about projects: what they are, whether their data arrives, and how far they have come."""
