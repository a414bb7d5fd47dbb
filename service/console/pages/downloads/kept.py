"""Files to keep: answers of a few reads, as the interface gives them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from service.auth.refusals import NotFound
from service.console.kit.page import Download, View, page
from service.console.kit.visit import ReadRefused, Visit


class KeptRead(NamedTuple):
    """The values in path and query of an operation, and the name of its file with these in it."""

    path: Sequence[str]
    query: Sequence[str]
    name: str


KEPT: Mapping[str, KeptRead] = {
    "get_automation_run_proof": KeptRead(["run_id"], [], "{run_id}.proof.json"),
    "get_automation_run_tlog_proof": KeptRead(["run_id"], [], "{run_id}.tlog-proof"),
    "get_log_checkpoint": KeptRead([], [], "checkpoint.txt"),
    "get_inclusion_proof": KeptRead([], ["position", "size"], "inclusion-{position}-{size}.json"),
}
"""The reads that may be kept, and no other."""


@page("download/{operation_id}")
async def keep(visit: Visit) -> View | Download:
    """Answer a read as a file. Raises NotFound for any other operation, and ReadRefused."""
    operation_id = visit.values["operation_id"]
    kept = KEPT.get(operation_id)
    if kept is None or any(not visit.query.get(name) for name in kept.path):
        raise NotFound
    path = {name: visit.query[name] for name in kept.path}
    query = {name: visit.query.get(name, "") for name in kept.query}
    said = await visit.ask(operation_id, path, query=query)
    if not said.ok:
        raise ReadRefused(said)
    plain = {name: re.sub(r"[^A-Za-z0-9_-]", "_", value) for name, value in {**path, **query}.items()}
    return Download(said.raw, kept.name.format(**plain))


PAGES = [keep]
