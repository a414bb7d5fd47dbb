"""The end of projects and accounts: the operations."""
