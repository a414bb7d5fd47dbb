"""What a project's records say about how far it has come."""
