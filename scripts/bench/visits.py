"""The row of the console: visits to every page in a large project."""

from __future__ import annotations

import argparse
import asyncio
import re
import secrets
import sys
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from rich.console import Console

from scripts.bench import caselists, chains
from scripts.bench.errors import spent
from scripts.bench.figures import Figures, console, weight_of_api
from scripts.load import automation_world, loadgen, worlds
from scripts.load.automation_world import PLAYBOOK, Shop, open_shop, start_run
from scripts.load.bench_server import CONSOLE
from service.accounts.membership import offer_first_session, offer_session
from service.console import pages
from service.eventstore.store import EventStore
from service.http.measure.memory import LOOK_SECONDS
from service.process.supervisor import MEMORY
from service.registry import modules, registry
from statemachines.accounts.person import Identity

# A project for every page of the console: very many cases and errors, a long run, and one of everything else.

RUN_EVENTS = 1_000
LOUD = 20
"""Of a hundred errors, those of the one case whose pages are visited."""
GUEST = "guest@example.com"
CHARGE = {"runtime_seconds": 1, "cost_usd": 0.01, "label": "read the code"}


def fill(world: worlds.World, cases: int, errors: int) -> dict[str, str]:
    """Make it; returns the ids that places are named by."""
    shop = open_shop(world, "console")
    ids = {"project_id": shop.id, "run_id": _long_run(world, shop)}
    world.load(lambda _: _one_chain(shop), 1, 60)
    ids |= _one_of_each(world, shop)
    caselists.fill(world, shop.id, cases, errors, loud=LOUD)
    ids["case_id"] = caselists.LOUD
    stored = world.call("GET", f"/v1/cases/{ids['case_id']}/events", None, shop.owner)["events"]
    ids["event_id"] = stored[len(stored) // 2]["id"]
    people = world.call("GET", f"{shop.path}/users", None, shop.owner)["users"]
    ids["distinct_id"] = quote(people[0]["user_id"])
    ids["deploy_id"] = world.call("GET", f"{shop.path}/deploys", None, shop.owner)["deploys"][0]["deploy_id"]
    return ids


def _long_run(world: worlds.World, shop: Shop) -> str:
    """A run that is under way, with so many events, the last of which asks a person."""
    run_id, epoch = start_run(world, shop)
    path = f"/v1/automation-runs/{run_id}"
    run = world.call("GET", path, None, shop.runner)
    token = {"state_revision": run["state_revision"], "lease_epoch": epoch}
    started = world.call("PATCH", path, token | {"phase": "running"}, shop.runner, idempotency_key=_key())
    token["state_revision"] = started["state_revision"]
    world.load(lambda _: _charging(shop, path, token), 1, 600)
    ask = {"action": "draft_pr", "summary": "Save the order.", "evidence": {"diff": "-a\n+b\n" * 200}}
    world.call("POST", f"{path}/approvals", token | ask, shop.runner, idempotency_key=_key())
    return run_id


def _charging(shop: Shop, path: str, token: dict[str, int]) -> loadgen.Client:
    while token["state_revision"] < RUN_EVENTS - 1:
        charged = yield from chains.ask("POST", f"{path}/usage", token | CHARGE, shop.runner)
        token["state_revision"] = charged["state_revision"]


def _one_chain(shop: Shop) -> loadgen.Client:
    yield from chains.open_case(shop, "Chained")
    yield from chains.carry_to_deploy(shop)


def _one_of_each(world: worlds.World, shop: Shop) -> dict[str, str]:
    """A webhook, a chat, an alert, a public query, a suppression, an invitation and a sign-in of a device."""

    def make(path: str, body: Any) -> Any:
        return world.call("POST", f"{shop.path}/{path}", body, shop.owner, idempotency_key=_key())

    hook = make("webhooks", {"url": "http://127.0.0.1:9/", "events": ["case.created"]})
    chat = {"kind": "slack", "url": "http://127.0.0.1:9/", "name": "A chat"}
    destination = make("notifications/destinations", chat)
    alert = {
        "blueprint_id": "event-count",
        "params": {"event": automation_world.TRAFFIC},
        "threshold_column": "row_count",
        "threshold_op": "gte",
        "threshold_value": 1,
        "name": "Somebody pays",
    }
    make("alerts", alert)
    make("public-queries", {"blueprint_id": "top-events", "title": "What happens"})
    make("suppressions", {"fingerprint_pattern": "no-such*", "action": "auto_ignore"})
    kept = make("case-views", {"name": "Part 13", "filter": {"text": "part 13"}})
    invited = make("members", {"email": GUEST, "role": "member"})
    device = world.call("POST", "/v1/auth/device", {"client_name": "A laptop"}, None)
    return {
        "webhook_id": hook["id"],
        "destination_id": destination["id"],
        "view_id": kept["view_id"],
        "invitation_id": invited["invitation_id"],
        "user_code": device["user_code"],
    }


def _key() -> str:
    return secrets.token_hex(8)


def links(world: worlds.World, project_id: str) -> Mapping[str, str]:
    """One-time links of the owner of a project and of its guest, as the operator makes them."""
    [owner] = world.call("GET", f"/v1/projects/{project_id}/members", None, world.owner_key)["members"]
    guest = Identity("email", GUEST, GUEST, email_verified=True)

    async def offer() -> Mapping[str, str]:
        store = EventStore(world.database_url, registry())
        try:
            await store.start()
            own = await offer_session(store, owner["user_id"])
            return {"owner": own.secret, "guest": (await offer_first_session(store, guest)).secret}
        finally:
            await store.stop()

    return asyncio.run(offer())


# Visits to every page of the console in a large project: how long, how many bytes, and what the process weighs.
# `python -m scripts.bench.visits --share 0.01` runs it by itself at a hundredth of the promised size.

PROMISED = 150.0
"""Milliseconds that 95 of 100 visits to any page take at most."""
FIRST_VISIT = 110_000
"""Bytes of a first visit, from the sign-in to the cases of a project, with all files and heads."""
BEFORE, AFTER = 2.0, 20.0
"""MB that the console adds to an API process before its first page, and after all of them."""
TURNS = 3  # of two idle processes that are compared
ROUNDS = 40

PLACES: Mapping[str, tuple[str, ...]] = {
    "": ("",),
    "again": ("again",),
    "cases/{case_id}": ("cases/{case_id}",),
    "cases/{case_id}/errors": ("cases/{case_id}/errors",),
    "cases/{case_id}/errors/{event_id}": ("cases/{case_id}/errors/{event_id}",),
    "cases/{case_id}/errors/{event_id}/json": ("cases/{case_id}/errors/{event_id}/json",),
    "cases/{case_id}/people": ("cases/{case_id}/people",),
    "device": ("device?user_code={user_code}",),
    "how-to-verify": ("how-to-verify",),
    "invitations/{invitation_id}": ("invitations/{invitation_id}",),
    "operator": ("operator",),
    "projects/{project_id}": ("projects/{project_id}",),
    "projects/{project_id}/alerts": ("projects/{project_id}/alerts?blueprint=event-count",),
    "projects/{project_id}/analytics": ("projects/{project_id}/analytics",),
    "projects/{project_id}/analytics/ask": (
        "projects/{project_id}/analytics/ask?blueprint=top-events",
        f"projects/{{project_id}}/analytics/ask?blueprint=event-trend&params.event={automation_world.TRAFFIC}",
    ),
    "projects/{project_id}/analytics/event": (
        f"projects/{{project_id}}/analytics/event?name={automation_world.TRAFFIC}",
    ),
    "projects/{project_id}/approvals": ("projects/{project_id}/approvals",),
    "projects/{project_id}/arrived": ("projects/{project_id}/arrived",),
    "projects/{project_id}/automation": ("projects/{project_id}/automation",),
    "projects/{project_id}/automation/edit": ("projects/{project_id}/automation/edit",),
    "projects/{project_id}/automation/playbooks/{id}": (f"projects/{{project_id}}/automation/playbooks/{PLAYBOOK}",),
    "projects/{project_id}/cases": (
        "projects/{project_id}/cases",
        "projects/{project_id}/cases?status=all&seen=week",
        "projects/{project_id}/cases?text=part+13",
    ),
    "projects/{project_id}/credentials": ("projects/{project_id}/credentials",),
    "projects/{project_id}/ci-bindings": ("projects/{project_id}/ci-bindings",),
    "projects/{project_id}/delete": ("projects/{project_id}/delete",),
    "projects/{project_id}/deploys": ("projects/{project_id}/deploys",),
    "projects/{project_id}/deploys/{deploy_id}": ("projects/{project_id}/deploys/{deploy_id}",),
    "projects/{project_id}/feedback": ("projects/{project_id}/feedback",),
    "projects/{project_id}/log": ("projects/{project_id}/log",),
    "projects/{project_id}/logs": ("projects/{project_id}/logs", "projects/{project_id}/logs?user=u-13&when=week"),
    "projects/{project_id}/members": ("projects/{project_id}/members",),
    "projects/{project_id}/notifications": ("projects/{project_id}/notifications",),
    "projects/{project_id}/notifications/{id}": ("projects/{project_id}/notifications/{destination_id}",),
    "projects/{project_id}/onboarding": ("projects/{project_id}/onboarding",),
    "projects/{project_id}/people": ("projects/{project_id}/people", "projects/{project_id}/people?days=90"),
    "projects/{project_id}/people/person": ("projects/{project_id}/people/person?id={distinct_id}",),
    "projects/{project_id}/public-queries": ("projects/{project_id}/public-queries?blueprint=top-events",),
    "projects/{project_id}/receipts": ("projects/{project_id}/receipts",),
    "projects/{project_id}/reports": ("projects/{project_id}/reports",),
    "projects/{project_id}/runs": ("projects/{project_id}/runs",),
    "projects/{project_id}/source-maps": ("projects/{project_id}/source-maps",),
    "projects/{project_id}/search": ("projects/{project_id}/search?q=part+13",),
    "projects/{project_id}/settings": ("projects/{project_id}/settings",),
    "projects/{project_id}/suppressions": ("projects/{project_id}/suppressions",),
    "projects/{project_id}/usage": ("projects/{project_id}/usage",),
    "projects/{project_id}/views": ("projects/{project_id}/views",),
    "projects/{project_id}/views/{view_id}": ("projects/{project_id}/views/{view_id}",),
    "projects/{project_id}/webhooks": ("projects/{project_id}/webhooks",),
    "projects/{project_id}/webhooks/{id}": ("projects/{project_id}/webhooks/{webhook_id}",),
    "runs/{run_id}": ("runs/{run_id}",),
    "sessions": ("sessions",),
    "settings": ("settings",),
    "streams": ("streams?stream_id={run_id}",),
    "streams/{stream_id}": ("streams/{run_id}", "streams/{run_id}?from=1&to=999", "streams/{project_id}"),
}
"""The places that are visited, by the addresses of their pages."""
LEFT_OUT = frozenset({"download/answer.csv", "download/{operation_id}", "runs/{run_id}/report"})
"""A file, and one document that no size of a project makes larger."""
GUESTS = frozenset({"invitations/{invitation_id}", "operator"})
"""Pages that the guest visits, who is invited and an operator of the installation."""


class PageTimes(NamedTuple):
    """Visits to a place: milliseconds of half, of 95 of 100 and of the slowest, and processor time of a visit."""

    place: str
    p50: float
    p95: float
    most: float
    api: float
    database: float


@dataclass
class ConsoleFigures:
    """What a run measured: places, bytes of a first visit, and MB (PSS) of the API process.

    `idle` are those of a process without the console, and of one that has it unopened. `opened` is how much that one
    grew by all pages.
    """

    timed: list[PageTimes] = field(default_factory=list)
    first_visit: int = 0
    idle: tuple[float, float] = (0.0, 0.0)
    opened: float = 0.0

    @property
    def slowest(self) -> PageTimes:
        """The place that takes longest."""
        return max(self.timed, key=lambda timed: timed.p95)


def places() -> dict[str, tuple[str, ...]]:
    """The places by the addresses of all pages. Exits for a page without any."""
    known = {one.address for module in modules(pages) for one in getattr(module, "PAGES", ())} - LEFT_OUT
    if known != PLACES.keys():
        raise SystemExit(f"not in the list of places, or in no page: {known ^ PLACES.keys()}")
    return dict(PLACES)


def measure(world: worlds.World, share: float) -> ConsoleFigures:
    """Weigh idle processes; then fill a project, and visit every page of it."""
    visited, found = places(), ConsoleFigures()
    found.idle = _idle(world)
    with world.api(CONSOLE, SERVICE_WEBHOOK_ALLOW_PRIVATE="1", SERVICE_OPERATORS=GUEST, **MEMORY):
        ids = fill(world, int(caselists.CASES * share), int(caselists.EVENTS * share))
        offered = links(world, ids["project_id"])
        world.settle()
        before = _settled_weight()
        cookies = {who: _enter(world, link) for who, link in offered.items()}
        for address, named in visited.items():
            cookie = cookies["guest" if address in GUESTS else "owner"]
            found.timed += [_visits(world, cookie, place, place.format(**ids)) for place in named]
        found.opened = _settled_weight() - before
        found.first_visit = _first_visit(world, cookies["owner"], ids["project_id"])
    return found


def _settled_weight() -> float:
    """MB of the process once it has given back what it had freed."""
    time.sleep(1.2 * LOOK_SECONDS)
    return weight_of_api()


def _idle(world: worlds.World) -> tuple[float, float]:
    """MB of idle processes by turns, without the console and with it."""
    weights: dict[str, list[float]] = {"": [], CONSOLE: []}
    for _ in range(TURNS):
        for argument, weighed in weights.items():
            with world.api(*filter(None, [argument]), **MEMORY):
                weighed.append(weight_of_api())
    return median(weights[""]), median(weights[CONSOLE])


def _enter(world: worlds.World, link: str) -> dict[str, str]:
    """Sign in with a link; returns the headers of a browser that is signed in."""
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "origin": f"http://{worlds.HOST}:{world.port}",
    }
    got: list[loadgen.Response] = []

    def entering() -> loadgen.Client:
        got.append((yield ("POST", "/console/enter", headers, urlencode({"token": link}).encode())))

    world.load(lambda _: entering(), 1, 30)
    status, answered, body = got[0]
    if status != 303:
        raise SystemExit(f"the sign-in answered {status}: {body[:400]!r}")
    cookie = answered[b"set-cookie"].decode().partition(";")[0]
    return {"cookie": cookie, "accept-encoding": "gzip", "accept": "text/html"}


