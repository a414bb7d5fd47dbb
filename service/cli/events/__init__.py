"""`service events`: the group with its commands."""

from service.cli.events import reading, replaying, verifying
from service.cli.events.group import events

__all__ = ["events", "reading", "replaying", "verifying"]
