"""Principals, credentials and what each may reach."""
