"""What a provider is asked about its `$exception` events, and its groups as errors of ours (G-182). Pure functions.

Each question is bounded, and its answer is decoded and checked in a thread. Times are epoch seconds of the provider's
clock.
"""

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, Protocol
from uuid import UUID

import msgspec

from schemas.cases.log import ERROR_LEVELS, LEVELS
from schemas.onboarding import PROOF_PROPERTY
from service.analytics.connecting.http import failure, parse
from service.ids import new_id
from service.ingest.foreign.common import without_lone
from service.ingest.foreign.posthog import EXCEPTION, Sent, to_record
from service.ingest.grouping.fingerprint import Grouping
from service.ingest.items import DEFAULT_ENVIRONMENT, Assignment, Item, LogRow, Sender
from service.ingest.scrubbing import Findings, Scrubber
from service.packing import unpack
from service.sql import load_query
from statemachines.cases.case import case_id
from statemachines.kernel.machine import ReadFailed

# What a connected provider is asked about its `$exception` events: counts by group first, then samples (G-182).

MOST_GROUPS = 1000
"""Groups of a minute in one answer."""
MOST_EVENTS = 10_000
"""Events behind the groups of one answer."""
MOST_SAMPLES = 200
LONGEST_SAMPLE = 65_536
"""Characters of the properties of a sample. Longer ones are left to the words of their group."""
LATE_SECONDS = 86_400
"""An event may be so much older than its arrival. It only narrows the provider's search."""

_CLOCK = load_query("analytics/connected", "exception_clock").text
_COUNT = load_query("analytics/connected", "exception_count").text
_GROUPS = load_query("analytics/connected", "exception_groups").text
_SAMPLES = load_query("analytics/connected", "exception_samples").text

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


# Groups of a provider's exceptions as errors of ours, and the sample of one (G-182). Pure functions. A group is
# known by its words at the provider. A sample of a new one passes the door of PostHog's SDKs, the grouping and the
# scrubber, as if its SDK had sent it here: an error known by both ways is one case. The fingerprints of a known
# group are kept. Of a sample nothing stays but its type, message, release, environment and own frames.

OPERATION = "read exceptions of the provider"
MOST_ERRORS = 10
MOST_FRAMES = 100
SHOWN_FRAMES = 20
"""Own frames of a kept sample."""

_FRAME = ("filename", "function", "abs_path", "module", "lineno", "colno", "in_app", "context_line")
_RESOLVED = {"source": "filename", "resolved_name": "function", "line": "lineno", "column": "colno"}
"""Members of a frame as the provider stores it, by those of its SDKs."""
_OWN_DIGITS = frozenset("0123456789abcdef")
_OWN_LENGTH = 64
_encode = msgspec.json.Encoder().encode


class KnownGrouping(NamedTuple):
    """A grouping of a known group: its version, fingerprint and grounds."""

    version: int
    fingerprint: str
    why: str


class MetGroup(NamedTuple):
    """Exceptions of a group to be counted, and the error they are. Times are of the service's clock.

    `sample` is kept of a new group. A known one has none.
    """

    group: str
    item: Item
    number: int
    people: int
    marked: bool
    first_at: int
    last_at: int
    ids: Sequence[str]
    sample: Mapping[str, Any] | None = None

    @property
    def row(self) -> LogRow:
        """The error as it is grouped."""
        assert isinstance(self.item.row, LogRow), "an exception is an error"
        return self.item.row


def group_id(row: GroupCount) -> str:
    """The name of a group, whatever its release and environment."""
    told = (row.kind, row.frames, row.said, row.client, row.level)
    return hashlib.sha256(_encode(told)).hexdigest()[:32]


def is_error(row: GroupCount) -> bool:
    """Whether its level is an error's. The provider's SDKs leave this one out."""
    return LEVELS.get(row.level.lower() or "error", "error") in ERROR_LEVELS


def sender_of(project_id: str) -> Sender:
    """The provider as a sender."""
    return Sender(project_id, "", new_id("req"), None, "", provider=True)


def known(sender: Sender, row: GroupCount, offered: Sequence[KnownGrouping], scrubber: Scrubber) -> Item:
    """The error of a known group."""
    item = Item(OPERATION, sender, None, b"")
    item.offered = tuple(
        Assignment(case_id(sender.project_id, one.fingerprint), Grouping(*one))
        for one in map(KnownGrouping._make, offered)
    )
    environment, release = _places(row, scrubber)
    level = LEVELS.get(row.level.lower(), "error")
    item.row = LogRow(sender.project_id, new_id("log"), level, "", environment, release, None, None, {}, {}, None)
    return item


