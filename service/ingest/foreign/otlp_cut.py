"""What an export request is cut into, whatever it is written in (G-142).

Nothing is copied for a record until it is read: ten thousand pieces would be as much again as the body, as long as its
request lasts, and what is freed in such small pieces stays with the process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array

MAX_RECORD = 256 * 1024
"""Bytes of one record or resource: as many as a log event may have alone."""
MAX_RESOURCE = 128
"""Attributes of a resource that are read: what an SDK keeps unless it is told otherwise."""

_NUMBERS = "I"  # of four bytes each


class MalformedExport(ValueError):
    """Bytes that are no such message."""


class TooManyRecords(ValueError):
    """More records, or parts around them, than a request may have."""


def check_size(raw: bytes) -> None:
    """Raise MalformedExport for a part that is larger than a log event may be."""
    if len(raw) > MAX_RECORD:
        raise MalformedExport


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

    `sizes` are the bytes of the records.
    """

    def __init__(self, most: int) -> None:
        self.resources = Texts()
        self.scopes = Texts()
        self.sizes = array(_NUMBERS)
        self._most = most
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
        if number > self._most:
            raise TooManyRecords
