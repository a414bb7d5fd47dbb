"""Alerts, on the wire."""
