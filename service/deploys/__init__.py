"""Deploys that really happened: commands and reads."""
