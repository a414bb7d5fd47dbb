"""The install flow: the operations."""
