"""Project credentials: what CI and runners act with: the operations."""
