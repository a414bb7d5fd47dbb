"""Bounds on attempts at the same time: of one webhook, of one account, and of failing webhooks (P25, G-159).

A silent receiver takes its place for ten seconds. So webhooks without a success at their last attempt never get all
places, and the last ones are for accounts with few attempts in flight. Places go round by least recently tried. Where
all are held by silent receivers, whoever has waited for longest gets one of those at once: that attempt is cut short
after SLICE seconds, and its webhook's next one is patient and lasts as long as it may. Some places never go to patient
attempts, so that a first attempt waits for moments and not for the end of a silence.
"""

import asyncio
import random
import time
from collections import deque
from collections.abc import Coroutine, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Literal, NamedTuple

import structlog
from prometheus_client import Counter as CounterMetric
from prometheus_client import Histogram

from schemas.webhooks import FENCED
from service.auth.authority import carry_out
from service.egress.guard import Guard, reach_of_webhooks
from service.eventstore.connect.connection import FULL_DISK, OUTAGE, RESENT
from service.eventstore.connect.facts import NOT_WRITTEN, Facts
from service.eventstore.read.reader import Caller, reading_for
from service.eventstore.store import EventStore
from service.fairness.bounds import FairBounds
from service.fairness.turns import CommandNotDone
from service.settings import Settings
from service.sql import Query, load_query
from service.webhooks.destination import stop as stop_destination
from service.webhooks.mail import Mailer, UnsubscribeToken
from service.webhooks.notifying import Notifier, Ready
from service.webhooks.queueing import DeliveryNotes, ToldEvent, compose
from service.webhooks.sending import (
    AttemptOutcome,
    Outgoing,
    is_destination,
    open_address,
    open_target,
    scope_of,
    send,
    send_message,
)
from service.webhooks.webhook import stop
from statemachines.kernel.machine import Rejection

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

    @property
    def key(self) -> str:
        """Its key in one word, to count it by."""
        return "/".join(self.name)


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
        self._of_webhook = FairBounds()
        self._of_account = FairBounds(PLACES, per_tenant=OF_ACCOUNT, for_first=FIRST_ONLY)
        self._unproven = FairBounds(PLACES - PROVEN_ONLY, per_tenant=UNPROVEN_OF_ACCOUNT, for_first=FIRST_UNPROVEN)
        self._patient = FairBounds(PATIENT, per_tenant=PATIENT_OF_ACCOUNT)
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
        for webhook in sorted(due, key=lambda one: (self._of_webhook.of(one.key), -one.idle)):
            lines.setdefault(webhook.account, deque()).append(webhook)
        chosen: list[AttemptPlace] = []
        while lines:
            for account in sorted(lines, key=self._of_account.of):
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
            if webhook.cut or self._of_webhook.of(webhook.key) or webhook.name in self._wanted_by.values():
                continue
            if not self._has_room(webhook) and (place := self._in_the_way(ready, webhook, now)) is not None:
                ready.remove(place)
                self._wanted_by[place] = webhook.name
                found.append(place)
        return found

    def _in_the_way(self, ready: Sequence[AttemptPlace], webhook: DueWebhook, now: float) -> AttemptPlace | None:
        """The attempt that began first of those whose end makes room for a webhook."""
        mine = self._of_account.of(webhook.account)
        for place in ready:
            other = place.webhook.account
            if now - place.since > webhook.idle or (other != webhook.account and self._of_account.of(other) <= mine):
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
        self._of_webhook.add(webhook.key, number)
        self._of_account.add(webhook.account, number)
        if not webhook.proven:
            self._unproven.add(webhook.account, number)
        if webhook.cut:
            self._patient.add(webhook.account, number)

    def _has_room(self, webhook: DueWebhook) -> bool:
        account = webhook.account
        if self._of_webhook.of(webhook.key) >= (OF_WEBHOOK if webhook.proven else 1) or self._of_account.full(account):
            return False
        return not (
            (webhook.cut and self._patient.full(account)) or (not webhook.proven and self._unproven.full(account))
        )


# The sending half of the outbox, a loop of the worker (R-WEB-07, G-091, G-159). A look finds webhooks with something
# due, places are given in turn, and deliveries are taken with an epoch. A task of its own attempts each: it makes
# the body, fixes it by the statement with the look at the webhook under its row, and begins the call only then.
# Attempts that begin or end at the same time share a statement. An attempt that is cut short to make room for
# another webhook has no outcome, and is made again. The deliveries of a worker killed at any line are due again
# after LEASE_MS. An outcome counts by the latest epoch only.

