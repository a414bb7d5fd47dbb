"""One telemetry record on its way into the database: everything that can be worked out before it is (G-030, G-033).

A record waits as it came in, and is prepared together with the others of its flush: done for one record after the
other, the same work takes a fraction of the time that it takes between requests. A prepared record carries its row
except for the case, which is known under the locks; the time of receipt is that of the flush.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, cast

import msgspec

from schemas.analytics import AnalyticsAccepted, AnalyticsEvent
from schemas.cases.log import ERROR_LEVELS, LEVELS, MAX_EXTRA_BYTES, Level, LogAccepted, LogEvent
from schemas.kernel.published import body_schema
from schemas.onboarding import PROOF_PROPERTY
from service.auth.authority import Authority
from service.auth.refusals import InvalidPayload
from service.cases.sourcemaps.deciding import LATE, Mapped, MappedFrame, Minified, minified_frames
from service.eventstore.declare import names
from service.eventstore.declare.commands import Origin, Outcome
from service.eventstore.state.cache import RecordName, Waiter
from service.fairness.turns import CommandNotDone, sharing
from service.ids import new_id
from service.ingest.bounds import SURELY_FITS, cut_event, drop_variables, keep_variables, tells_of_error, tidy
from service.ingest.grouping.fingerprint import (
    Before,
    DecidingFrame,
    EventNames,
    FirstEvidence,
    Grouping,
    GroupingEvidence,
    gather,
    group,
)
from service.ingest.grouping.first import bare_symbol, base_name, is_library
from service.ingest.grouping.frames import LedBack
from service.ingest.outcomes import NO_CLOCK, SdkClock
from service.ingest.people import MERGES, PersonTold, other_name, told_of
from service.ingest.scrubbing import KEPT_OF_OTHERS, KEPT_OF_USER, Findings, Scrubber, without_own
from service.packing import PACKED_FROM, pack
from statemachines.cases import case

_encode = msgspec.json.Encoder().encode
DEADLINE = 2.5  # seconds a record may wait for its commit
OVERHEAD = 2048  # bytes of memory that a waiting record takes at least
WEIGHT = 4  # bytes of memory for a byte of its body: a decoded object is larger than its text
VALUE_WEIGHT = 64  # bytes of memory for each value in it, told by its commas
KEY_WEIGHT = 256  # bytes for each property of an analytics event: what counting it takes, as memory stands for time
DEFAULT_ENVIRONMENT = "production"
DEFAULT_LEVEL = "error"
_PROOF_BYTES = PROOF_PROPERTY.encode()
STORED = 202
"""The status of the answer to a record that is stored."""
LOGS = "POST /v1/logs/"
ANALYTICS = "POST /v1/analytics/"
IMPORT_MARK = "import:"
"""Begin of the mark of errors from an import, which no SHA-256 has."""
NEXT_FOR_ERROR = "Nothing to do. The case in case_id holds this error."
NEXT_FOR_LOG = "Nothing to do."
NEXT_FOR_ANALYTICS = "Nothing to do."


class Importing(NamedTuple):
    """An error out of an export: who imports it, its id there, and the state of its issue.

    `authority` is proven again under the gates of the flush that stores it. `actor` is the kind and the id of the
    person's credential.
    """

    authority: Authority
    actor: tuple[str, str]
    event_id: str
    wished: case.Status

    @property
    def mark(self) -> str:
        """What its row has in the place of a proof marker: it counts for no decision, and is found again by it."""
        return f"{IMPORT_MARK}{self.event_id}"


class Sender(NamedTuple):
    """Who sends a record, and under which names the request is known. `request_hash` matters only with a `key`.

    `account` is whose share of the process the record takes; "": the project's own. `public`: the DSN is the one of
    pages, whose source anybody can read (G-184). `default_level` and `frame_variables` are settings of the project.
    `provider`: the connected provider (G-182). `importing`: a person sends it out of an export.
    """

    project_id: str
    dsn_hash: str
    request_id: str
    key: str | None
    request_hash: str
    account: str = ""
    public: bool = False
    default_level: str = DEFAULT_LEVEL
    frame_variables: bool = False
    provider: bool = False
    importing: Importing | None = None

    def origin(self, operation: str) -> Origin:
        """The actor of the events of a record."""
        if self.provider:
            return Origin("system", "provider", operation, self.request_id)
        if self.importing is not None:
            return Origin(*self.importing.actor, operation, self.request_id)
        return Origin(self.kind, self.project_id, operation, self.request_id)

    @property
    def kind(self) -> str:
        """The kind of its principal, as idempotency records and events have it."""
        return "public_dsn" if self.public else "dsn"

    @property
    def tenant(self) -> str:
        """Who is served in turn with others."""
        return self.account or self.project_id


class Adjustments(NamedTuple):
    """In how many places a body was changed so that it could be taken, and the paths of the first of them (G-133)."""

    changes: int = 0
    places: tuple[str, ...] = ()


AS_SENT = Adjustments()


class Part(NamedTuple):
    """The place of a record in an export, which is what its key names, and how many records that has.

    Which of them are stored is remembered as a text of as many digits, 1 for each that is.
    """

    place: int
    of: int

    def is_in(self, places: bytes | bytearray) -> bool:
        """Whether the record is stored."""
        return places[self.place : self.place + 1] == _IS_STORED

    def none(self) -> bytearray:
        """The text for an export of which nothing is stored."""
        return bytearray(_IS_NOT * self.of)

    def put_in(self, places: bytearray) -> None:
        """Mark the record as stored."""
        places[self.place : self.place + 1] = _IS_STORED


_IS_STORED, _IS_NOT = b"1", b"0"


class Assignment(NamedTuple):
    """A case that an error may belong to: its stream's id and the grouping that says so."""

    case_id: str
    grouping: Grouping


