"""Sources of the tools of an installation, made once in a process: its schema document, and the operations.

What a tool tells of an operation by itself is made with them. A call of such a tool computes next to nothing.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec

from service.auth.authority import PrincipalKind
from service.auth.refusals import InvalidPayload
from service.http.declare.call import Call
from service.http.discovery.entry import documents_of
from service.http.document.openapi import SchemaDocuments
from service.http.mcp.reach import READERS, Reached, describe, first_sentence, reached
from service.http.mcp.tools import COMMANDS, listed, members_of
from service.wordindex import SHORTEST, WordIndex, words_of

Json = dict[str, Any]

MOST_WORDS = 20
ASKED = {
    "query_analytics": "how many much often count number sum total average share percent per day trend compare",
    "run_query_blueprint": "how many much often count number conversion funnel retention trend top paid bought signed",
    "list_event_names": "which events counted names tracked",
}
"""Words of questions to reads that answer them, and that do not have these words themselves."""
FILLING = frozenset(words_of("and are but did does for from had has have our that the their there this was were with"))
"""Words of questions that tell nothing of what is asked for."""
WEIGHTS = {"operation": 4, "summary": 3, "path": 2, "description": 1, "asked": 4}
"""How much a word counts by where it stands."""


class ReadIndex:
    """The operations open to one kind of caller, in the order of the document, by their words (G-168)."""

    def __init__(self, among: Iterable[Reached]) -> None:
        shown = [_shown(one) for one in among]
        self._index = WordIndex(([one[member] for member in WEIGHTS] for one in shown), tuple(WEIGHTS.values()))
        self._shown = [{**one, "description": first_sentence(one["description"])} for one in shown]
        for one in self._shown:
            del one["asked"]

    def __len__(self) -> int:
        return len(self._shown)

    def find(self, words: str, limit: int) -> list[Json]:
        """The best operations for some words. The first ones without any word."""
        return [self._shown[number] for number in self._index.find(wanted(words))[:limit]]


def wanted(words: str) -> list[str]:
    """The words of a question that count, each once."""
    found = dict.fromkeys(words_of(words))
    return [word for word in found if len(word) >= SHORTEST and word not in FILLING][:MOST_WORDS]


def _shown(one: Reached) -> Json:
    operation = one.bound.operation
    return {
        "operation": operation.operation_id,
        "path": operation.path,
        "summary": operation.summary,
        "description": one.described["description"],
        "parameters": [*one.path_names, *(f"{name}?" for name in one.query_names)],
        "asked": ASKED.get(operation.operation_id, ""),
    }


class Kit(NamedTuple):
    """The parts of the document that tools use, the readable operations, the commands, and the tools as listed.

    `described` are the answers of `describe`, encoded. `indexes` are for the kinds of callers.
    """

    components: Json
    reads: Mapping[str, Reached]
    commands: Mapping[str, Reached]
    tools: list[Json]
    described: Mapping[str, bytes]
    indexes: Mapping[PrincipalKind, ReadIndex]

    def operation(self, name: str) -> Reached | None:
        """The operation with the name of a tool."""
        return self.commands.get(name) or self.reads.get(name)

    def members(self, one: Reached) -> Json:
        """The members of the body, from the caller."""
        return members_of(one, self.components)

    def read(self, name: Any) -> Reached:
        """A read by the id of its operation. Raises InvalidPayload."""
        one = self.reads.get(name) if isinstance(name, str) else None
        if one is None:
            reason = "must be the id of a read, as find_operation tells it"
            raise InvalidPayload("There is no such read.", invalid=[("operation", reason)])
        return one


_kits: dict[str, Kit] = {}  # one, for a process has one address


async def kit_for(call: Call) -> Kit:
    """The kit of an installation. The first call makes it apart, and all who come meanwhile wait for that one."""
    base_url = call.services.settings.base_url
    kit = _kits.get(base_url)
    if kit is None:
        kit = _kits[base_url] = await call.work_once(("mcp", base_url), partial(make, documents_of(call), base_url))
    return kit


def make(documents: SchemaDocuments, base_url: str) -> Kit:
    """Make a kit."""
    document = documents.at(base_url)
    found = reached(documents.operations, document, COMMANDS)
    reads = {name: one for name, one in found.items() if name not in COMMANDS}
    commands = {name: found[name] for name in COMMANDS}
    indexes = {kind: ReadIndex(one for one in reads.values() if one.is_open_to(kind)) for kind in READERS}
    described = {name: msgspec.json.encode(describe(document, one)) for name, one in reads.items()}
    return Kit(document["components"], reads, commands, listed(found, document["components"]), described, indexes)
