"""Published blueprint queries: the operations."""
