"""Alerts, as rows, and their latest looks."""
