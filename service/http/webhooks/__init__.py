"""Webhooks: the operations."""
