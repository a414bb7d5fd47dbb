"""Figures of the intake and of what is read of telemetry, beside other trackers."""
