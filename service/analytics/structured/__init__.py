"""Queries that callers put together: fields, filters and aggregates by name, or one select for a provider (G-154)."""