class LogRow(msgspec.Struct, omit_defaults=True):
    """A row of log_events; field names are its columns. Either `extra` holds what was sent, or `packed` does.

    `public`: it came by the public DSN of the project, or with an import. `happened` and `sent` are no columns: the
    database works `occurred_at` out of them.
    """

    project_id: str
    id: str
    level: str
    message: str
    environment: str
    release: str | None
    user_id: str | None
    user_data: dict[str, Any] | None
    tags: Mapping[str, Any]
    extra: Mapping[str, Any]
    marker_hash: str | None
    adjusted: tuple[str, ...] | None = None
    public: bool = False
    packed: bytes | None = None
    case_id: str | None = None
    fingerprint: str | None = None
    grouped_by: str | None = None
    happened: int | None = None
    sent: int | None = None


class AnalyticsRow(msgspec.Struct, omit_defaults=True):
    """A row of analytics_events; field names are its columns. `public`, `happened` and `sent` as in LogRow."""

    project_id: str
    id: str
    event: str
    distinct_id: str
    properties: Mapping[str, Any]
    marker_hash: str | None
    adjusted: tuple[str, ...] | None = None
    public: bool = False
    happened: int | None = None
    sent: int | None = None


@dataclass(slots=True, eq=False)
class Item:
    """A record: what came in, until it is prepared, and its row from then on.

    `client` is the fingerprint of an SDK, `first` and `before` the evidence of older versions where more is read since,
    `clock` what the SDK says of its time.
    `minified` are its frames of scripts, and `mapped` their sources by maps. `offered` lists the cases an
    error may belong to, oldest grouping first, and `evidence` their grounds. Other records have none.
    """

    operation: str  # by which it came, as idempotency records name it
    sender: Sender
    body: LogEvent | AnalyticsEvent | None = field(repr=False)  # None once it is prepared
    raw: bytes = field(repr=False)
    adjustments: Adjustments = AS_SENT
    part: Part | None = None  # of an export, which its key names as a whole
    client: Sequence[str] = ()
    first: FirstEvidence | None = None
    before: Before | None = None
    clock: SdkClock = NO_CLOCK
    minified: Sequence[Minified] = ()
    mapped: Sequence[Mapped] = ()
    size: int = field(init=False)  # bytes of memory, by estimate
    turn: str = field(init=False)  # its tenant, and inside that its project
    row: LogRow | AnalyticsRow = field(init=False, repr=False)
    scrubbed: Mapping[str, int] = field(default_factory=dict)  # values that were hidden, by kind
    offered: tuple[Assignment, ...] = ()
    evidence: GroupingEvidence | None = None
    person: PersonTold | None = None  # what it says of its person beside itself
    key_record: RecordName | None = None  # name of its idempotency record, if it has a key
    key_name: str = ""  # what repeats of it are locked under
    waiter: Waiter[Outcome] | None = None
    deadline: float = field(default_factory=lambda: time.monotonic() + DEADLINE)
    due: float = 0.0
    delay: float = 0.0

    def __post_init__(self) -> None:
        self.size = OVERHEAD + WEIGHT * len(self.raw) + VALUE_WEIGHT * self.raw.count(b",")
        if isinstance(self.body, AnalyticsEvent) and self.body.properties:
            self.size += KEY_WEIGHT * len(self.body.properties)
        key, project_id = self.sender.key, self.sender.project_id
        self.turn = sharing(self.sender.account, project_id) or project_id
        if key is not None:
            self.key_record = (project_id, f"{self.sender.kind}:{project_id}", self.operation, key)
            self.key_name = names.key(*self.key_record)

    def find_minified(self) -> Sequence[Minified]:
        """Find the frames of scripts in an error before it is prepared."""
        body = self.body
        if isinstance(body, LogEvent) and body.extra and self._level_of(body) in ERROR_LEVELS:
            self.minified = minified_frames(body.extra, body.release)
        return self.minified

    @property
    def names_no_level(self) -> bool:
        """Whether it is an unprepared native record without a level. SDK doors always name one."""
        return isinstance(self.body, LogEvent) and self.body.level is None

    def _level_of(self, body: LogEvent) -> Level:
        """The level of a record as sent, else that of an error or of the project's setting (G-191)."""
        if body.level is not None:
            return LEVELS[body.level]
        return LEVELS[DEFAULT_LEVEL if tells_of_error(body.message, body.extra) else self.sender.default_level]

    def prepare(self, scrubber: Scrubber) -> None:
        """Work out the row and the cases on offer, and drop the body. A second call does nothing."""
        match self.body:
            case LogEvent() as body:
                self._prepare_log(body, scrubber)
            case AnalyticsEvent() as body:
                self._prepare_analytics(body, scrubber)
        self.body, self.raw = None, b""

    def _prepare_log(self, body: LogEvent, scrubber: Scrubber) -> None:
        user = None if body.user is None else _user_of(self.raw).user
        message, environment, release = body.message, body.environment or DEFAULT_ENVIRONMENT, body.release
        tags = {name: value for name, value in body.tags.items() if value is not None} if body.tags else {}
        extra = body.extra or {}
        level = self._level_of(body)
        suspicion = scrubber.look(self.raw)
        counts = Findings()
        if extra:
            if self.sender.frame_variables:
                for held in keep_variables(extra):
                    scrubber.spelt(held, counts)
            else:
                drop_variables(extra)
            if read := tidy(extra):
                suspicion = suspicion.also(scrubber.look(read))
        if level in ERROR_LEVELS:
            names = EventNames(level, environment, release, tags)
            self.evidence = self._gather(message, extra, without_own if suspicion.own else str, names)
            self.offered = _offered(self.sender.project_id, group(self.evidence))
        if suspicion:
            message = scrubber.text(message, suspicion, counts)
            environment = scrubber.kept_text(environment, suspicion, counts)
            release = release and scrubber.kept_text(release, suspicion, counts)
            scrubber.tree(user or {}, suspicion, counts, KEPT_OF_USER)
            scrubber.tree(tags, suspicion, counts, KEPT_OF_OTHERS)
            scrubber.tree(extra, suspicion, counts, KEPT_OF_OTHERS)
            if self.evidence is not None and counts:
                self.evidence = gather(message, extra)  # What a case is called after is shown.
        if counts:
            self.scrubbed = counts
        marker = _hash_marker(self.raw, tags, extra)
        self.row = LogRow(
            self.sender.project_id,
            new_id("log"),
            level,
            message,
            environment,
            release,
            None if user is None else str(user["id"]),
            user,
            tags,
            extra,
            marker,
            self.adjustments.places or None,
            self.sender.public,
        )
        self.row.happened, self.row.sent = self.clock
        if (importing := self.sender.importing) is not None:
            self.row.marker_hash, self.row.public = importing.mark, True
        if len(self.raw) > SURELY_FITS:
            self._bound(self.row)
        if len(self.raw) >= PACKED_FROM and marker is None and (packed := pack(self.row.extra)) is not None:
            self.row.extra, self.row.packed = {}, packed

    def _bound(self, row: LogRow) -> None:
        """Cut an event with marks longer than their texts, after its scrubbing."""
        parts: dict[str, Any] = {"tags": row.tags}
        if row.user_data is not None:
            parts["user_data"] = {"id": row.user_data["id"], **row.user_data}
        row.extra = cut_event(parts, dict(row.extra), len(_encode((row.message, row.environment, row.release))))
        row.tags, row.user_data = parts["tags"], parts.get("user_data")

    def _gather(
        self, message: str, extra: Mapping[str, Any], see: Callable[[str], str], names: EventNames
    ) -> GroupingEvidence:
        """What grouping looks at, with its minified frames as source maps lead them back."""
        led = list(zip(self.minified, self.mapped, strict=True)) if self.mapped else []
        places = {one.place: _placed(place) for one, place in led if place is not None and place is not LATE}
        evidence = gather(message, extra, see, self.client, names=names, before=self.before, places=places)
        if self.first is not None:
            kind, frame, said = self.first
            first = FirstEvidence(None if kind is None else see(kind), None if frame is None else see(frame), see(said))
            evidence = evidence._replace(first=first)
        if not led:
            return evidence
        if any(place is LATE for _, place in led) and evidence.third is not None:
            evidence = evidence._replace(third=evidence.third._replace(late=True))
        innermost, place = led[0]
        if not innermost.decides or place is None:
            return evidence
        if place is LATE:
            return evidence._replace(late=True)
        named = bare_symbol(place.function or "") or place.text  # A line survives the changes around it.
        return evidence._replace(deciding=DecidingFrame(see(base_name(place.source)), see(named)))

    def _prepare_analytics(self, body: AnalyticsEvent, scrubber: Scrubber) -> None:
        event, distinct_id = body.event, body.distinct_id
        properties = body.properties or {}
        other = other_name(event, properties)
        suspicion = scrubber.look(self.raw)
        if suspicion:
            counts = Findings()
            event = scrubber.kept_text(event, suspicion, counts)
            distinct_id = scrubber.kept_text(distinct_id, suspicion, counts)
            other = other and scrubber.kept_text(other, suspicion, Findings())  # It is counted among the properties.
            scrubber.tree(properties, suspicion, counts, KEPT_OF_OTHERS)
            self.scrubbed = counts
        self.person = told_of(self.sender.project_id, event, distinct_id, other, properties)
        marker = _hash_marker(self.raw, properties)
        self.row = AnalyticsRow(
            self.sender.project_id,
            new_id("evt"),
            event,
            distinct_id,
            properties,
            marker,
            self.adjustments.places or None,
            self.sender.public,
        )
        self.row.happened, self.row.sent = self.clock

    def answer(self, received_at: int) -> bytes:
        """Make the answer to a stored record, its case known by now."""
        row, adjusted = self.row, self.adjustments.changes or msgspec.UNSET
        if isinstance(row, AnalyticsRow):
            return _encode(
                AnalyticsAccepted(row.id, row.project_id, received_at, row.event, NEXT_FOR_ANALYTICS, adjusted)
            )
        return _encode(
            LogAccepted(
                row.id,
                row.project_id,
                received_at,
                cast("Level", row.level),
                row.case_id,
                row.fingerprint,
                NEXT_FOR_ERROR if row.case_id else NEXT_FOR_LOG,
                adjusted,
            )
        )


