"""Alerts: a threshold over a blueprint: the operations."""
