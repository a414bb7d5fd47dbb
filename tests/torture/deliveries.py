"""Deliveries while everything dies: serving processes, the worker, the database, and the receiver (R-WEB-07, G-091).

Each event that is in the log arrives, and nothing else does. Of one event every arrival has the same id and body. First
attempts for one case come in the order of its events, unless the receiver has failed one of them.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import pairwise
from math import ceil
from typing import Any, NamedTuple

import httpx2
import psycopg
from standardwebhooks.webhooks import WebhookVerificationError

from service.webhooks.sending import delivery_id
from service.webhooks.testing import DOCUMENTED, TOPICS, name_of
from tests.support import seen
from tests.support.api import Api, ok
from tests.support.listening import Arrived, Listener, respond
from tests.torture.runs import Size, Theatre
from tests.torture.stage import TIMEOUT, Stage

EVENTS = 3
"""Of each case: opened, resolved, returned."""
PROJECTS = 8
CLIENTS = 16
DOWN_SECONDS = (0.05, 0.5)
FAILING, SILENT = 0.03, 0.03
"""Shares of the deliveries answered with 500, and of those that the receiver drops once it has read them."""
REST_SECONDS = 60
STEP_SECONDS = 40
"""Steps of the clock at the end, past the lease of a killed worker and on to the retries."""


class Shop(NamedTuple):
    """A project with a webhook."""

    owner: Api
    dsn: Api
    project_id: str
    webhook_id: str
    secret: str


class Receiver(Listener):
    """A receiver on one port, which dies and comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.deaths = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.answering = self._answer

    async def start(self) -> None:
        """Listen, again on the port of before."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def die(self) -> None:
        """Refuse connections for a moment, and break those that are there."""
        self.deaths += 1
        self.stop()
        try:
            await asyncio.sleep(random.uniform(*DOWN_SECONDS))
        finally:
            await self.start()  # also at the end of the storm

    def stop(self) -> None:
        """Close the port, and break every connection."""
        assert self._server is not None
        self._server.close()
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            await self.serve(reader, writer)
        finally:
            self._open.discard(writer)

    async def _answer(self, _: Arrived, writer: asyncio.StreamWriter) -> None:
        dice = random.random()
        if dice >= FAILING + SILENT:
            await respond(writer, 204)
        elif dice < FAILING:
            await respond(writer, 500)


async def webhooks(theatre: Theatre, size: Size) -> list[str]:
    """API, worker, database and receiver die: each delivery arrives, once by its id, first attempts in order."""
    receiver = Receiver()
    await receiver.start()
    try:
        async with theatre.scene(size) as st:
            shops = [await open_shop(st, receiver.url) for _ in range(PROJECTS)]
            killing = asyncio.create_task(kill(theatre, st, receiver, size))
            try:
                await live(st, shops, ceil(size.keys / EVENTS))
                give_up = time.monotonic() + size.seconds
                while not enough(st, receiver, size):
                    assert not killing.done(), killing.exception()
                    assert time.monotonic() < give_up, f"too little happened: {st.fired}, {receiver.deaths}"
                    await asyncio.sleep(0.1)
            finally:
                killing.cancel()
                await asyncio.gather(killing, return_exceptions=True)
            theatre.say(f"{len(receiver.arrived)} arrivals while they died")
            await st.settle()
            await rest(st, receiver)
            expected = await told_events(st, shops)
            wrong = check(receiver, shops, expected, await attempts(st))
            if len(expected) < size.keys:
                wrong.append(f"{len(expected)} events for {size.keys} deliveries")
            repeated = len(receiver.arrived) - len({one.id for one in receiver.arrived})
            theatre.say(f"{len(expected)} events, {repeated} arrived again, {receiver.deaths} deaths of the receiver")
            return [*wrong, *await st.check()]
    finally:
        receiver.stop()


async def open_shop(st: Stage, url: str) -> Shop:
    """Make a project of a fresh owner, with a webhook for the five documented events."""
    owner = await st.world.sign_in()
    made = await owner.create_project()
    hook = ok(await owner.post(f"/v1/projects/{made['id']}/webhooks", {"url": url, "events": ["*"]}), 201)
    return Shop(owner, st.world.having(made["dsn"]), made["id"], hook["id"], hook["secret"])


async def kill(theatre: Theatre, st: Stage, receiver: Receiver, size: Size) -> None:
    """Strike one of them after the other, in a random order, at random moments."""
    strikes: list[Callable[[], Any]] = [
        st.kill_api,
        lambda: st.kill_api(everyone=True),
        st.kill_worker,
        lambda: end_all_sessions(st),
        receiver.die,
    ]
    if "database_killed" in size.least:
        strikes.append(lambda: crash(theatre, st))
    while True:
        for strike in random.sample(strikes, len(strikes)):
            await asyncio.sleep(random.uniform(*size.gaps))
            if strike == receiver.die:
                await receiver.die()
            else:
                await asyncio.to_thread(strike)


def end_all_sessions(st: Stage) -> None:
    """End every session of the service in the database."""
    with suppress(psycopg.OperationalError), psycopg.connect(st.url, autocommit=True) as connection:
        [[ended]] = connection.execute(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity "
            "where pid <> pg_backend_pid() and datname = current_database() and application_name like 'service-%'"
        ).fetchall()
        st.fired["sessions ended"] += ended


def crash(theatre: Theatre, st: Stage) -> None:
    """Kill a process of the database, which then ends all others and recovers."""
    theatre.cluster.crash()
    st.fired["database killed"] += 1


def enough(st: Stage, receiver: Receiver, size: Size) -> bool:
    """Whether each of them has died often enough."""
    died = Counter(st.fired)
    died["receiver killed"] = receiver.deaths
    return all(died[name.replace("_", " ")] >= least for name, least in size.least.items())


async def live(st: Stage, shops: list[Shop], cases: int) -> None:
    """Open cases, close them, and have them come back, whatever dies meanwhile."""
    left = iter(range(cases))
    limits = httpx2.Limits(max_connections=CLIENTS)
    async with seen.async_client(st.base_url, timeout=TIMEOUT, limits=limits) as client:

        async def take() -> None:
            for number in left:
                await life(client, shops[number % len(shops)], number)

        await asyncio.gather(*(take() for _ in range(CLIENTS)))


async def life(client: httpx2.AsyncClient, shop: Shop, number: int) -> None:
    """One case from its beginning to its return."""
    words = "".join("ghjklmnpqr"[int(digit)] for digit in str(10_000 + number))  # no number, no hexadecimal id
    body = {"level": "error", "message": f"boom {words}"}

    def send(caller: Api, path: str, body: dict[str, Any], key: str) -> Callable[[], Awaitable[httpx2.Response]]:
        headers = {"authorization": f"Bearer {caller.secret}", "idempotency-key": key}
        return lambda: client.post(path, json=body, headers=headers)

    case_id = (await insist(send(shop.dsn, "/v1/logs/", body, f"open-{number}")))["case_id"]
    await insist(send(shop.owner, f"/v1/cases/{case_id}/resolve", {"case_revision": 1}, f"resolve-{number}"))
    await insist(send(shop.dsn, "/v1/logs/", body, f"return-{number}"))


async def insist(send: Callable[[], Awaitable[httpx2.Response]]) -> dict[str, Any]:
    """Send a request with its key until it succeeds."""
    while True:
        with suppress(httpx2.TransportError):
            answer = await send()
            if answer.is_success:
                body: dict[str, Any] = answer.json()
                return body
            passing = answer.status_code >= 500 or answer.json()["error"]["code"] == "idempotency_in_progress"
            assert passing, answer.text
        await asyncio.sleep(random.uniform(0.05, 0.2))


async def rest(st: Stage, receiver: Receiver) -> None:
    """Move the clock on until nothing is due and the outbox has read the whole log.

    Waits as long as deliveries arrive, and no longer than REST_SECONDS without one.
    """
    left = (
        "select (select count(*) from webhook_deliveries where due_ms is not null), "
        "(select size from log_state) - (select position from checkpoints where name = 'outbox')"
    )
    seen, give_up = 0, time.monotonic() + REST_SECONDS
    while (found := await st.world.sql(left)) != [(0, 0)]:
        if len(receiver.arrived) > seen:
            seen, give_up = len(receiver.arrived), time.monotonic() + REST_SECONDS
        assert time.monotonic() < give_up, f"{found} (due, not read) are left, and {seen} have arrived"
        await st.world.wait(STEP_SECONDS)
        await asyncio.sleep(1)


class ToldEvent(NamedTuple):
    """An event of the log that a webhook is to be told of."""

    delivery: str
    name: str
    subject: str
    revision: int


async def told_events(st: Stage, shops: list[Shop]) -> list[ToldEvent]:
    """What the log holds, in the order of each subject."""
    query = (
        "select project_id, event_id, topic, stream_id, revision from events where topic = any(%s) "
        "and project_id = any(%s) order by project_id, stream_id, revision"
    )
    topics = [topic for name in DOCUMENTED for topic in TOPICS[name]]
    hooks = {shop.project_id: shop.webhook_id for shop in shops}
    return [
        ToldEvent(delivery_id(hooks[project], event_id), str(name_of(topic)), stream, revision)
        for project, event_id, topic, stream, revision in await st.world.sql(query, topics, list(hooks))
    ]


async def attempts(st: Stage) -> dict[str, int]:
    """The attempts of each delivery whose outcome was noted."""
    return dict(await st.world.sql("select id, attempts from webhook_deliveries"))


def check(receiver: Receiver, shops: list[Shop], expected: list[ToldEvent], noted: dict[str, int]) -> list[str]:
    """Everything that the receiver may say about it."""
    first: dict[str, tuple[int, Arrived]] = {}
    bodies: dict[str, set[bytes]] = {}
    for number, one in enumerate(receiver.arrived):
        first.setdefault(one.id, (number, one))
        bodies.setdefault(one.id, set()).add(one.body)
    wanted = {one.delivery: one for one in expected}
    wrong = [f"{one} never arrived" for id_, one in wanted.items() if id_ not in first]
    wrong += [
        f"{one.event} {id_} arrived and is not in the log" for id_, (_, one) in first.items() if id_ not in wanted
    ]
    wrong += [f"{id_} arrived with {len(found)} bodies" for id_, found in bodies.items() if len(found) > 1]
    wrong += [f"{id_} was noted {noted.get(id_)} times" for id_ in wanted if not noted.get(id_)]
    secrets = {shop.project_id: shop.secret for shop in shops}
    for one in receiver.arrived:
        try:
            one.verify(secrets[str(one.document["project_id"])])
        except WebhookVerificationError as fault:
            wrong.append(f"{one.id}: {fault}")
    wrong += [f"{id_}: {one.event} for {wanted[id_].name}" for id_, (_, one) in first.items()
              if id_ in wanted and one.event != wanted[id_].name]  # fmt: skip
    return wrong + out_of_order(expected, {id_: number for id_, (number, _) in first.items()}, noted) + receiver.faults


def out_of_order(expected: list[ToldEvent], place: dict[str, int], noted: dict[str, int]) -> list[str]:
    """Pairs of one case of which the later event arrived first, although no attempt for the earlier one had failed."""
    judged, wrong = 0, []
    for earlier, later in pairwise(expected):
        if earlier.subject != later.subject or noted.get(earlier.delivery) != 1:
            continue
        judged += 1
        if place.get(later.delivery, 0) < place.get(earlier.delivery, 0):
            wrong.append(f"{later} arrived before {earlier}")
    if judged < len(expected) // 4:
        wrong.append(f"of {len(expected)} events only {judged} could be judged by their order")
    return wrong


RUNS = {"webhooks": webhooks}
SHORT = {
    "webhooks": Size(
        1,
        60,
        keys=180,
        gaps=(0.1, 0.5),
        least={"api_killed": 3, "worker_killed": 2, "sessions_ended": 2, "receiver_killed": 2},
    )
}
FULL = {
    "webhooks": Size(
        1,
        300,
        keys=2_000,
        gaps=(0.1, 1.0),
        least={
            "api_killed": 25,
            "worker_killed": 12,
            "sessions_ended": 25,
            "database_killed": 12,
            "receiver_killed": 12,
        },
    )
}
