"""Who and what may act in a project: members and credentials."""
