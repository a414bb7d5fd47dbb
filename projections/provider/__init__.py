"""Provisioned teams as rows."""
