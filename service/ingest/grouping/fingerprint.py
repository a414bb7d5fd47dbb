"""Which case an error belongs to, and why (G-031, G-174). Pure functions.

Grouping sees an event before secrets are cut out of its texts (G-135): only a hash of what it sees is kept, and no case
falls apart because another form of secret is known. A text with a secret of this service it sees hidden as a whole.

A grouping is a version: a way to turn an event into a fingerprint. Versions are only ever added. An event is offered
the fingerprint of every version; the oldest one that already has a case wins, and only an event that no version
knows opens a case under the newest. So a new version can merge what is new, but never tears an old case apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from service.ingest.grouping.evidence import DEFAULT, GroupingEvidence, is_default
from service.ingest.grouping.templates import template_1, template_2

TITLE_LENGTH = 200
REMEMBERED_LENGTH = 2048
"""Characters of the texts whose assignments are remembered: what is kept is bounded, whatever is sent."""


class Grouping(NamedTuple):
    """An assignment: the version that made it, the fingerprint, and what it rests on."""

    version: int
    fingerprint: str
    why: str


class Seen(NamedTuple):
    """What a version makes of an error: the text whose hash is the fingerprint, and what that rests on."""

    text: str
    rests_on: str


Versions = Mapping[int, Callable[[GroupingEvidence], Seen]]


_RESTS_ON = {
    (False, False): "message",
    (False, True): "frame+message",
    (True, False): "type+message",
    (True, True): "type+frame+message",
}
"""What an assignment of version 1 rests on, by whether there is a type and a frame."""


def _version_1(evidence: GroupingEvidence) -> Seen:
    seen = evidence.first or evidence
    kind, frame, message = seen.exception_type or "", seen.frame or "", seen.message
    return Seen(f"{kind}|{frame}|{template_1(message)}", _RESTS_ON[bool(kind), bool(frame)])


def _version_2(evidence: GroupingEvidence) -> Seen:
    """A client's fingerprint, else type and frame, else type and template. With a frame no message joins in."""
    if not evidence.client or all(map(is_default, evidence.client)):
        return _default_2(evidence)
    if not any(map(is_default, evidence.client)):
        return Seen(f"v2c|{_listed(evidence.client)}", "client")
    seen = _default_2(evidence)
    entries = [DEFAULT if is_default(entry) else entry for entry in evidence.client]
    return Seen(f"v2c|{_listed(entries)}|{seen.text}", f"client+{seen.rests_on}")


def _listed(entries: Sequence[str]) -> str:
    return msgspec.json.encode(entries).decode()


def _default_2(evidence: GroupingEvidence) -> Seen:
    kind, deciding = evidence.exception_type, evidence.deciding
    decided_by = f"{'type+' if kind else ''}{'frame' if deciding else 'message'}{'+map_late' if evidence.late else ''}"
    if deciding is not None:
        return Seen(f"v2f|{kind or ''}|{deciding.file}|{deciding.function}", decided_by)
    return Seen(f"v2t|{kind or ''}|{template_2(evidence.message)}", decided_by)


GROUPINGS: Versions = {1: _version_1, 2: _version_2}
"""Every version ever released, oldest first."""


def group(evidence: GroupingEvidence, groupings: Versions = GROUPINGS) -> tuple[Grouping, ...]:
    """Offer the assignment of every version, oldest first."""
    seen = tuple([(version, *see(evidence)) for version, see in groupings.items()])
    return (_remembered if sum([len(one[1]) for one in seen]) <= REMEMBERED_LENGTH else _assign)(seen)


def _assign(seen: tuple[tuple[int, str, str], ...]) -> tuple[Grouping, ...]:
    """The assignments that the texts of versions stand for."""
    return tuple(
        Grouping(version, hashlib.sha256(text.encode()).hexdigest()[:32], f"v{version}:{rests_on}")
        for version, text, rests_on in seen
    )


_remembered = lru_cache(maxsize=4096)(_assign)  # Errors repeat themselves.


def title(evidence: GroupingEvidence) -> str:
    """Name a case after its first error: the exception's type and the first line of the message."""
    lines = evidence.message.strip().splitlines()
    line = lines[0].strip() if lines else ""
    return f"{evidence.exception_type}: {line}"[:TITLE_LENGTH] if evidence.exception_type else line[:TITLE_LENGTH]
