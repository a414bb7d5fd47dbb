"""What the service says of itself: entry point, schema document, health."""
