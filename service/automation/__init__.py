"""Automation as the service carries it out: readiness, schedules, materiality, verification."""
