"""Webhooks: addresses that are told of what happens in a project."""
