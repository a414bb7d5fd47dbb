"""What may be done with projects, a module for each resource: intents, complete but for who asks."""

from service.projects.commands import dsn, project, settings

__all__ = ["dsn", "project", "settings"]