def first_met(sender: Sender, row: GroupCount, sample: Any, scrubber: Scrubber) -> Item:
    """The error of a new group, grouped and scrubbed. Without a sample, the words of the group make it up."""
    told = sample if isinstance(sample, dict) else {}
    properties: dict[str, Any] = {
        name: told[name] for name in ("$exception_type", "$exception_message") if isinstance(told.get(name), str)
    }
    if errors := _errors(told.get("$exception_list")):
        properties["$exception_list"] = errors
    if not properties:
        properties["$exception_list"] = [_told_by(row)]
    named = {"$exception_level": row.level, "$exception_fingerprint": row.client, "release": row.release}
    properties |= {name: text for name, text in named.items() if text}
    if _is_of_client(client := told.get("$exception_fingerprint")):
        properties["$exception_fingerprint"] = client
    properties["environment"] = row.environment or DEFAULT_ENVIRONMENT
    record = to_record({"event": EXCEPTION, "uuid": row.newest, "properties": properties}, Sent(None, ()))
    assert not isinstance(record, str), "an exception is taken"
    item = Item(OPERATION, sender, record.body, record.raw, client=record.client, before=record.before)
    item.prepare(scrubber)
    return item


def sample_of(item: Item, row: GroupCount, at: int) -> dict[str, Any]:
    """The kept part of a new group's sample, received `at` (epoch seconds), in the form of a latest error."""
    shown = item.row
    assert isinstance(shown, LogRow), "an exception is an error"
    extra = shown.extra if shown.packed is None else unpack(shown.packed)
    sent = extra.get("exception")
    error = sent if isinstance(sent, dict) else {}
    frames = [frame for frame in error.get("frames", ()) if isinstance(frame, dict) and frame.get("in_app") is True]
    own = [{name: frame[name] for name in ("file", *_FRAME) if name in frame} for frame in frames[:SHOWN_FRAMES]]
    return {
        "id": row.newest,
        "message": shown.message,
        "level": shown.level,
        "environment": shown.environment,
        "release": shown.release,
        "user_id": None,
        "tags": {},
        "received_at": at,
        "occurred_at": at,
        "adjusted": [],
        "exception": {**{name: error[name] for name in ("type", "value") if name in error}, "frames": own},
    }


def _places(row: GroupCount, scrubber: Scrubber) -> tuple[str, str | None]:
    """The environment and the release of a group, without secrets of this service."""
    suspicion = scrubber.look(_encode((row.environment, row.release)))
    counts = Findings()
    environment = scrubber.kept_text(row.environment or DEFAULT_ENVIRONMENT, suspicion, counts)
    return environment, scrubber.kept_text(row.release, suspicion, counts) or None


def _errors(listed: Any) -> list[dict[str, Any]]:
    """The exceptions of a sample as an SDK would send them."""
    if not isinstance(listed, list):
        return []
    return [_error(one) for one in listed[:MOST_ERRORS] if isinstance(one, dict)]


def _error(one: Mapping[str, Any]) -> dict[str, Any]:
    trace = one.get("stacktrace")
    frames = trace.get("frames") if isinstance(trace, dict) else None
    listed = frames[-MOST_FRAMES:] if isinstance(frames, list) else []
    kept = {name: one[name] for name in ("type", "value", "module", "mechanism") if name in one}
    return {**kept, "stacktrace": {"frames": [_frame(frame) for frame in listed if isinstance(frame, dict)]}}


def _frame(frame: Mapping[str, Any]) -> dict[str, Any]:
    """A frame by the names of SDKs. The provider stores a resolved one by names of its own."""
    resolved = {name: frame[stored] for stored, name in _RESOLVED.items() if frame.get(stored) is not None}
    if "function" not in resolved and frame.get("mangled_name"):
        resolved["function"] = frame["mangled_name"]
    return resolved | {name: frame[name] for name in _FRAME if frame.get(name) is not None}


def _told_by(row: GroupCount) -> dict[str, Any]:
    """The exception made up of the words of a group."""
    places = [line.partition("\t") for line in row.frames.split("\n") if line]
    frames = [{"filename": filename, "function": function} for filename, _, function in places]
    return {"type": row.kind, "value": row.said or row.kind, "stacktrace": {"frames": frames}}


def _is_of_client(fingerprint: Any) -> bool:
    """Whether an SDK set a fingerprint. The provider writes a hash of its own where there is none."""
    if not isinstance(fingerprint, str):
        return isinstance(fingerprint, list)
    return not (len(fingerprint) >= _OWN_LENGTH and _OWN_DIGITS.issuperset(fingerprint))
