"""Calls to addresses named by others: one client, confined to the public internet (G-150)."""
