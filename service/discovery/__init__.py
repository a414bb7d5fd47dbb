"""What the service says of itself: reads."""