def _placed(mapped: MappedFrame) -> LedBack:
    """A frame for the grouping. Files in folders of libraries are theirs."""
    library = mapped.library or is_library(mapped.source)
    return LedBack(mapped.source, mapped.function, mapped.text or str(mapped.line), library)


def _hash_marker(raw: bytes, *holders: dict[str, Any]) -> str | None:
    """Find the proof marker and keep only its hash, which is returned, in the place of its text (G-084).

    `raw` is the whole body: as long as it does not spell the property, nothing is looked for.
    """
    if _PROOF_BYTES not in raw and (b"\\" not in raw or b"\\u" not in raw):  # A search for one byte is far shorter.
        return None
    found = None
    for holder in holders:
        value = holder.get(PROOF_PROPERTY)
        if isinstance(value, str) and value:
            hashed = hashlib.sha256(value.encode()).hexdigest()
            found = found or hashed
            holder[PROOF_PROPERTY] = f"sha256:{hashed}"
    return found


@lru_cache(maxsize=8192)
def _offered(project_id: str, groupings: tuple[Grouping, ...]) -> tuple[Assignment, ...]:
    return tuple(Assignment(case.case_id(project_id, grouping.fingerprint), grouping) for grouping in groupings)


class _UserOf(msgspec.Struct):
    """The part of a log body that holds the user, with the keys that its declared type leaves out."""

    user: dict[str, Any] | None = None


