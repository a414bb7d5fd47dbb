"""Projects and their DSN: commands, reads and their form on the wire."""
