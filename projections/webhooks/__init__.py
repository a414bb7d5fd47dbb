"""Webhooks as rows, and the facts beside them."""
