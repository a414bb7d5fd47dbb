"""The end of projects and accounts, on the wire."""
