"""One telemetry record on its way into the database: everything that can be worked out before it is (G-030, G-033).

A record is prepared in its request's coroutine, so that the flusher, which serves all of them in one thread, only
joins strings. A prepared record carries its row as COPY text but for the receive time and the case, which are known
under the locks.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from schemas.analytics import AnalyticsAccepted, AnalyticsEvent
from schemas.logs import ERROR_LEVELS, LEVELS, MAX_EXTRA_BYTES, LogAccepted, LogEvent
from schemas.onboarding import PROOF_PROPERTY
from service.eventstore.commands import Outcome
from service.http.errors import InvalidPayload
from service.http.operations import Call
from service.ids import new_id
from service.ingest.grouping import Evidence, Grouping, assignments, gather
from service.ingest.scrubbing import Scrubber
from statemachines import case

DEADLINE = 2.5  # seconds a record may wait for its commit
OVERHEAD = 2048  # bytes of memory that a waiting record takes beside its texts
DEFAULT_ENVIRONMENT = "production"
_PROOF_BYTES = PROOF_PROPERTY.encode()
LOGS = "POST /v1/logs/"
ANALYTICS = "POST /v1/analytics/"
NEXT_FOR_ERROR = "Nothing has to be done. The case named by case_id shows this error among its like."
NEXT_FOR_LOG = "Nothing has to be done."
NEXT_FOR_ANALYTICS = "Nothing has to be done."

NULL = "\\N"
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_encode = msgspec.json.Encoder().encode


class Sender(NamedTuple):
    """Who sends a record, and under which names the request is known. `fingerprint` matters only with a `key`."""

    project_id: str
    dsn_hash: str
    request_id: str
    key: str | None
    fingerprint: str


def sender_of(call: Call[Any, Any]) -> Sender:
    """Take the sender from a request that a DSN has authenticated."""
    assert call.project_id is not None, "a DSN names its project"
    return Sender(call.project_id, call.principal.secret_hash, call.request_id, call.key, call.fingerprint)


class Assignment(NamedTuple):
    """A case that an error may belong to: its stream's id and the grouping that says so."""

    case_id: str
    grouping: Grouping


class Person(NamedTuple):
    """Whom an error happened to."""

    id: str
    email: str | None


@dataclass(slots=True, eq=False)
class Item:
    """A prepared record. `row` holds the COPY text after the receive time, with a place for the case if it has one.

    `offered` lists the cases an error may belong to, oldest grouping first; empty for everything else.
    """

    sender: Sender
    operation: str
    id: str
    row: str
    size: int
    marked: bool
    scrubbed: int
    answer: LogAccepted | AnalyticsAccepted
    offered: tuple[Assignment, ...] = ()
    level: str = ""
    evidence: Evidence | None = None
    environment: str = ""
    release: str | None = None
    person: Person | None = None
    rest: str = ""
    waiter: asyncio.Future[Outcome] | None = None
    deadline: float = field(default_factory=lambda: time.monotonic() + DEADLINE)
    due: float = 0.0
    delay: float = 0.0

    @property
    def is_log(self) -> bool:
        """Whether it is a log event; else it is an analytics event."""
        return self.operation == LOGS


def copy_text(value: str | None) -> str:
    """Write a value as a field of COPY's text format."""
    if value is None:
        return NULL
    # Most texts hold nothing to escape, and asking that is much cheaper than translating.
    return value if value.isprintable() and "\\" not in value else value.translate(_ESCAPES)


def _copy_json(value: Any) -> str:
    """Write a value as JSON in a field of COPY's text format. JSON holds no raw control character."""
    return _encode(value).decode().replace("\\", "\\\\")


def _hash_marker(raw: bytes, *holders: Mapping[str, Any]) -> tuple[str | None, list[Mapping[str, Any]]]:
    """Find the proof marker and keep only its hash: returns that, and the holders without the marker's text (G-084).

    `raw` is the whole body: as long as it does not spell the property, nothing is looked for.
    """
    if _PROOF_BYTES not in raw and b"\\u" not in raw:
        return None, list(holders)
    found = None
    cleaned: list[Mapping[str, Any]] = []
    for holder in holders:
        value = holder.get(PROOF_PROPERTY)
        if isinstance(value, str) and value:
            hashed = hashlib.sha256(value.encode()).hexdigest()
            found = found or hashed
            cleaned.append({**holder, PROOF_PROPERTY: f"sha256:{hashed}"})
        else:
            cleaned.append(holder)
    return found, cleaned


