"""People, their API keys, memberships and sign-ins, on the wire."""