_user_of = msgspec.json.Decoder(_UserOf).decode


def take_log(sender: Sender, body: LogEvent, raw: bytes, adjustments: Adjustments = AS_SENT) -> Item:
    """Take in a log event; `raw` is the text of `body`. Raises InvalidPayload when `extra` is too large."""
    check_extra(body, raw)
    return Item(LOGS, sender, body, raw, adjustments)


def check_extra(body: LogEvent, raw: bytes) -> None:
    """Raise InvalidPayload when `extra` of a log event is too large; `raw` is its text."""
    if len(raw) > MAX_EXTRA_BYTES and len(_encode(body.extra)) > MAX_EXTRA_BYTES:
        raise InvalidPayload(
            invalid=[("extra", f"must hold at most {MAX_EXTRA_BYTES} bytes when written as JSON")],
            schema=body_schema(LogEvent),
        )


def take_analytics(sender: Sender, body: AnalyticsEvent, raw: bytes, adjustments: Adjustments = AS_SENT) -> Item:
    """Take in an analytics event; `raw` is the text of `body`. Raises InvalidPayload as `check_event`."""
    check_event(sender, body)
    return Item(ANALYTICS, sender, body, raw, adjustments)


def check_event(sender: Sender, body: LogEvent | AnalyticsEvent) -> None:
    """Raise InvalidPayload for an event that merges people, by the DSN that everybody can read (G-184)."""
    if sender.public and isinstance(body, AnalyticsEvent) and body.event == MERGES:
        raise InvalidPayload(invalid=[("event", f"must not be {MERGES} by a public DSN")])


