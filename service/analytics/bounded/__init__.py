"""Bounded questions to telemetry: what is asked, what comes back, and the receipt of it."""
