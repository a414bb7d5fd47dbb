"""Which case an error belongs to, and why (G-031). Pure functions.

Grouping sees an event before secrets are cut out of its texts (G-135): only a hash of what it sees is kept, and no case
falls apart because another form of secret is known. A text with a secret of this service it sees hidden as a whole.

A grouping is a version: a way to turn an event into a fingerprint. Versions are only ever added. An event is offered
the fingerprint of every version; the oldest one that already has a case wins, and only an event that no version
knows opens a case under the newest. So a new version can merge what is new, but never tears an old case apart.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

TEMPLATE_LENGTH = 500
TITLE_LENGTH = 200

# What varies between repetitions of a message: quoted text, UUIDs, runs of eight hexadecimal digits or more, numbers.
# An apostrophe ("can't") quotes nothing: a single quote opens only where no word ends. The first line lets the engine
# pass over most characters with one look, which makes the whole three times as fast.
_VARIABLE = re.compile(
    r"""(?=["'`0-9a-f])(?:
        [0-9a-f]{8}(?:(?:-[0-9a-f]{4}){3}-[0-9a-f]{12} | [0-9a-f]*)
        | 0x[0-9a-f]+
        | \d+(?:[.,]\d+)*
        | "[^"]*"
        | '(?<!\w')[^']*'(?!\w)
        | `[^`]*`
    )""",
    re.VERBOSE,
)


class GroupingEvidence(NamedTuple):
    """What grouping looks at: the exception's type, its top in-app frame, and the message."""

    exception_type: str | None
    frame: str | None
    message: str


class Grouping(NamedTuple):
    """An assignment: the version that made it, the fingerprint, and what it rests on."""

    version: int
    fingerprint: str
    why: str


def message_template(message: str) -> str:
    """Reduce a message to what its repetitions share: lowercase, variable parts as `#`, one space between words."""
    return " ".join(_VARIABLE.sub("#", message.lower()).split())[:TEMPLATE_LENGTH]


def _version_1(evidence: GroupingEvidence) -> str:
    return f"{evidence.exception_type or ''}|{evidence.frame or ''}|{message_template(evidence.message)}"


GROUPINGS: Mapping[int, Callable[[GroupingEvidence], str]] = {1: _version_1}
"""Every version ever released, oldest first: the text whose hash is the fingerprint."""


REMEMBERED_LENGTH = 1024
"""Characters of the longest text whose assignment is remembered: what is kept is bounded, whatever is sent."""


_RESTS_ON = {
    (False, False): "message",
    (False, True): "frame+message",
    (True, False): "type+message",
    (True, True): "type+frame+message",
}
"""What an assignment rests on, by whether there is a type and a frame."""


def _assign(version: int, text: str, rests_on: str) -> Grouping:
    """The assignment that a text stands for."""
    return Grouping(version, hashlib.sha256(text.encode()).hexdigest()[:32], f"v{version}:{rests_on}")


_remembered = lru_cache(maxsize=4096)(_assign)  # Errors repeat themselves.


def _grouping(version: int, text: str, rests_on: str) -> Grouping:
    return (_remembered if len(text) <= REMEMBERED_LENGTH else _assign)(version, text, rests_on)


def group(
    evidence: GroupingEvidence, groupings: Mapping[int, Callable[[GroupingEvidence], str]] = GROUPINGS
) -> tuple[Grouping, ...]:
    """Offer the assignment of every version, oldest first."""
    rests_on = _RESTS_ON[bool(evidence.exception_type), bool(evidence.frame)]
    return tuple([_grouping(version, text(evidence), rests_on) for version, text in groupings.items()])


def gather(message: str, extra: Mapping[str, Any] | None, see: Callable[[str], str] = str) -> GroupingEvidence:
    """Find the evidence in a log event; `see` says how each text is seen.

    `extra.exception` is free form: whatever does not fit is as if absent.
    """
    exception = extra.get("exception") if extra else None
    if not isinstance(exception, dict):
        return GroupingEvidence(None, None, see(message))
    kind = exception.get("type")
    seen = see(kind) if isinstance(kind, str) and kind else None
    return GroupingEvidence(seen, _top_frame(exception.get("frames"), see), see(message))


def _top_frame(frames: Any, see: Callable[[str], str]) -> str | None:
    """Name the first in-app entry as `file:function`."""
    if not isinstance(frames, list):
        return None
    for frame in frames:
        if isinstance(frame, dict) and frame.get("in_app") is True:
            file, function = frame.get("file"), frame.get("function")
            if isinstance(file, str) or isinstance(function, str):
                return (
                    f"{see(file) if isinstance(file, str) else ''}:{see(function) if isinstance(function, str) else ''}"
                )
    return None


def title(evidence: GroupingEvidence) -> str:
    """Name a case after its first error: the exception's type and the first line of the message."""
    lines = evidence.message.strip().splitlines()
    line = lines[0].strip() if lines else ""
    return f"{evidence.exception_type}: {line}"[:TITLE_LENGTH] if evidence.exception_type else line[:TITLE_LENGTH]
