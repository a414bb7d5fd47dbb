"""How many bytes of bodies a process holds at once, and who holds them (threat 20, promise P25, G-204).

A body counts from its first chunk until its request is answered. Nobody has more than a share, so that one caller with
many large bodies leaves room for the others; a process without room refuses instead of growing. The members of a
shared place have one share together, and each at most a part of it.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from service.auth.refusals import ServiceUnavailable
from service.fairness.turns import place_of
from service.http.answer.errors import RateLimited

TOTAL_BYTES = 64 * 1024 * 1024
SHARE_BYTES = TOTAL_BYTES // 8
MEMBERS_PART = 4


class BodyRoom:
    """The bytes of one process. Nobody may hold more than `share` of the `total`."""

    def __init__(self, total: int = TOTAL_BYTES, share: int = SHARE_BYTES) -> None:
        self.total = total
        self.share = share
        self.held = 0
        self._of: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._of)

    def of(self, holder: str) -> Room:
        """The place of one request. `holder` answers for it: the account, or the name of a stranger in turns."""
        return Room(self, holder)

    def check(self, holder: str, size: int) -> None:
        """Raise RateLimited when a holder would have more than its share, ServiceUnavailable when all is taken."""
        place = place_of(holder)
        most = self.share if place == holder else self.share // MEMBERS_PART
        if self._of.get(holder, 0) + size > most or self._of.get(place, 0) + size > self.share:
            raise RateLimited(
                "The bodies of your requests in flight have reached their total size limit.",
                next_action=("Wait for the seconds in Retry-After, then retry with fewer large requests at a time."),
                max_bytes_in_flight=most,
            )
        if self.held + size > self.total:
            raise ServiceUnavailable

    def add(self, holder: str, size: int) -> None:
        """Count bytes in, or with a negative size out."""
        self.held += size
        for name in {holder, place_of(holder)}:
            left = self._of.get(name, 0) + size
            if left:
                self._of[name] = left
            else:
                self._of.pop(name, None)


class Room:
    """What one request holds of a process's room; given back when its context ends."""

    def __init__(self, room: BodyRoom, holder: str) -> None:
        self._room = room
        self._holder = holder
        self._size = 0

    def expect(self, size: int) -> None:
        """Refuse a body that has no room already now, before it is read. Raises as BodyRoom.check."""
        self._room.check(self._holder, size)

    def take(self, size: int) -> None:
        """Count a chunk in. Raises as BodyRoom.check."""
        self._room.check(self._holder, size)
        self._room.add(self._holder, size)
        self._size += size

    def give_back(self, size: int) -> None:
        """Count bytes out that are held no more, before the request is answered."""
        self._room.add(self._holder, -size)
        self._size -= size

    def close(self) -> None:
        """Give all of it back."""
        if self._size:
            self._room.add(self._holder, -self._size)
            self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()