log = structlog.get_logger()

OUTCOMES = DELIVERED, FAILED, CUT = "delivered", "failed", "cut"
ATTEMPTS = CounterMetric("service_webhook_attempts", "Attempts to deliver to webhooks, by outcome.", ["outcome"])
SECONDS = Histogram(
    "service_webhook_attempt_seconds", "Seconds of an attempt to deliver.", buckets=(0.01, 0.1, 0.5, 1, 5, 10)
)
for _outcome in OUTCOMES:
    ATTEMPTS.labels(_outcome)  # from 0 on: an increase is seen only in a counter that was there before

SCHEDULE = (5, 300, 1800, 7200, 18000, 36000, 36000)
"""Seconds from a failed attempt to the next. Then a delivery is exhausted."""
JITTER = 0.1
"""The longest addition to a step, as a part of it."""
FAILING_SECONDS = 5 * 86_400
"""Of failures only, before a webhook is stopped."""
LEASE_MS = 20_000
"""Longer than an attempt with all around it takes."""
REST_MS = 500
"""Before the next look at a delivery, after a begin in vain."""
LOOKED_AT = 500
"""Webhooks of one look."""
POLL = 0.2  # seconds between looks while something is queued, and nothing ends
IDLE_POLL = 1.0  # while nothing is: the reader of the outbox wakes those who deliver, and RESENT does
BUSY = 0.01  # seconds between looks at least
AGAIN_SECONDS = 1.0
CONNECTIONS = 4
COMPOSE_SECONDS = 3.0

_LOOK = load_query("webhooks", "look")
_TAKE = load_query("webhooks", "take")
_BEGIN = load_query("webhooks", "begin")
_GIVE_BACK = load_query("webhooks", "give_back")
_DROP = load_query("webhooks", "drop")
_FINISH = load_query("webhooks", "finish")
_HOLD = load_query("webhooks", "hold")
_REST = load_query("webhooks", "rest_destination")


class TakenDelivery(NamedTuple):
    """A claimed delivery. `revision` is that of the subject's stream after the event."""

    project_id: str
    webhook_id: str
    position: int
    id: str
    event: str
    subject_id: str
    revision: int
    created_at: int
    step: int
    epoch: int
    body: str | None
    held: bool

    @property
    def claim(self) -> dict[str, Any]:
        """How statements name the delivery as it was taken."""
        return {
            "project_id": self.project_id,
            "webhook_id": self.webhook_id,
            "position": self.position,
            "epoch": self.epoch,
        }

    @property
    def told(self) -> ToldEvent:
        """The event to tell of."""
        return ToldEvent(self.project_id, self.id, self.event, self.subject_id, self.revision, self.created_at)


def next_step(step: int, outcome: AttemptOutcome, jitter: float) -> tuple[str, int | None]:
    """The state after an attempt, and in how many milliseconds the next one is due. None: there is none.

    `step` attempts were made before this one. `jitter` is from 0 to 1.
    """
    if outcome.delivered:
        return "delivered", None
    if outcome.gone:
        return "stopped", None
    if step >= len(SCHEDULE):
        return "exhausted", None
    step_ms = max(SCHEDULE[step], outcome.wait) * 1000
    return "open", step_ms + int(step_ms * JITTER * jitter)


