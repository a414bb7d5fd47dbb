"""Project credentials: what CI and runners act with, as rows."""
