"""The doors of telemetry, each in the words of its protocol."""
