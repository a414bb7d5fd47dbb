"""States that a writer has already folded, checked against the locked head before they are used.

Filled only after COMMIT was answered, or from what was read outside of a transaction, and emptied on every error: a
cached state is never ahead of the log.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeVar

import msgspec

from service.eventstore.declare import names
from service.eventstore.declare.commands import Command, KeyInProgress, Outcome, OutcomeUnknown
from service.fairness.bounds import Weighted
from service.fairness.turns import CommandNotDone
from service.ids import new_id
from statemachines.kernel.machine import Rejection

# What a value costs in memory: caches are bounded by this, not by how many things they hold (P26).

MALLOC = 8  # bytes that the allocator rounds an object up by, on average
_FREE = frozenset({bool, type(None), type})
_FLAT = frozenset({str, int, float, bytes})
_MAPS = frozenset({dict})
_ROWS = frozenset({list, tuple, set, frozenset})
_READERS: dict[type, Callable[[Any], tuple[Any, ...]] | None] = {}


def weigh(*values: Any) -> int:
    """Bytes of memory of these values together. Shared ones count once.

    Takes what states and rows are made of: structs, lists, tuples, sets and dicts of scalars. Scalars in lists count
    once for each list. Costs up to half a microsecond for each object.
    """
    total = 0
    seen: set[int] = set()
    size, look = sys.getsizeof, seen.add
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        kind = type(value)
        if kind in _FREE or (mark := id(value)) in seen:
            continue
        look(mark)
        if kind in _FLAT:
            total += size(value) + MALLOC
            continue
        read = _READERS[kind] if kind in _READERS else _READERS.setdefault(kind, _fields(kind))
        if read is not None:
            total += size(value) + MALLOC
            waiting += read(value)
        elif kind in _MAPS or isinstance(value, dict):
            total += size(value) + MALLOC
            waiting += value
            waiting += value.values()
        elif kind in _ROWS or isinstance(value, list | tuple | set | frozenset):
            total += size(value) + MALLOC
            if _FLAT.issuperset(map(type, value)):  # Large documents are mostly lists of names.
                total += sum(map(size, value)) + MALLOC * len(value)
            else:
                waiting += value
        elif not isinstance(value, Enum):
            total += size(value) + MALLOC
    return total


def _fields(kind: type) -> Callable[[Any], tuple[Any, ...]] | None:
    """What reads all fields of a struct at once. None of any other kind."""
    if not issubclass(kind, msgspec.Struct) or not kind.__struct_fields__:
        return None
    names = kind.__struct_fields__
    if len(names) > 1:
        return attrgetter(*names)
    only = attrgetter(names[0])
    return lambda value: (only(value),)


StreamName = tuple[str, str]

MEBIBYTE: Final = 1024 * 1024
KEPT_BYTES: Final = 32 * MEBIBYTE
"""Memory of the states that a loop keeps."""
KEPT_DOCUMENTS_BYTES: Final = 16 * MEBIBYTE
"""The same of the loop for documents: whose are large and rarely written, a process does not stay larger for."""
ENTRY: Final = 1024
"""Bytes of memory that a stream costs beside its state and rows: names, hashes, and its places in the maps."""
PER_BYTE: Final = 6
"""Bytes of memory that a byte of JSON becomes, at most, in a state and its rows of the usual kind."""
GUESSED: Final = 16 * 1024
"""Bytes of weight that may be guessed by PER_BYTE before a stream is weighed: weighing a small one costs too much."""

LENT_BYTES: Final = 16 * MEBIBYTE
"""Memory of streams too heavy to keep that are held for the commands that wait for them, beside the last one."""


class StreamMark(NamedTuple):
    """A place in a stream: a revision, and the bytes of payload that its head had counted there (-1: not counted)."""

    revision: int = 0
    bytes: int = 0


START: Final = StreamMark()


class Weight(NamedTuple):
    """Bytes of memory, and how many of them are guessed."""

    bytes: int
    guessed: int = 0

    def grown(self, json_bytes: int, state: Any, rows: Mapping[str, Any]) -> Weight:
        """The weight after events (or whatever was read) of so many bytes; weighs anew when too much is guessed."""
        guess = PER_BYTE * json_bytes
        if self.guessed + guess <= max(GUESSED, (self.bytes - self.guessed) // 4):
            return Weight(self.bytes + guess, self.guessed + guess)
        return Weight(ENTRY + weigh(state, rows))


NOTHING: Final = Weight(ENTRY)


class KnownStream(msgspec.Struct, frozen=True):
    """A stream as it stood at `mark`: its chain, its state, and its read-model rows by table name."""

    mark: StreamMark
    chain: bytes
    state: Any
    rows: dict[str, Any]
    weight: Weight
    snapshot: StreamMark = START  # the newest stored snapshot

    @property
    def revision(self) -> int:
        """The revision of `state`."""
        return self.mark.revision


class StateCache:
    """A map from stream to `Known` that is bounded by weight, least recently used out first.

    A stream heavier than `max_entry` is refused: it would drive out too many others.
    """

    def __init__(self, max_entries: int = 20_000, max_bytes: int = KEPT_BYTES, max_entry: int = 8 * MEBIBYTE) -> None:
        self._entries: Weighted[StreamName, KnownStream] = Weighted(
            lambda known: known.weight.bytes, max_bytes=max_bytes, max_entry=max_entry, max_entries=max_entries
        )
        self._lent: OrderedDict[StreamName, KnownStream] = OrderedDict()
        self._tables: dict[str, int] = {}
        self.faults: dict[StreamName, Exception] = {}
        """What is wrong with streams that could not be loaded, for those that wait for them."""

    def keeps_to(self, tables: Mapping[str, int]) -> bool:
        """Check that the read models are still the tables (name to oid) whose rows are kept here.

        When one was replaced by a rebuild, everything is forgotten: its rows may be what the rebuild has mended.
        """
        kept = all(self._tables.get(name, oid) == oid for name, oid in tables.items())
        if not kept:
            self.clear()
        self._tables.update(tables)
        return kept

    def get(self, name: StreamName) -> KnownStream | None:
        """Return what is known of a stream."""
        return self._entries.get(name) or self._lent.get(name)

    def peek(self, name: StreamName) -> KnownStream | None:
        """Return what is known of a stream without counting as use: from any thread."""
        return self._entries.peek(name)

    def put(self, name: StreamName, known: KnownStream) -> bool:
        """Remember a stream. Forgets the least recently used beyond the bounds. False: refused as too heavy."""
        self._lent.pop(name, None)
        return self._entries.put(name, known)

    def lend(self, name: StreamName, known: KnownStream) -> None:
        """Take in what was loaded outside of a transaction, unless a later state is here already.

        What is too heavy to keep stays until a round has written it, or others of LENT_BYTES came after it.
        """
        here = self.get(name)
        if (here is None or here.revision < known.revision) and not self.put(name, known):
            self._lent[name] = known
            while len(self._lent) > 1 and sum(other.weight.bytes for other in self._lent.values()) > LENT_BYTES:
                self._lent.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._lent.clear()
        self.faults.clear()

    @property
    def bytes(self) -> int:
        """Bytes of memory held."""
        return self._entries.bytes

    def __len__(self) -> int:
        return len(self._entries)


# A command waiting for its round: its identity, its deadline and the way back to its caller.

DEADLINE = 2.5  # seconds a command may wait before it is given up, not below transaction_timeout + 0.5
SILENCE = 3.5  # further seconds for what was begun: a server that lives has ended its transaction by then
DOUBT_DEADLINE = 10.0  # further seconds a commit in doubt is pursued

RecordName = tuple[str, str, str, str]  # project_id, principal, operation, key
T = TypeVar("T")
R_contra = TypeVar("R_contra", contravariant=True)


class Waiter(Protocol[R_contra]):
    """Who hears what became of something: a future, or what is used like one."""

    def done(self) -> bool:
        """Whether it has heard already."""

    def set_result(self, result: R_contra, /) -> None:
        """Hear how it ended."""

    def set_exception(self, exception: Exception, /) -> None:
        """Hear why it did not."""


def tell(waiter: Waiter[T], result: T | Exception) -> None:
    """Give a waiter its result or exception; one that is done already (cancelled, given up) is left as it is."""
    if waiter.done():
        return
    if isinstance(result, Exception):
        waiter.set_exception(result)
    else:
        waiter.set_result(result)


@dataclass(slots=True, eq=False)
class Entry:
    """One submission of a command.

    `command_id` is made once per submission, so a re-run after a lost acknowledgement recognises its own record;
    `begun` says that it may be under way: set by whoever takes it, before its deadline. `kept` is what its caller is
    told once the attempt is known to have committed: no stored record holds a one-time secret or a refusal, this does.
    """

    command: Command
    waiter: asyncio.Future[Outcome] | Future[Outcome]
    deadline: float = field(default_factory=lambda: time.monotonic() + DEADLINE)
    command_id: str = field(default_factory=lambda: new_id("cmd"))
    in_doubt: bool = False
    alone: bool = False  # its batch was lost once: it runs in rounds of its own, so that no poison takes others along
    kept: Outcome | Rejection | None = None
    record: RecordName = field(init=False)
    key_name: str = field(init=False)
    writes: tuple[StreamName, ...] = field(init=False)
    tenant: str = field(init=False)
    blocked_by_key: bool = False
    begun: bool = False

    def __post_init__(self) -> None:
        command, origin = self.command, self.command.origin
        scope = next(iter((*command.gates, *command.exclusive)), "")
        principal = f"{origin.actor_kind}:{origin.actor_id}"
        self.record = (scope, principal, origin.operation, command.key or self.command_id)
        self.key_name = names.key(*self.record)
        self.tenant = command.tenant or scope or principal
        self.writes = tuple(dict.fromkeys(stream.name for stream in command.streams))

    @property
    def saves(self) -> bool:
        """Whether it puts authority in place, and so waits behind what takes it away."""
        return self.command.saves

    @property
    def weight(self) -> int:
        """Its bytes."""
        return self.command.weight

    @property
    def needs(self) -> frozenset[str]:
        """Every name that it cannot run without, as the rounds report them."""
        return self.keeps.union(map(names.gate, self.command.gates))

    @property
    def keeps(self) -> frozenset[str]:
        """The names whose order it keeps while it waits: later ones that need them wait behind it.

        Gates are not among them. They are shared by all that happens in a project, and one stream that is held up must
        not hold up its project.
        """
        command = self.command
        return frozenset(
            [
                self.key_name,
                *("/".join(stream.name) for stream in (*command.streams, *command.reads)),
                *(names.new_stream(*stream.name) for stream in command.streams),
            ]
        )

    @property
    def overdue(self) -> bool:
        """Whether it is given up: past its deadline, or, once its commit was in doubt, well past it."""
        return time.monotonic() >= self.deadline + (DOUBT_DEADLINE if self.in_doubt else 0)

    @property
    def given_up(self) -> Exception:
        """What its caller is told then: a command once in doubt is never called "not done"."""
        if self.in_doubt:
            return OutcomeUnknown()
        return KeyInProgress() if self.blocked_by_key else CommandNotDone()


# The rate of owners' documents: what one stream may take in an hour, judged under its lock (G-140). A plan or a
# contract is half a megabyte at most, and nothing but this bounds how often one is replaced. What was taken lately
# stands in the head row of the stream, so that no race, no restart and no second process takes more.

MOST_BYTES: Final = 8 * 1024 * 1024
"""Bytes of payload that documents may bring to one stream within WINDOW."""
WINDOW: Final = 3600
"""Seconds."""
MOST_TIMES: Final = 16
"""Times kept apart. With more, neighbours count as of the later time."""

Taken = tuple[tuple[int, int], ...]
"""What documents brought, oldest first: epoch seconds and bytes."""

_decode = msgspec.json.Decoder(Taken).decode


class TooManyDocuments(Rejection):
    """The stream has taken as much as it may within an hour; `retry_after` is in seconds."""

    code: ClassVar[str] = "rate_limited"

    def __init__(self, retry_after: int) -> None:
        super().__init__(
            f"Documents of this kind have reached their limit of {MOST_BYTES} bytes an hour.",
            next_action="Retry after Retry-After. You can still stop or pause.",
            retry_after_seconds=retry_after,
        )
        self.retry_after = retry_after


def read_documents(text: str | None) -> Taken:
    """Read what a head row says."""
    return () if text is None else _decode(text)


def take_document(taken: Taken, size: int, now: int) -> Taken:
    """Count a document of `size` bytes that comes at `now` (epoch seconds). Raises TooManyDocuments."""
    recent = [(at, count) for at, count in taken if at + WINDOW > now]
    over = sum(count for _, count in recent) + size - MOST_BYTES
    for at, count in recent:
        if over <= 0:
            break
        over -= count
        if over <= 0:
            raise TooManyDocuments(at + WINDOW - now)
    return _merged([*recent, (now, size)])


def _merged(times: list[tuple[int, int]]) -> Taken:
    """Keep the list short: the two times that lie nearest to each other become one, the later."""
    while len(times) > MOST_TIMES:
        nearest = min(range(len(times) - 1), key=lambda place: times[place + 1][0] - times[place][0])
        (_, first), (at, second) = times[nearest : nearest + 2]
        times[nearest : nearest + 2] = [(at, first + second)]
    return tuple(times)
