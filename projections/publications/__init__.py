"""Published blueprint queries, as rows."""
