"""Projects and their DSN."""
