"""Bounds on attempts at the same time: of one webhook, of one account, and of failing webhooks (P25, G-159).

A silent receiver takes its place for ten seconds. So webhooks without a success at their last attempt never get all
places, and one account has one attempt under way at those. Receivers may fall silent after a success, too: so the last
places are for accounts with no attempt in flight.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import NamedTuple

PLACES = 64
"""Attempts in flight."""
OF_ACCOUNT = 8
OF_WEBHOOK = 2
PROVEN_ONLY = 24
"""Places for webhooks whose last attempt succeeded."""
FIRST_ONLY = 24
"""The last places, for accounts with nothing in flight."""
UNPROVEN_OF_ACCOUNT = 1
"""Attempts of one account at webhooks without a success at their last attempt."""


class DueWebhook(NamedTuple):
    """A webhook with something due. `proven`: its last attempt succeeded."""

    project_id: str
    webhook_id: str
    account: str
    proven: bool


class AttemptPlaces:
    """The attempts in flight of one worker."""

    def __init__(self) -> None:
        self._of_account: Counter[str] = Counter()
        self._of_webhook: Counter[tuple[str, str]] = Counter()
        self._unproven: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        """Attempts in flight."""
        return self._of_account.total()

    def choose(self, due: Iterable[DueWebhook]) -> list[DueWebhook]:
        """Enter as many as there is room for, once for each attempt, accounts in turn, those with few before others."""
        lines: dict[str, deque[DueWebhook]] = {}
        for webhook in due:
            lines.setdefault(webhook.account, deque()).append(webhook)
        chosen: list[DueWebhook] = []
        while lines:
            for account in sorted(lines, key=self._of_account.__getitem__):
                line = lines[account]
                while line and not self._has_room(line[0]):
                    line.popleft()
                if not line:
                    del lines[account]
                    continue
                webhook = line.popleft()
                self._enter(webhook)
                chosen.append(webhook)
                line.append(webhook)
        return chosen

    def leave(self, webhook: DueWebhook) -> None:
        """Give a place back."""
        counts: list[tuple[Counter[str], str]] = [(self._of_account, webhook.account)]
        if not webhook.proven:
            counts.append((self._unproven, webhook.account))
        for counter, account in counts:
            counter[account] -= 1
            if not counter[account]:
                del counter[account]
        self._of_webhook[webhook[:2]] -= 1
        if not self._of_webhook[webhook[:2]]:
            del self._of_webhook[webhook[:2]]

    def _enter(self, webhook: DueWebhook) -> None:
        self._of_account[webhook.account] += 1
        self._of_webhook[webhook[:2]] += 1
        if not webhook.proven:
            self._unproven[webhook.account] += 1

    def _has_room(self, webhook: DueWebhook) -> bool:
        if self._of_account[webhook.account] >= OF_ACCOUNT or self._of_webhook[webhook[:2]] >= OF_WEBHOOK:
            return False
        if self.taken >= PLACES - (FIRST_ONLY if self._of_account[webhook.account] else 0):
            return False
        if webhook.proven:
            return True
        unproven = self._unproven
        return unproven[webhook.account] < UNPROVEN_OF_ACCOUNT and unproven.total() < PLACES - PROVEN_ONLY