@lru_cache(maxsize=8192)
def _case_id(project_id: str, fingerprint: str) -> str:
    return case.case_id(project_id, fingerprint)


class _UserOf(msgspec.Struct):
    """The part of a log body that holds the user, with the keys that its declared type leaves out."""

    user: dict[str, Any] | None = None


_user_of = msgspec.json.Decoder(_UserOf).decode


def prepare_log(sender: Sender, body: LogEvent, raw: bytes, scrubber: Scrubber) -> Item:
    """Prepare a log event. Raises InvalidPayload when `extra` is too large."""
    user: Mapping[str, Any] | None = None
    if body.user is not None:
        user = _user_of(raw).user
    message, environment, release = body.message, body.environment or DEFAULT_ENVIRONMENT, body.release
    tags: Mapping[str, Any] = body.tags or {}
    extra: Mapping[str, Any] = body.extra or {}
    scrubbed = 0
    if scrubber.suspicious(raw):
        (message, environment, release, user, tags, extra), scrubbed = scrubber.parts(
            message, environment, release, user, tags, extra
        )
    marker, (tags_kept, extra_kept) = _hash_marker(raw, tags, extra)
    extra_json = _encode(extra_kept)
    if len(extra_json) > MAX_EXTRA_BYTES:
        raise InvalidPayload(
            invalid=[("extra", f"must hold at most {MAX_EXTRA_BYTES} bytes when written as JSON")],
            schema=msgspec.json.schema(LogEvent),
        )
    level = LEVELS[body.level]
    person = None
    if user is not None:
        email = user.get("email")
        person = Person(str(user["id"]), email if isinstance(email, str) else None)
    item_id = new_id("log")
    offered: tuple[Assignment, ...] = ()
    evidence = None
    if level in ERROR_LEVELS:
        evidence = gather(message, extra)
        offered = tuple(Assignment(_case_id(sender.project_id, g.fingerprint), g) for g in assignments(evidence))
    newest = offered[-1] if offered else None
    row = "\t".join(
        (
            "",
            item_id,
            level,
            copy_text(message),
            copy_text(environment),
            copy_text(release),
            copy_text(person.id if person else None),
            _copy_json(user) if user is not None else NULL,
            _copy_json(tags_kept),
            extra_json.decode().replace("\\", "\\\\"),
            "",
        )
    )
    return Item(
        sender=sender,
        operation=LOGS,
        id=item_id,
        row=row,
        rest=f"\t{marker or NULL}\n",
        size=OVERHEAD + 2 * len(row) + len(message),
        marked=marker is not None,
        scrubbed=scrubbed,
        offered=offered,
        level=level,
        evidence=evidence,
        environment=environment,
        release=release,
        person=person,
        answer=LogAccepted(
            id=item_id,
            project_id=sender.project_id,
            received_at=0,
            level=level,
            case_id=newest.case_id if newest else None,
            fingerprint=newest.grouping.fingerprint if newest else None,
            next_action=NEXT_FOR_ERROR if newest else NEXT_FOR_LOG,
        ),
    )


def prepare_analytics(sender: Sender, body: AnalyticsEvent, raw: bytes, scrubber: Scrubber) -> Item:
    """Prepare an analytics event."""
    event, distinct_id = body.event, body.distinct_id
    properties: Mapping[str, Any] = body.properties or {}
    scrubbed = 0
    if scrubber.suspicious(raw):
        (event, distinct_id, properties), scrubbed = scrubber.parts(event, distinct_id, properties)
    marker, [properties] = _hash_marker(raw, properties)
    item_id = new_id("evt")
    row = "\t".join(("", item_id, copy_text(event), copy_text(distinct_id), _copy_json(properties), ""))
    return Item(
        sender=sender,
        operation=ANALYTICS,
        id=item_id,
        row=row,
        rest=f"{marker or NULL}\n",
        size=OVERHEAD + 2 * len(row),
        marked=marker is not None,
        scrubbed=scrubbed,
        answer=AnalyticsAccepted(
            id=item_id,
            project_id=sender.project_id,
            received_at=0,
            event=event,
            next_action=NEXT_FOR_ANALYTICS,
        ),
    )
