"""Kept answers of public queries: a number of bytes for each process, shared among accounts."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

import msgspec

MOST_BYTES: Final = 16 * 1024 * 1024
"""Of all kept answers of a process."""
OVERHEAD: Final = 1024
"""Bytes that count for an answer beside its body."""


class KeptAnswer(msgspec.Struct, frozen=True):
    """An encoded answer with its tag. `as_of` is the time of its read, in epoch seconds of the service.

    `seconds` is the age up to which it may be served.
    """

    payer: str
    body: bytes
    etag: str
    as_of: int
    seconds: int

    @property
    def size(self) -> int:
        """Its bytes, as the bound counts them."""
        return len(self.body) + OVERHEAD


class KeptAnswers:
    """The latest answer of each publication, until it is too old to be served.

    When there is no room, the account with the most bytes loses its oldest one.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = most
        self._payers: dict[str, str] = {}
        self._answers: dict[str, OrderedDict[str, KeptAnswer]] = {}
        self._bytes: dict[str, int] = {}
        self._ends: dict[str, asyncio.TimerHandle] = {}
        self.total = 0

    def __len__(self) -> int:
        return len(self._payers)

    def get(self, publication_id: str) -> KeptAnswer | None:
        """Return the kept answer of a publication."""
        payer = self._payers.get(publication_id)
        return None if payer is None else self._answers[payer][publication_id]

    def put(self, publication_id: str, answer: KeptAnswer) -> None:
        """Keep an answer in place of the former one."""
        self.drop(publication_id)
        self._payers[publication_id] = answer.payer
        self._answers.setdefault(answer.payer, OrderedDict())[publication_id] = answer
        self._bytes[answer.payer] = self._bytes.get(answer.payer, 0) + answer.size
        self._ends[publication_id] = asyncio.get_running_loop().call_later(answer.seconds, self.drop, publication_id)
        self.total += answer.size
        while self.total > self._most:
            heaviest = max(self._bytes, key=self._bytes.__getitem__)
            self.drop(next(iter(self._answers[heaviest])))

    def drop(self, publication_id: str) -> None:
        """Forget the answer of a publication."""
        payer = self._payers.pop(publication_id, None)
        if payer is None:
            return
        self._ends.pop(publication_id).cancel()
        size = self._answers[payer].pop(publication_id).size
        self._bytes[payer] -= size
        self.total -= size
        if not self._answers[payer]:
            del self._answers[payer], self._bytes[payer]
