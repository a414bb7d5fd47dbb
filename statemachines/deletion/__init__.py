"""The end of projects and accounts."""
