"""The end of projects and accounts: fence, draining, purge, and what is remembered of it."""
