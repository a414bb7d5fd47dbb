"""People, their API keys, memberships and sign-ins: commands, reads and their form on the wire."""
