"""Webhooks and their outbox: commands, reads, their form on the wire, and the deliveries."""
