"""Published blueprint queries: commands, reads and public answers."""
