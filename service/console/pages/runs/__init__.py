"""Runs of automations: their list, one of them, its decisions, and the receipts that begin them."""
