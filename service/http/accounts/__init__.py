"""People, their API keys, memberships and sign-ins: the operations."""
