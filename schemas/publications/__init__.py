"""Published blueprint queries, on the wire."""
