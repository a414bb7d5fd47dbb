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

from service.ingest.grouping.client import DEFAULT, is_default
from service.ingest.grouping.evidence import GroupingEvidence, SecondEvidence, ThirdError, ThirdEvidence
from service.ingest.grouping.first import template_1, template_2

TITLE_LENGTH = 200
LONGEST_LINE = 1000
"""Characters of a message for its title."""
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
    return _by_client(evidence, evidence.client, 2, _default_2)


def _by_client(
    evidence: GroupingEvidence, client: Sequence[str], version: int, default: Callable[[GroupingEvidence], Seen]
) -> Seen:
    """The fingerprint of a client, with the grouping without it for a default."""
    if not client or all(map(is_default, client)):
        return default(evidence)
    if not any(map(is_default, client)):
        return Seen(f"v{version}c|{_listed(client)}", "client")
    seen = default(evidence)
    entries = [DEFAULT if is_default(entry) else entry for entry in client]
    return Seen(f"v{version}c|{_listed(entries)}|{seen.text}", f"client+{seen.rests_on}")


def _listed(entries: Sequence[str]) -> str:
    return msgspec.json.encode(entries).decode()


def _default_2(evidence: GroupingEvidence) -> Seen:
    kind, deciding, message = evidence.second or SecondEvidence(
        evidence.exception_type, evidence.deciding, evidence.message
    )
    decided_by = f"{'type+' if kind else ''}{'frame' if deciding else 'message'}{'+map_late' if evidence.late else ''}"
    if deciding is not None:
        return Seen(f"v2f|{kind or ''}|{deciding.file}|{deciding.function}", decided_by)
    return Seen(f"v2t|{kind or ''}|{template_2(message)}", decided_by)


def _version_3(evidence: GroupingEvidence) -> Seen:
    """A client's fingerprint with its variables, else identity, type and frames of each deciding error (G-198)."""
    return _by_client(evidence, (evidence.third or NOTHING).client, 3, _default_3)


def _default_3(evidence: GroupingEvidence) -> Seen:
    third = evidence.third or NOTHING
    template = third.template
    seen = [_of_error(error, template) for error in third.errors]
    if len(seen) > 1:
        seen = sorted(set(seen))
    text, parts = seen[0]
    text = f"v3|{text}" if len(seen) == 1 else f"v3s|{_listed([one.text for one in seen])}"
    if third.inside or third.minified or third.late:
        parts += f"{'+inside' * third.inside}{'+minified' * third.minified}{'+map_late' * third.late}"
    return Seen(text, parts)


def _of_error(error: ThirdError, template: str) -> Seen:
    """The compared parts of one error: with a frame no message joins in, but for the template of a logged one."""
    kind, identity, frames, message = error
    if not frames:
        if template and not kind:
            return Seen(f"t|{template_2(template)}", "template")
        return Seen(f"m|{kind}|{identity}|{template_2(message)}", _PARTS[bool(kind), bool(identity)] + "message")
    parts = _PARTS[bool(kind), bool(identity)] + "frames"
    text = f"f|{kind}|{identity}|{_UNIT.join(frames)}"
    return Seen(f"{text}|t|{template_2(template)}", f"{parts}+template") if template and not kind else Seen(text, parts)


_UNIT = "\x1f"  # the separator of units in ASCII
_PARTS = {(False, False): "", (True, False): "type+", (False, True): "identity+", (True, True): "type+identity+"}
NOTHING = ThirdEvidence((ThirdError("", "", (), ""),))
GROUPINGS: Versions = {1: _version_1, 2: _version_2, 3: _version_3}
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
    """Name a case after its first error: the type, and the first line of its message. The type stands there once."""
    kind, said = (evidence.exception_type or "", evidence.message) if evidence.third is None else evidence.third.title
    lines = said.strip().splitlines()
    line = lines[0][:LONGEST_LINE].strip() if lines else ""
    if not kind:
        return line[:TITLE_LENGTH]
    return f"{kind}: {_without_type(line, kind)}".removesuffix(": ")[:TITLE_LENGTH]


def _without_type(line: str, kind: str) -> str:
    """A message without the type before it, with or without its module."""
    while True:
        head, stop, rest = line.partition(":")
        named = head.removeprefix("Uncaught ").strip()
        if not stop or not (named == kind or named.endswith((f".{kind}", f"\\{kind}", f"::{kind}"))):
            break
        line = rest.strip()
    return "" if line == kind else line