def _visits(world: worlds.World, cookie: dict[str, str], name: str, place: str) -> PageTimes:
    """Visit a place again and again, on one connection, after two visits to warm up."""
    times: list[float] = []
    used: list[tuple[float, float]] = []

    def visiting() -> loadgen.Client:
        for turn in range(-2, ROUNDS):
            if turn == 0:
                used.append(spent(world))
            began = time.perf_counter()
            status, _, body = yield ("GET", f"/console/{place}".rstrip("/"), cookie, b"")
            if status != 200:
                raise SystemExit(f"{place} answered {status}: {body[:2000]!r}")
            if turn >= 0:
                times.append(1000 * (time.perf_counter() - began))
        used.append(spent(world))

    world.load(lambda _: visiting(), 1, 600)
    api, database = (1000 * (after - before) / ROUNDS for before, after in zip(*used, strict=True))
    return PageTimes(name, median(times), quantiles(times, n=20, method="inclusive")[-1], max(times), api, database)


def _first_visit(world: worlds.World, cookie: dict[str, str], project_id: str) -> int:
    """Bytes of the answers to a browser that comes for the first time, with all files that pages load."""
    seen: dict[str, int] = {}

    def coming() -> loadgen.Client:
        for place in ("/enter", "", f"/projects/{project_id}", f"/projects/{project_id}/cases"):
            shown = yield from _take(f"/console{place}", cookie, seen)
            for loaded in _loaded(shown):
                if loaded not in seen:
                    yield from _take(loaded, cookie, seen)

    world.load(lambda _: coming(), 1, 30)
    return sum(seen.values())


