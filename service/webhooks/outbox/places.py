"""Bounds on attempts at the same time: of one webhook, of one account, and of failing webhooks (P25, G-159).

A silent receiver takes its place for ten seconds. So webhooks without a success at their last attempt never get all
places, and the last ones are for accounts with few attempts in flight. Places go round by least recently tried. Where
all are held by silent receivers, whoever has waited for longest gets one of those at once: that attempt is cut short
after SLICE seconds, and its webhook's next one is patient and lasts as long as it may. Some places never go to patient
attempts, so that a first attempt waits for moments and not for the end of a silence.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

PLACES = 64
"""Attempts in flight."""
OF_ACCOUNT = 8
OF_WEBHOOK = 2
"""One of a webhook without a success at its last attempt."""
PROVEN_ONLY = 24
"""Places for webhooks whose last attempt succeeded."""
FIRST_ONLY = 24
"""The last places, for accounts with nothing in flight."""
UNPROVEN_OF_ACCOUNT = 6
"""Attempts of one account at webhooks without a success at their last attempt."""
FIRST_UNPROVEN = 16
"""The last places of such webhooks, for accounts with no attempt at one in flight."""
PATIENT = 24
"""Patient attempts in flight."""
PATIENT_OF_ACCOUNT = 3
SLICE = 1.0
"""Seconds that an attempt has before it may be cut short."""
NEVER = float("inf")


class DueWebhook(NamedTuple):
    """A webhook with something due.

    `proven`: its last attempt succeeded. `idle`: seconds since its last attempt ended, NEVER without one. `cut`: that
    attempt was cut short, so the next one is patient.
    """

    project_id: str
    webhook_id: str
    account: str
    proven: bool
    idle: float = NEVER
    cut: bool = False

    @property
    def name(self) -> tuple[str, str]:
        """Its key."""
        return self.project_id, self.webhook_id


class AttemptPlace:
    """The place of one attempt. `since` and `patience` are set while its call is under way.

    `since` is by the clock of the event loop, in seconds.
    """

    __slots__ = ("patience", "since", "webhook")

    def __init__(self, webhook: DueWebhook) -> None:
        self.webhook = webhook
        self.since = 0.0
        self.patience: asyncio.Timeout | None = None


class AttemptPlaces:
    """The attempts in flight of one worker."""

    def __init__(self) -> None:
        self._held: dict[AttemptPlace, None] = {}  # in the order of their beginnings
        self._of_account: Counter[str] = Counter()
        self._of_webhook: Counter[tuple[str, str]] = Counter()
        self._unproven: Counter[str] = Counter()
        self._patient: Counter[str] = Counter()
        self._wanted_by: dict[AttemptPlace, tuple[str, str]] = {}  # for which webhook it was cut short

    @property
    def taken(self) -> int:
        """Attempts in flight."""
        return len(self._held)

    def choose(self, due: Iterable[DueWebhook]) -> list[AttemptPlace]:
        """Give a place for each attempt there is room for: accounts in turn, those with few in flight before others.

        Of an account the least recently tried webhook comes first.
        """
        lines: dict[str, deque[DueWebhook]] = {}
        for webhook in sorted(due, key=lambda one: (self._of_webhook[one.name], -one.idle)):
            lines.setdefault(webhook.account, deque()).append(webhook)
        chosen: list[AttemptPlace] = []
        while lines:
            for account in sorted(lines, key=self._of_account.__getitem__):
                line = lines[account]
                while line and not self._has_room(line[0]):
                    line.popleft()
                if not line:
                    del lines[account]
                    continue
                webhook = line.popleft()
                chosen.append(self._enter(webhook))
                line.append(webhook)
        return chosen

    def cut_short(self, due: Iterable[DueWebhook], now: float) -> list[AttemptPlace]:
        """Name the attempts in flight to cut short, one for each webhook with nothing in flight that finds no room.

        `now` is by the clock of the event loop. An attempt makes way for its own account, or for one with fewer in
        flight, and for nobody tried more recently than itself.
        """
        ready = [
            place
            for place in self._held
            if place.patience is not None
            and not place.webhook.cut
            and place not in self._wanted_by
            and now - place.since >= SLICE
        ]
        found: list[AttemptPlace] = []
        for webhook in sorted(due, key=lambda one: -one.idle) if ready else ():
            if webhook.cut or self._of_webhook[webhook.name] or webhook.name in self._wanted_by.values():
                continue
            if not self._has_room(webhook) and (place := self._in_the_way(ready, webhook, now)) is not None:
                ready.remove(place)
                self._wanted_by[place] = webhook.name
                found.append(place)
        return found

    def _in_the_way(self, ready: Sequence[AttemptPlace], webhook: DueWebhook, now: float) -> AttemptPlace | None:
        """The attempt that began first of those whose end makes room for a webhook."""
        mine = self._of_account[webhook.account]
        for place in ready:
            other = place.webhook.account
            if now - place.since > webhook.idle or (other != webhook.account and self._of_account[other] <= mine):
                continue
            self._count(place.webhook, -1)
            makes_room = self._has_room(webhook)
            self._count(place.webhook, 1)
            if makes_room:
                return place
        return None

    def leave(self, place: AttemptPlace) -> None:
        """Give a place back."""
        del self._held[place]
        self._wanted_by.pop(place, None)
        self._count(place.webhook, -1)

    def _enter(self, webhook: DueWebhook) -> AttemptPlace:
        place = AttemptPlace(webhook)
        self._held[place] = None
        self._count(webhook, 1)
        return place

    def _count(self, webhook: DueWebhook, number: int) -> None:
        """Count one attempt more, or one fewer."""
        self._of_webhook[webhook.name] += number
        if not self._of_webhook[webhook.name]:
            del self._of_webhook[webhook.name]
        for counts, counted in (
            (self._of_account, True),
            (self._unproven, not webhook.proven),
            (self._patient, webhook.cut),
        ):
            counts[webhook.account] += number if counted else 0
            if not counts[webhook.account]:
                del counts[webhook.account]

    def _has_room(self, webhook: DueWebhook) -> bool:
        mine = self._of_account[webhook.account]
        if mine >= OF_ACCOUNT or self._of_webhook[webhook.name] >= (OF_WEBHOOK if webhook.proven else 1):
            return False
        if self._of_account.total() >= PLACES - (FIRST_ONLY if mine else 0):
            return False
        patient, unproven = self._patient, self._unproven
        if webhook.cut and (patient[webhook.account] >= PATIENT_OF_ACCOUNT or patient.total() >= PATIENT):
            return False
        if webhook.proven:
            return True
        most = PLACES - PROVEN_ONLY - (FIRST_UNPROVEN if unproven[webhook.account] else 0)
        return unproven[webhook.account] < UNPROVEN_OF_ACCOUNT and unproven.total() < most
