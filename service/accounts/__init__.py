"""People, their API keys, memberships and sign-ins: commands and reads."""
