"""What an export request is cut into, whatever it is written in (G-142).

Nothing is copied for a record until it is read: ten thousand pieces would be as much again as the body, as long as its
request lasts, and what is freed in such small pieces stays with the process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable

MAX_RECORD = 256 * 1024
"""Bytes of one record or resource: as many as a log event may have alone."""
MAX_RESOURCE = 128
"""Attributes of a resource that are read: what an SDK keeps unless it is told otherwise."""
MOST_NAMES = 10
LONGEST_NAME = 60
"""Names of members that a sender is told of, and characters of each."""

_NUMBERS = "I"  # of four bytes each


class MalformedExport(ValueError):
    """Bytes that are no such message."""


class TooManyRecords(ValueError):
    """More records, or parts around them, than a request may have."""


def check_size(raw: bytes) -> None:
    """Raise MalformedExport for a part that is larger than a log event may be."""
    if len(raw) > MAX_RECORD:
        raise MalformedExport


class Unread:
    """Members of an export that are not read, and those of an older form that are (G-206): a few names of each."""

    def __init__(self) -> None:
        self._unread: dict[str, None] = {}
        self._older: dict[str, None] = {}

    def add(self, names: Iterable[str]) -> None:
        """Note members that are not read."""
        _note(self._unread, names)

    def add_older(self, name: str) -> None:
        """Note a member of an older form that is read."""
        _note(self._older, [name])

    @property
    def sentence(self) -> str:
        """What the sender is told, empty for nothing."""
        told = [("Members that are not read: ", self._unread), ("Members of an older form: ", self._older)]
        return " ".join(f"{begin}{', '.join(names)}." for begin, names in told if names)


def _note(names: dict[str, None], further: Iterable[str]) -> None:
    for name in further:
        if len(names) < MOST_NAMES:
            plain = len(name) <= LONGEST_NAME and name.isascii() and name.replace("_", "").replace(" ", "").isalnum()
            names[name if plain else "one without a plain name"] = None


class Texts:
    """Texts one behind the other: each takes four bytes beside its own, and all are given back as one piece."""

    def __init__(self) -> None:
        self._all = bytearray()
        self._ends = array(_NUMBERS, [0])

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, number: int) -> bytes:
        return bytes(self._all[self._ends[number] : self._ends[number + 1]])

    def write(self, part: bytes) -> None:
        """Put a part to the text that has begun."""
        self._all += part

    def end(self) -> None:
        """End the text that has begun; the next one begins."""
        self._ends.append(len(self._all))


class Cut(ABC):
    """A request of at most `most` records, and as many scopes and resources; each has its number.

    `sizes` are the bytes of the records, and `unread` are the members that nobody has read so far.
    """

    def __init__(self, most: int) -> None:
        self.unread = Unread()
        self.resources = Texts()
        self.scopes = Texts()
        self.sizes = array(_NUMBERS)
        self.most = most
        self._resource_of = array(_NUMBERS)  # by scope
        self._scope_of = array(_NUMBERS)  # by record

    def __len__(self) -> int:
        return len(self.sizes)

    def resource_of(self, scope: int) -> int:
        """The resource that a scope is of."""
        return self._resource_of[scope]

    def scope_of(self, record: int) -> int:
        """The scope that a record is of."""
        return self._scope_of[record]

    @abstractmethod
    def record(self, number: int) -> bytes:
        """The text of a record: a copy."""

    def end_resource(self) -> None:
        """End the text of a resource, whose scopes come next. Raises TooManyRecords."""
        self.resources.end()
        self._check(len(self.resources))

    def end_scope(self, records: int) -> None:
        """End the text of a scope of the last resource, which so many records are of. Raises TooManyRecords."""
        self.scopes.end()
        self._check(max(len(self.scopes), len(self) + records))
        self._resource_of.append(len(self.resources) - 1)
        self._scope_of.extend([len(self.scopes) - 1] * records)

    def _check(self, number: int) -> None:
        if number > self.most:
            raise TooManyRecords
