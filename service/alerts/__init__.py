"""Alerts: a threshold over a blueprint: commands, reads, the schedule, and their form on the wire."""
