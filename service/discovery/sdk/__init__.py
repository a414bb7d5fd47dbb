"""Snippets for reporting errors and events, by language: texts of the package, and facts beside them."""