# The records of one request wait together: one look at what has become of them, and not a future for each. Belongs to
# one event loop.

Result = Outcome | Exception


class Together:
    """What has become of the records of a request, by their places in it."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._results: list[Result | None] = [None] * len(items)
        self._news = asyncio.Event()
        self.waiting = 0  # that were taken in and have no result yet

    def place(self, index: int) -> PartWaiter:
        """The place of a record that is taken in."""
        self.waiting += 1
        return PartWaiter(self, index)

    def has(self, index: int) -> bool:
        """Whether a record has its result."""
        return self._results[index] is not None

    def tell(self, index: int, result: Result) -> None:
        """Take the result of a record."""
        self._results[index] = result

    def told(self) -> None:
        """One of those that wait has its result."""
        self.waiting -= 1
        self._news.set()

    async def news(self) -> None:
        """Wait until another one has its result."""
        self._news.clear()
        await self._news.wait()

    def results(self) -> list[Result]:
        """The result of each; a record that was never taken in was certainly not stored."""
        return [CommandNotDone() if result is None else result for result in self._results]


class PartWaiter:
    """Stands for one record of several where the intake tells its caller: it is used like a future."""

    __slots__ = ("_index", "_together")

    def __init__(self, together: Together, index: int) -> None:
        self._together = together
        self._index = index

    def done(self) -> bool:
        """Whether it has its result."""
        return self._together.has(self._index)

    def set_result(self, outcome: Outcome) -> None:
        """Take what became of it."""
        self._together.tell(self._index, outcome)
        self._together.told()

    def set_exception(self, error: Exception) -> None:
        """Take why it was not stored."""
        self._together.tell(self._index, error)
        self._together.told()
