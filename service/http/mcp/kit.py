"""Sources of the tools of an installation, made once in a process: its schema document, and the operations."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from service.auth.refusals import InvalidPayload
from service.http.discovery import facts
from service.http.discovery.entry import schema_document
from service.http.edge.declare.call import Call
from service.http.mcp.reach import Reached, reached
from service.http.mcp.tools import COMMANDS, listed, members_of

Json = dict[str, Any]


class Kit(NamedTuple):
    """The document, the readable operations, the commands, and the tools as they are listed."""

    document: Json
    reads: dict[str, Reached]
    commands: dict[str, Reached]
    tools: list[Json]

    def open_to(self, call: Call[Any, Any]) -> list[Reached]:
        """The reads of a caller."""
        return [one for one in self.reads.values() if one.is_open_to(call.principal.kind)]

    def operation(self, name: str) -> Reached | None:
        """The operation with the name of a tool."""
        return self.commands.get(name) or self.reads.get(name)

    def members(self, one: Reached) -> Json:
        """The members of the body, from the caller."""
        return members_of(one, self.document["components"])

    def read(self, name: Any) -> Reached:
        """A read by the id of its operation. Raises InvalidPayload."""
        one = self.reads.get(name) if isinstance(name, str) else None
        if one is None:
            reason = "must be the id of a GET operation, as find_operation tells it"
            raise InvalidPayload("There is no such read.", invalid=[("operation", reason)])
        return one


_kits: dict[str, Kit] = {}  # one, for a process has one address


async def kit_for(call: Call[Any, Any]) -> Kit:
    """The kit of an installation. The first call makes the schema document apart, in some seconds."""
    base_url = call.services.settings.base_url
    if base_url not in _kits:
        _kits[base_url] = await call.work_apart(partial(make, base_url))
    return _kits[base_url]


def make(base_url: str) -> Kit:
    """Make a kit."""
    document = schema_document(base_url)
    found = reached(facts.bound(), document, COMMANDS)
    reads = {name: one for name, one in found.items() if name not in COMMANDS}
    commands = {name: found[name] for name in COMMANDS}
    return Kit(document, reads, commands, listed(found, document["components"]))
