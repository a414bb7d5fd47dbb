"""Project credentials: what CI and runners act with: commands, reads and their form on the wire."""
