"""Calls to addresses that somebody else names: one client, which never leaves the public internet (G-150)."""
