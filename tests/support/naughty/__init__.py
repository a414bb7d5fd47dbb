"""Texts that are written to break pages, the doors that take them, and a judge of the pages that show them."""
