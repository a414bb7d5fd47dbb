"""Deploys that really happened, on the wire."""
