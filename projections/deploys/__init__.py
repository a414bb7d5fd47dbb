"""Deploys that really happened, as rows."""
