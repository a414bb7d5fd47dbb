"""What a connected provider is asked about its `$exception` events: counts by group first, then samples (G-182).

Each question is bounded, and its answer is decoded and checked in a thread. Times are epoch seconds of the provider's
clock.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Protocol
from uuid import UUID

import msgspec

from schemas.onboarding.proof import PROOF_PROPERTY
from service.analytics.connecting.http import failure, parse
from service.eventstore.declare.names import load_sql
from service.ingest.foreign.members import without_lone
from statemachines.kernel.readings import ReadFailed

MOST_GROUPS = 1000
"""Groups of a minute in one answer."""
MOST_EVENTS = 10_000
"""Events behind the groups of one answer."""
MOST_SAMPLES = 200
LONGEST_SAMPLE = 65_536
"""Characters of the properties of a sample. Longer ones are left to the words of their group."""
LATE_SECONDS = 86_400
"""An event may be so much older than its arrival. It only narrows the provider's search."""

_CLOCK = load_sql("analytics", "connected/exception_clock")
_COUNT = load_sql("analytics", "connected/exception_count")
_GROUPS = load_sql("analytics", "connected/exception_groups")
_SAMPLES = load_sql("analytics", "connected/exception_samples")

_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")

_Text = Annotated[str, msgspec.Meta(max_length=1000)]
_Number = Annotated[int, msgspec.Meta(ge=0, le=2**40)]
_Id = Annotated[str, msgspec.Meta(min_length=32, max_length=36)]


class ExceptionSource(Protocol):
    """A connection for questions."""

    async def answer(self, query: str, values: Mapping[str, Any]) -> bytes | ReadFailed:
        """Carry out a query, and return the text of the provider's answer."""


class GroupCount(NamedTuple):
    """Arrivals of one group, environment and release within a minute.

    `frames` are the innermost ones, and `said` the message without its numbers where there are none. `client` is the
    fingerprint set by the SDK. `marked`: they carry a proof marker. `happened` is the latest time by the SDK.
    """

    kind: _Text
    frames: _Text
    said: _Text
    client: _Text
    level: _Text
    environment: _Text
    release: _Text
    marked: Annotated[int, msgspec.Meta(ge=0, le=1)]
    minute: _Number
    number: _Number
    people: _Number
    first: _Number
    last: _Number
    happened: int
    ids: Annotated[list[_Id], msgspec.Meta(min_length=1, max_length=MOST_EVENTS)]
    newest: _Id


class ArrivalWindow(NamedTuple):
    """Arrivals from `since` to before `until`."""

    since: int
    until: int

    def values(self) -> dict[str, int]:
        """The window as queries name it."""
        return {"since": self.since, "until": self.until, "earliest": max(0, self.since - LATE_SECONDS)}


class _Clock(msgspec.Struct):
    results: Annotated[list[tuple[_Number, _Number]], msgspec.Meta(min_length=1, max_length=1)]


class _Count(msgspec.Struct):
    results: Annotated[list[tuple[_Number]], msgspec.Meta(min_length=1, max_length=1)]


class _Groups(msgspec.Struct):
    results: Annotated[list[GroupCount], msgspec.Meta(max_length=MOST_GROUPS)]


class _Samples(msgspec.Struct):
    results: Annotated[list[tuple[_Id, str]], msgspec.Meta(max_length=MOST_SAMPLES)]


async def ask_clock(asked: ExceptionSource, since: int, reach: int) -> tuple[int, int] | ReadFailed:
    """Tell the provider's clock, and how many exceptions came in since a time, of the last `reach` seconds."""
    answer = await asked.answer(_CLOCK, {"since": since, "reach": reach, "oldest": reach + LATE_SECONDS})
    found = answer if isinstance(answer, ReadFailed) else parse(answer, _Clock)
    return found if isinstance(found, ReadFailed) else found.results[0]


async def ask_count(asked: ExceptionSource, window: ArrivalWindow) -> int | ReadFailed:
    """Count the exceptions of a window."""
    answer = await asked.answer(_COUNT, window.values())
    found = answer if isinstance(answer, ReadFailed) else parse(answer, _Count)
    return found if isinstance(found, ReadFailed) else found.results[0][0]


async def ask_groups(asked: ExceptionSource, window: ArrivalWindow) -> list[GroupCount] | ReadFailed:
    """Count the exceptions of a window by group, the oldest minute first."""
    values = {**window.values(), "proof": PROOF_PROPERTY, "events": MOST_EVENTS, "groups": MOST_GROUPS}
    answer = await asked.answer(_GROUPS, values)
    return answer if isinstance(answer, ReadFailed) else await asyncio.to_thread(_groups_in, answer)


async def ask_samples(asked: ExceptionSource, window: ArrivalWindow, ids: Sequence[str]) -> dict[str, Any] | ReadFailed:
    """Tell the properties of exceptions by uuid. None in the place of those too long, or in no agreed form."""
    values = {**window.values(), "ids": list(ids), "longest": LONGEST_SAMPLE, "most": MOST_SAMPLES}
    answer = await asked.answer(_SAMPLES, values)
    return answer if isinstance(answer, ReadFailed) else await asyncio.to_thread(_samples_in, answer)


def storable(text: bytes) -> bytes:
    """A JSON text with the mark of a lost character in place of NUL and of lone surrogates: no column holds these."""
    if b"\\u0000" not in text and b"\\ud" not in text.lower():
        return text
    return _NUL.sub(rb"\1\\ufffd", without_lone(text))


def _groups_in(answer: bytes) -> list[GroupCount] | ReadFailed:
    found = parse(storable(answer), _Groups)
    if isinstance(found, ReadFailed):
        return found
    try:
        rows = [
            row._replace(ids=[UUID(one).hex for one in row.ids], newest=str(UUID(row.newest))) for row in found.results
        ]
    except ValueError:
        return failure("malformed")
    in_time = all(row.minute <= row.first <= row.last < row.minute + 60 for row in rows)
    if not in_time or sum(len(row.ids) for row in rows) > MOST_EVENTS:
        return failure("malformed")
    return rows


def _samples_in(answer: bytes) -> dict[str, Any] | ReadFailed:
    found = parse(storable(answer), _Samples)
    if isinstance(found, ReadFailed):
        return found
    samples: dict[str, Any] = {}
    for uuid, text in found.results:
        try:
            samples[uuid] = msgspec.json.decode(storable(text.encode())) if text else None
        except (msgspec.DecodeError, RecursionError):
            samples[uuid] = None
    return samples
