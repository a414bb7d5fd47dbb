"""Reads of cases, and of who met them."""
