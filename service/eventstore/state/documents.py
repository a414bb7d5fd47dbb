"""The rate of owners' documents: what one stream may take in an hour, judged under its lock (G-140).

A plan or a contract is half a megabyte at most, and nothing but this bounds how often one is replaced. What was taken
lately stands in the head row of the stream, so that no race, no restart and no second process takes more.
"""

from __future__ import annotations

from typing import ClassVar, Final

import msgspec

from statemachines.kernel.machine import Rejection

MOST_BYTES: Final = 8 * 1024 * 1024
"""Bytes of payload that documents may bring to one stream within WINDOW."""
WINDOW: Final = 3600
"""Seconds."""
MOST_TIMES: Final = 16
"""Times that are kept apart; with more, neighbours count as if they had come at the later time."""

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
