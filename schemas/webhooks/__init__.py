"""Wire contracts of webhooks and of what is delivered to them."""
