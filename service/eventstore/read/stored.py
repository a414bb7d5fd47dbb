"""How an event becomes bytes: canonical JSON, salted payload hash, leaf, and the chain of its stream.

The canonical form is RFC 8785. Payloads hold only strings, booleans, null, integers within +-(2**53 - 1), lists and
objects with ASCII keys; over that domain msgspec's sorted encoding is the canonical one (a test holds it against the
rfc8785 library), at a fiftieth of the cost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
from eventsourcing.persistence import Mapper, Notification, StoredEvent, Transcoder

from statemachines.kernel.canonical import canonical_payload
from statemachines.kernel.machine import Recorded
from statemachines.kernel.topics import decode_event, decode_events

CHAIN_START = bytes(32)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class EventEnvelope(msgspec.Struct, frozen=True):
    """Everything about a stored event but its payload. The leaf hashes its canonical form."""

    project_id: str
    stream_id: str
    revision: int
    kind: str
    topic: str
    event_id: str
    command_id: str
    actor_kind: str
    actor_id: str
    request_id: str
    correlation_id: str
    causation_id: str
    recorded_at: int  # microseconds since the epoch
    payload_hash: str  # hex


def canonical(value: Any) -> bytes:
    """Encode an event payload (or its decoded JSON) in canonical form."""
    return canonical_payload(value)


def microseconds(moment: datetime) -> int:
    """Whole microseconds since the epoch: how an envelope states a time."""
    delta = moment - _EPOCH
    return (delta.days * 86400 + delta.seconds) * 1_000_000 + delta.microseconds


def hash_payload(salt: bytes, payload: bytes) -> bytes:
    """Hash a canonical payload under its salt, so that an erased value cannot be guessed from its hash."""
    return hashlib.sha256(salt + payload).digest()


def hash_leaf(envelope: EventEnvelope) -> bytes:
    """Hash the canonical envelope (with the payload's hash in it): the leaf of chain and tree."""
    return hashlib.sha256(b"\x00" + canonical_payload(envelope)).digest()


def hash_chain(previous: bytes, leaf: bytes) -> bytes:
    """Link a leaf to the chain of its stream."""
    return hashlib.sha256(b"\x02" + previous + leaf).digest()


# Stored events as the eventsourcing library has them, and the mapper between them and ours. Every row of an event is
# a `StoredEvent` or, with its position, a `Notification`. The library's are frozen dataclasses, which take five
# times as long to make as a tuple. Ours are tuples that are those too: a row as the database gives it, whose fields
# have our words, and beside them the library's.

ERASED = b"null"
"""The state of an event whose payload is erased."""

S = TypeVar("S")
_tuple = tuple.__new__


class ErasedEvent(msgspec.Struct, frozen=True):
    """An event whose payload went with its project or account. The envelope and the hashes stay."""

    topic: str


class _Columns(Protocol):
    """What the library's words are read from."""

    @property
    def stream_id(self) -> str: ...
    @property
    def revision(self) -> int: ...
    @property
    def payload(self) -> str | None: ...


class _LibrarysWords:
    """The fields of the library's StoredEvent, for a tuple that has them in our words."""

    def __init__(self, *_: Any, **__: Any) -> None:
        """A tuple is whole when it is made."""

    @property
    def originator_id(self: _Columns) -> str:
        """The id of its stream."""
        return self.stream_id

    @property
    def originator_version(self: _Columns) -> int:
        """Its revision."""
        return self.revision

    @property
    def state(self: _Columns) -> bytes:
        """Its payload in canonical form, which its hashes are made of, whatever order JSONB keeps."""
        return ERASED if self.payload is None else canonical(msgspec.json.decode(self.payload))


class _StreamColumns(NamedTuple):
    project_id: str
    stream_id: str
    revision: int
    topic: str
    payload: str | None
    recorded_at: int
    actor: str


class StreamEvent(_StreamColumns, _LibrarysWords, StoredEvent):
    """An event at its place in a stream, with the envelope that folds may use. Its time is in epoch seconds."""


class _LogColumns(NamedTuple):
    position: int | None
    project_id: str
    stream_id: str
    revision: int
    kind: str
    topic: str
    payload: str | None
    event_id: str
    command_id: str
    actor_kind: str
    actor_id: str
    request_id: str
    correlation_id: str
    causation_id: str
    recorded_at: Any
    salt: bytes | None
    payload_hash: bytes
    leaf: bytes
    chain: bytes


class LogEvent(_LogColumns, _LibrarysWords, Notification):
    """An event with its whole envelope. `position` is None while the sequencer has not numbered it."""

    @property
    def id(self) -> int:
        """Its position."""
        assert self.position is not None, "the sequencer has not numbered it"
        return self.position

    @property
    def actor(self) -> str:
        """Kind and id of the principal."""
        return f"{self.actor_kind}:{self.actor_id}"

    def recorded(self) -> Recorded:
        """Decode the event. Raises AssertionError for an erased one."""
        assert self.payload is not None, "an erased event has no payload"
        recorded: Recorded = MAPPER.to_domain_event(self)
        return recorded


class _SnapshotColumns(NamedTuple):
    project_id: str
    stream_id: str
    revision: int
    version: int
    payload: str
    bytes: int
    size: int


class StoredSnapshot(_SnapshotColumns, _LibrarysWords, StoredEvent):
    """The state of a stream at a revision, as JSON, in a version of its form.

    `bytes` of payload were appended up to there, -1 where that was not counted. `size` is that of its JSON in bytes.
    """

    @property
    def topic(self) -> str:
        """The version of the state's form."""
        return f"snapshot.v{self.version}"

    @property
    def state(self) -> bytes:
        """The state."""
        return self.payload.encode()

    def decoded(self, state: type[S]) -> S:
        """Read the state, of this type."""
        return msgspec.json.decode(self.payload, type=state)


class MsgspecTranscoder(Transcoder):
    """Canonical JSON, of events and of what their states hold."""

    def encode(self, obj: Any) -> bytes:
        """Encode in canonical form."""
        return canonical(obj)

    def decode(self, data: bytes) -> Any:
        """Decode into plain values."""
        return msgspec.json.decode(data)


class MsgspecMapper(Mapper[str]):
    """Maps recorded events to the library's stored ones and back. Old versions are lifted on the way back."""

    def __init__(self) -> None:
        """Need neither compressor nor cipher."""
        super().__init__(MsgspecTranscoder())

    def to_stored_event(self, domain_event: Any) -> StreamEvent:
        """Encode a Recorded. Its payload is in canonical form."""
        stream, revision, event, scope, moment, actor = domain_event
        payload = self.transcoder.encode(event).decode()
        return _tuple(StreamEvent, (scope, stream, revision, event.TOPIC, payload, moment, actor))

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        """Decode into a Recorded, an erased event too. Raises UnknownTopic for an event of a later release."""
        topic = stored_event.topic
        scope, moment, actor = "", 0, ""
        payload: str | bytes | None
        if isinstance(stored_event, StreamEvent | LogEvent):
            payload, at = stored_event.payload, stored_event.recorded_at
            scope, actor = stored_event.project_id, stored_event.actor
            moment = int(at.timestamp()) if isinstance(at, datetime) else at
        else:
            payload = None if stored_event.state == ERASED else stored_event.state
        event: Any = ErasedEvent(topic) if payload is None else decode_event(topic, payload)
        stream, revision = str(stored_event.originator_id), stored_event.originator_version
        return Recorded(stream, revision, event, scope, moment, actor)

    def to_domain_events(self, stored_events: Sequence[StreamEvent], *, tolerant: bool = False) -> Iterator[Any]:
        """Decode a page of history: each into its Recorded, or None where its payload is erased.

        In the place of one of a later release stands its UnknownTopic. For a `tolerant` caller the fault of a payload
        stands in its place; else whatever reading one raises comes out. A rebuild reads all of history by this.
        """
        topics, payloads = [stored.topic for stored in stored_events], [stored.payload for stored in stored_events]
        for stored, event in zip(stored_events, _decoded(topics, payloads, tolerant=tolerant), strict=True):
            if event is None or isinstance(event, Exception):
                yield event
            else:
                at = stored.stream_id, stored.revision, event, stored.project_id, stored.recorded_at, stored.actor
                yield _tuple(Recorded, at)


MAPPER = MsgspecMapper()
"""The one that the service writes and reads by. It has no state."""


def _decoded(topics: Sequence[str], payloads: Sequence[str | None], *, tolerant: bool) -> list[Any]:
    """Decode a page. For a `tolerant` caller the fault of a payload stands in the event's place."""
    try:
        return decode_events(topics, payloads)
    except Exception:
        if not tolerant:
            raise
    return [_decoded_alone(topic, payload) for topic, payload in zip(topics, payloads, strict=True)]


def _decoded_alone(topic: str, payload: str | None) -> Any:
    try:
        return decode_events([topic], [payload])[0]
    except Exception as error:  # noqa: BLE001 - whatever a payload is, it is its own stream that cannot be folded
        return error


def exported(event: LogEvent) -> dict[str, Any]:
    """Lay out an event for programs as exports have it: its whole envelope, payload as JSON, hashes as hex.

    A line of an export is the canonical form of it.
    """
    fields = event._asdict()
    payload = None if event.payload is None else msgspec.json.decode(event.payload)
    hashes = {name: value.hex() for name, value in fields.items() if isinstance(value, bytes)}
    recorded_at = event.recorded_at.astimezone(UTC).isoformat()
    return {**fields, **hashes, "payload": payload, "recorded_at": recorded_at}
