"""Deploys that really happened: the operations."""
