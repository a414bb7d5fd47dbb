"""Deletions as read models."""
