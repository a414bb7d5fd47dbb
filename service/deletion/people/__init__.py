"""The end of people of a project's telemetry: erasures, from the request to the receipt (G-197)."""