class Deliverer:
    """The sending half of the outbox, one per worker."""

    def __init__(self, settings: Settings, store: EventStore, guard: Guard) -> None:
        self._settings = settings
        self._store = store
        self._guard = guard
        self._reach = reach_of_webhooks(allow_private=settings.webhook_allow_private)
        self._mailer = Mailer(settings, guard)
        self._places = AttemptPlaces()
        self._facts = Facts(settings.database_url, "service-deliveries", connections=CONNECTIONS, durable=True)
        self._begun = DeliveryNotes(self._facts, _BEGIN, ("body", "project_status", "membership_id"))
        self._notifier = Notifier(store, self._facts, settings.base_url)
        self._finished = DeliveryNotes(self._facts, _FINISH, ("state", "after_ms", "status", "error"))
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by delivery
        self._ended = asyncio.Event()
        self._from = ("", "")  # the webhook behind which the next look begins

    def wake(self) -> None:
        """Look for due deliveries now. Call it in the event loop."""
        self._ended.set()

    async def run(self) -> None:
        """Send until cancelled. Attempts under way are given up then, and made again by the next worker."""
        RESENT.listen(partial(asyncio.get_running_loop().call_soon_threadsafe, self.wake))
        await self._facts.start()
        try:
            while True:
                self._ended.clear()
                RESENT.expect()
                queued = True
                try:
                    queued = await self._turn()
                except NOT_WRITTEN as error:
                    _met(error)
                    await asyncio.sleep(AGAIN_SECONDS)
                except Exception as error:
                    log.exception("look_failed", cause=type(error).__name__)
                    await asyncio.sleep(AGAIN_SECONDS)
                await self._rest(POLL if queued else IDLE_POLL)
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            await asyncio.gather(self._begun.stop(), self._finished.stop())
            await self._facts.stop()

    async def _rest(self, seconds: float) -> None:
        """Wait until an attempt has ended, deliveries were queued, or for so long."""
        await asyncio.sleep(BUSY)
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            pass

    async def _turn(self) -> bool:
        """Look for due deliveries, and begin as many as there is room for. Returns whether any are queued."""
        project_id, webhook_id = self._from
        looked = {"project_id": project_id, "webhook_id": webhook_id, "most": LOOKED_AT}
        async with self._facts.connection() as connection:
            found = await (await connection.execute(_LOOK, looked)).fetchall()
        self._from = (found[-1][0], found[-1][1]) if len(found) == LOOKED_AT else ("", "")
        due = [
            DueWebhook(project, webhook, account, proven, NEVER if idle is None else idle, cut)
            for project, webhook, is_due, account, proven, idle, cut in found
            if is_due
        ]
        chosen = self._places.choose(due)
        now = asyncio.get_running_loop().time()
        for place in self._places.cut_short(due, now):
            assert place.patience is not None, "only a call under way is cut short"
            place.patience.reschedule(now)
        if chosen:
            await self._take(chosen)
        return bool(found) or project_id != ""  # one that began in the middle has not seen those before it

    async def _take(self, chosen: Sequence[AttemptPlace]) -> None:
        """Take deliveries of webhooks that have a place. Places without one are given back."""
        places: dict[tuple[str, str], list[AttemptPlace]] = {}
        for place in chosen:
            places.setdefault(place.webhook.name, []).append(place)
        values = {
            "projects": [project for project, _ in places],
            "webhooks": [webhook for _, webhook in places],
            "numbers": [len(some) for some in places.values()],
            "busy": list(self._tasks),
            "lease_ms": LEASE_MS,
        }
        try:
            async with self._facts.connection() as connection:
                taken = [TakenDelivery(*row) for row in await (await connection.execute(_TAKE, values)).fetchall()]
            for delivery in taken:
                place = places[delivery.project_id, delivery.webhook_id].pop()
                self._tasks[delivery.id] = asyncio.create_task(self._deliver(delivery, place))
        finally:
            for place in chain.from_iterable(places.values()):
                self._places.leave(place)

    async def _deliver(self, delivery: TakenDelivery, place: AttemptPlace) -> None:
        """Attempt one delivery. After an error, it is due again once its claim has lapsed."""
        try:
            await self._attempt(delivery, place)
        except (*NOT_WRITTEN, CommandNotDone) as error:
            _met(error)
        except Exception as error:
            log.exception("delivery_failed", delivery=delivery.id, cause=type(error).__name__)
        finally:
            self._places.leave(place)
            del self._tasks[delivery.id]
            self._ended.set()

    async def _attempt(self, delivery: TakenDelivery, place: AttemptPlace) -> None:
        body = None if delivery.body is None else delivery.body.encode()
        membership_id = mail_to = None
        if is_destination(delivery.webhook_id):
            ready = await self._judged(delivery, place)
            if ready is None:
                return
            body, membership_id, mail_to = body or ready.body, ready.membership_id, ready.mail_to
        elif body is None:
            with reading_for(Caller(place.webhook.account, COMPOSE_SECONDS)):
                body = await compose(self._store, delivery.told)
            if body is None:
                await self._note(_DROP, delivery.claim)
                return
        status = "fenced" if delivery.event == FENCED else "active"
        begun = await self._begun.note(
            {**delivery.claim, "body": body.decode(), "project_status": status, "membership_id": membership_id}
        )
        if begun is None:
            await self._note(_GIVE_BACK, {**delivery.claim, "rest_ms": REST_MS, "cut": False})
            return
        began = time.monotonic()
        outcome = await self._patiently(self._call(delivery, begun, place.webhook.account, mail_to), place)
        if outcome is None:
            ATTEMPTS.labels(CUT).inc()
            await self._note(_GIVE_BACK, {**delivery.claim, "rest_ms": REST_MS, "cut": True})
            return
        SECONDS.observe(time.monotonic() - began)
        ATTEMPTS.labels(DELIVERED if outcome.delivered else FAILED).inc()
        await self._settle(delivery, outcome)

    async def _judged(self, delivery: TakenDelivery, place: AttemptPlace) -> Ready | None:
        """A notification that is to be sent now. None: it is held, or dropped, and that is noted."""
        with reading_for(Caller(place.webhook.account, COMPOSE_SECONDS)):
            judged = await self._notifier.judge(
                delivery.webhook_id,
                delivery.told,
                delivery.position,
                held=delivery.held,
                fixed=delivery.body is not None,
            )
        if isinstance(judged, Ready):
            return judged
        if judged is None:
            await self._note(_DROP, delivery.claim)
        else:
            await self._note(_HOLD, {**delivery.claim, "seconds": judged.seconds})
        return None

    async def _call(
        self, delivery: TakenDelivery, begun: tuple[Any, ...], account: str, mail_to: str | None
    ) -> AttemptOutcome:
        """Call the receiver, by what the beginning of the attempt has opened."""
        fixed, url, *sealed, mail_address = begun
        if mail_to is not None:
            rule = UnsubscribeToken(delivery.project_id, delivery.webhook_id, mail_to)
            return await self._mailer.send(rule, mail_address, delivery.id, fixed.encode())
        key, scope = self._settings.encryption_key, scope_of(delivery.project_id, delivery.webhook_id)
        if is_destination(delivery.webhook_id):
            address = open_address(key, scope, url)
            return await send_message(self._guard, self._reach, account, address, fixed.encode())
        outgoing = Outgoing(delivery.id, delivery.event, fixed.encode())
        return await send(self._guard, self._reach, account, open_target(key, scope, url, *sealed), outgoing)

    async def _patiently(self, call: Coroutine[Any, Any, AttemptOutcome], place: AttemptPlace) -> AttemptOutcome | None:
        """Make a call. None when it was cut short."""
        place.since = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(None) as place.patience:
                return await call
        except TimeoutError:
            return None
        finally:
            place.patience = None

    async def _settle(self, delivery: TakenDelivery, outcome: AttemptOutcome) -> None:
        """Note an outcome, and stop the webhook when its receiver is gone or has failed for too long."""
        if outcome.gone:
            await self._stop(delivery, "gone")  # before it is noted: a crash between has it answer 410 again
        step = len(SCHEDULE) if delivery.event == FENCED else delivery.step  # The purge waits for one attempt.
        state, after_ms = next_step(step, outcome, random.random())  # noqa: S311 - jitter
        if outcome.wait:
            await self._note(_REST, {**delivery.claim, "seconds": outcome.wait})
        noted = await self._finished.note(
            {
                **delivery.claim,
                "state": state,
                "after_ms": after_ms,
                "status": outcome.status,
                "error": outcome.error,
            }
        )
        if noted is not None and noted[0] is not None and noted[0] >= FAILING_SECONDS:
            await self._stop(delivery, "failing")

    async def _stop(self, delivery: TakenDelivery, reason: Literal["gone", "failing"]) -> None:
        end = stop_destination if is_destination(delivery.webhook_id) else stop
        intent = end(delivery.project_id, delivery.webhook_id, reason)
        try:
            await carry_out(self._store, "webhooks", "stop webhook", intent, project=delivery.project_id)
        except Rejection as rejection:  # The project is gone, or on its way.
            log.info("webhook_not_stopped", webhook=delivery.webhook_id, cause=rejection.code)

    async def _note(self, query: Query, values: dict[str, Any]) -> None:
        """Run a statement for one delivery."""
        async with self._facts.connection() as connection:
            await connection.execute(query, values)


def _met(error: Exception) -> None:
    """Say that the database did not take a statement. Connections made for others tell of an outage."""
    if not FULL_DISK.met(error):
        say = log.debug if OUTAGE.lasts else log.info
        say("deliveries_wait", cause=type(error).__name__)
