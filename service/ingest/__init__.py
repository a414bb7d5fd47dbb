"""Durable, batched intake of telemetry, and its grouping into cases."""
