"""Credentials of a project: commands, reads and their form on the wire."""
