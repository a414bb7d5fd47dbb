"""What the service says of itself, on the wire."""
