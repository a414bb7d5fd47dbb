"""People, their API keys, memberships and sign-ins."""
