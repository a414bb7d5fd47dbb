"""Projects and their DSN, as rows."""