def _take(
    address: str, cookie: dict[str, str], seen: dict[str, int]
) -> Generator[loadgen.Request, loadgen.Response, bytes]:
    status, headers, body = yield ("GET", address, cookie, b"")
    heads = sum(len(name) + len(value) + 4 for name, value in headers.items())
    seen[address] = len(f"HTTP/1.1 {status} \r\n\r\n") + heads + len(body)
    return body


def _loaded(page: bytes) -> list[str]:
    return re.findall(r'(?:href|src)="(/console/assets/[^"]+)"', page.decode())


def show(found: ConsoleFigures, console: Console) -> None:
    """Print every place, slowest first, and what the process weighs."""
    for timed in sorted(found.timed, key=lambda one: -one.p95):
        console.print(
            f"  /{timed.place}: p95 {timed.p95:.1f} ms, p50 {timed.p50:.1f}, most {timed.most:.1f}, "
            f"processor {timed.api:.1f} in the API, {timed.database:.1f} in the database",
            highlight=False,
            soft_wrap=True,
        )
    without, unopened = found.idle
    console.print(f"  {without:.1f} MB without the console, {unopened:.1f} unopened; all pages {found.opened:+.1f} MB")


def main() -> int:
    """Measure it alone; exits 1 when a page takes longer than promised."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the promised number of cases and errors")
    arguments = parser.parse_args()
    console = Console(width=140)
    with worlds.World() as world:
        found = measure(world, arguments.share)
    show(found, console)
    console.print(f"  first visit: {found.first_visit:,} bytes")
    return 1 if found.slowest.p95 > PROMISED else 0


def measure_console(figures: Figures, world: worlds.World, share: float) -> None:
    """Visit every page of the console, in a project with very many cases and errors and a long run."""
    found = measure(world, share)
    show(found, console)
    without, unopened = found.idle
    size = f"{int(caselists.CASES * share):,} cases and {int(caselists.EVENTS * share):,} errors"
    name = f"p95 of a page with {size} (/{found.slowest.place})"
    figures.add(name, found.slowest.p95, "ms", yardstick=PROMISED, promised=1, most=True)
    wire = found.first_visit / 1000
    figures.add("first visit to the console", wire, "kB", yardstick=FIRST_VISIT / 1000, promised=1, most=True)
    figures.add("the console, unopened (PSS)", unopened - without, "MB", yardstick=1, promised=BEFORE, most=True)
    figures.add("all pages of it opened (PSS)", found.opened, "MB", yardstick=1, promised=AFTER, most=True)


if __name__ == "__main__":
    sys.exit(main())
