"""Projects and their DSN, on the wire."""
