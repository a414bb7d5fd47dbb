"""Tests of webhooks: one delivery at once, sent by the process that was asked (R-WEB-06, G-090).

A test makes the service call an address of somebody else's choice. So a process carries out few at a time, and a
webhook one at a time and ten a minute, by whichever process. No connection to the database waits for the receiver.

A keyed request names its delivery. While its test is under way, a twin is told that the key is in use, and for a
minute after it, the twin is given its outcome. A request whose process died during the call is sent anew by a repeat,
with the same delivery id: whether the receiver has taken the first one, nobody knows.
"""

from __future__ import annotations

import msgspec

from schemas.webhooks.event import TEST, DeliveryBody
from schemas.webhooks.told import WebhookTold
from service.auth.refusals import Refusal
from service.egress.guard import Guard
from service.egress.reach import reach_of_webhooks
from service.eventstore.declare.commands import KeyInProgress
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from service.settings import Settings
from service.webhooks.reads import StandingWebhook
from service.webhooks.sending import AttemptOutcome, Outgoing, open_target, scope_of, send

AT_ONCE = 8
"""Tests under way in a process."""
A_MINUTE = 10
"""Tests of one webhook."""
LONGEST = 12
"""Seconds after which a test that was not ended, for its process died, keeps no other waiting."""
UNLIMITED = 1_000_000
KEPT = 60
"""Seconds for which a twin is given the outcome of a test that has ended."""

_BEGIN = load_sql("webhooks", "begin_test")
_FIND = load_sql("webhooks", "find_test")
_END = load_sql("webhooks", "end_test")


class TooManyTests(Refusal):
    """A test of the webhook is under way, or the webhook or the process has had as many as it may."""

    code = "rate_limited"


class WebhookTester:
    """The tests of one process."""

    def __init__(self, settings: Settings, store: EventStore, guard: Guard) -> None:
        self._settings = settings
        self._store = store
        self._guard = guard
        self._reach = reach_of_webhooks(allow_private=settings.webhook_allow_private)
        self._most = A_MINUTE if settings.rate_limits else UNLIMITED
        self._running = 0

    async def test(self, webhook: StandingWebhook, delivery: str, account: str) -> AttemptOutcome | None:
        """Send a test and note its outcome, or find the outcome that a twin has noted.

        None when the webhook or its project has ended meanwhile. Raises TooManyTests, KeyInProgress while a twin is
        sending it, and what writing facts raises.
        """
        if self._running >= AT_ONCE:
            raise too_many_tests(1)
        self._running += 1
        try:
            return await self._test(webhook, delivery, account)
        finally:
            self._running -= 1

    async def _test(self, webhook: StandingWebhook, delivery: str, account: str) -> AttemptOutcome | None:
        row, target = webhook.row, webhook.target
        about = {"project_id": row.project_id, "id": row.id, "delivery": delivery}
        async with self._store.facts.connection() as connection:
            values = {**about, "longest": LONGEST, "most": self._most, "kept": KEPT}
            [[stands, begun]] = await (await connection.execute(_BEGIN.encode(), values)).fetchall()
        if not stands:
            return None
        if not begun:
            return await self._of_twin(about)
        now = await self._store.now()
        former = target.former_secret if (target.former_until or 0) > now else None
        body = DeliveryBody(
            id=delivery,
            event=TEST,
            project_id=row.project_id,
            created_at=now,
            data=msgspec.to_builtins(WebhookTold(webhook_id=row.id)),
        )
        opened = open_target(
            self._settings.encryption_key, scope_of(row.project_id, row.id), target.url, target.secret, former
        )
        outgoing = Outgoing(delivery, TEST, msgspec.json.encode(body))
        attempt = await send(self._guard, self._reach, account, opened, outgoing)
        async with self._store.facts.connection() as connection:
            await connection.execute(_END.encode(), {**about, "status": attempt.status, "error": attempt.error})
        return attempt

    async def _of_twin(self, about: dict[str, str]) -> AttemptOutcome:
        """The outcome of the same test, sent by another. Raises KeyInProgress, and TooManyTests if there is none."""
        async with self._store.facts.connection() as connection:
            found = await (await connection.execute(_FIND.encode(), {**about, "kept": KEPT})).fetchall()
        for runs, ended, status, error in found:
            if runs:
                raise KeyInProgress
            if ended:
                return AttemptOutcome(status, error)
        raise too_many_tests(LONGEST)


def too_many_tests(seconds: int) -> TooManyTests:
    """The refusal of a test for some seconds."""
    return TooManyTests(
        "Another test is under way, or there were too many.",
        next_action="Wait for the seconds of Retry-After, then test again.",
        headers={"retry-after": str(seconds)},
    )
