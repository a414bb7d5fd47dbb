"""What an archive says of itself: its parts with their hashes, its place in the log, and what it leaves out."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from service.archives.spool import ArchivePart
from service.eventstore.declare.codec import canonical
from service.eventstore.tree.reading import KeptCheckpoint

FORMAT = "service-archive-2"
WITHHELD = (
    "credential.created",
    "project.created",
    "project.dsn_rotated",
    "publication.published",
    "project.public_dsn_rotated",
)
"""Events whose payload holds the hash of a secret, by their topics without version."""

LEFT_OUT = (
    ("secrets and their hashes", "Nobody but their holder needs them. The payloads of events that hold one are null."),
    ("proof markers", "They only tell an onboarding's own records apart."),
    ("people of cases", "The errors name them."),
    ("source maps and uploads", "You have the originals."),
    ("usage, rate counters and answers kept for repeated requests", "The service alone needs them."),
    ("telemetry that was deleted", "What retention or a deletion removed is gone."),
)
"""The contents of the database that no archive has, and why."""


@dataclass(slots=True)
class Contents:
    """The findings of an archive on its way. `stored` counts the project's events, also those without a position."""

    project_id: str
    made_at: int = 0
    log_size: int = 0
    stored: int = 0
    positions: array[int] = field(default_factory=lambda: array("q"))
    withheld: int = 0
    checkpoint: KeptCheckpoint | None = None
    cut_short: list[str] = field(default_factory=list)


def is_withheld(topic: str) -> bool:
    """Whether the payload of an event stays here."""
    return topic.rpartition(".")[0] in WITHHELD


def manifest(contents: Contents, parts: Sequence[ArchivePart]) -> bytes:
    """Write the manifest in canonical form. Its own hash is that of the rest of it."""
    positions, checkpoint = contents.positions, contents.checkpoint
    left_out = [{"what": what, "why": why} for what, why in LEFT_OUT]
    if newer := contents.stored - len(positions):
        left_out.append({"what": f"{newer} events without a position", "why": "They were recorded a moment before."})
    left_out += [
        {"what": f"the rest of {name}", "why": "An archive has a largest size. Delete telemetry, or read it by pages."}
        for name in contents.cut_short
    ]
    told: dict[str, Any] = {
        "format": FORMAT,
        "project_id": contents.project_id,
        "made_at": contents.made_at,
        "log_size": contents.log_size,
        "events": len(positions),
        "first_position": positions[0] if positions else None,
        "last_position": positions[-1] if positions else None,
        "checkpoint": None
        if checkpoint is None
        else {"origin": checkpoint.origin, "size": checkpoint.size, "root": checkpoint.root.hex()},
        "withheld": {"payloads": contents.withheld, "topics": list(WITHHELD)},
        "parts": [part._asdict() for part in parts],
        "left_out": left_out,
    }
    return canonical(told | {"manifest_sha256": hashlib.sha256(canonical(told)).hexdigest()})
