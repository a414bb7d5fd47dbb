"""Bounded questions to telemetry: the query, its rows, and the receipt."""
