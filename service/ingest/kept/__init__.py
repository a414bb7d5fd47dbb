"""Telemetry that is stored: its partitions, its end, and whether its counters agree."""
