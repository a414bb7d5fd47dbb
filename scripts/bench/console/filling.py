"""A project for every page of the console: very many cases and errors, a long run, and one of everything else."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from scripts.bench.intake import caselists
from scripts.bench.work import chains
from scripts.load import automation_world, loadgen, worlds
from scripts.load.automation_world import Shop, open_shop, start_run
from service.accounts.membership import offer_first_session, offer_session
from service.eventstore.store import EventStore
from service.registry import registry
from statemachines.accounts.person import Identity

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
    """A webhook, an alert, a public query, a suppression, an invitation and a sign-in of a device."""

    def make(path: str, body: Any) -> Any:
        return world.call("POST", f"{shop.path}/{path}", body, shop.owner, idempotency_key=_key())

    hook = make("webhooks", {"url": "http://127.0.0.1:9/", "events": ["case.created"]})
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
    invited = make("members", {"email": GUEST, "role": "member"})
    device = world.call("POST", "/v1/auth/device", {"client_name": "A laptop"}, None)
    return {
        "webhook_id": hook["id"],
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
