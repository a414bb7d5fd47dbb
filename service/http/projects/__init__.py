"""Projects and their DSN: the operations."""
