"""What is secret or personal in telemetry is found and hidden before anything is kept."""
