"""The newest signed checkpoint of the log, as a page tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from service.console.kit.visit import Visit

DASH = "— "
LINES = 3


class ShownCheckpoint(NamedTuple):
    """A signed state of the log: its name, its size, its root, the text itself, and who signed beside the log."""

    origin: str
    size: int
    root: str
    text: str
    witnesses: Sequence[str]


async def checkpoint_of(visit: Visit) -> ShownCheckpoint | None:
    """The newest checkpoint. None before the first."""
    said = await visit.ask("get_log_checkpoint", {})
    if not said.ok:
        return None
    text = said.raw.decode()
    body, _, signatures = text.partition("\n\n")
    origin, size, root = body.split("\n")[:LINES]
    signers = [line.removeprefix(DASH).split(" ")[0] for line in signatures.split("\n") if line.startswith(DASH)]
    return ShownCheckpoint(origin, int(size), root, text, sorted({name for name in signers if name != origin}))
