"""Deploys that really happened."""
