"""Repairs under a contract: reviewed, merged by the host, refused, proven."""
