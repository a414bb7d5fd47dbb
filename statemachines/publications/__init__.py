"""Published blueprint queries."""
