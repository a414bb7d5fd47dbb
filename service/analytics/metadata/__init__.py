"""Metadata of events: which names and keys a project sends, never a value."""
