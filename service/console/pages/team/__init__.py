"""The people and programs of a project: members and credentials."""
