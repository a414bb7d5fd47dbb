"""Alerts: a threshold over a column of a blueprint, looked at by hand and on schedule."""
