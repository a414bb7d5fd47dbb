"""DSNs at every door of the intake, in every form that was ever shown (G-026, G-142)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import httpx2
import pytest

from tests.support.api import Person, World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.posthog import CAPTURED
from tests.support.sentry import PYTHON_EVENT, envelope, of_event

pytestmark = pytest.mark.shares_server

LOG = {"message": "boom", "level": "error"}
EVENT = {"event": "order_paid", "distinct_id": "u1"}
ERROR = {"severityNumber": 17, "body": {"stringValue": "charging failed"}}
OTLP = {"resourceLogs": [{"scopeLogs": [{"logRecords": [ERROR]}]}]}
ALL_DOORS = (
    "logs bearer",
    "logs header",
    "logs query",
    "analytics bearer",
    "analytics header",
    "analytics query",
    "browser-config",
    "sentry envelope",
    "sentry store",
    "sentry query",
    "sentry tunnel",
    "posthog batch",
    "posthog capture",
    "otlp",
)


def key_of(dsn: str) -> str:
    """The key of a DSN, or of a text that is one already."""
    return dsn.rsplit("//", maxsplit=1)[-1].split("@", maxsplit=1)[0]


def project_of(dsn: str, alias: int) -> str:
    """What an SDK of Sentry puts into its path: the last part of the DSN."""
    return dsn.rsplit("/", 1)[-1] if "/" in dsn else str(alias)


def written(body: Any) -> bytes:
    return json.dumps(body).encode()


async def knock(world: World, door: str, dsn: str, alias: int) -> httpx2.Response:
    """Send one record by a door, with a DSN as it was pasted."""
    key, named = key_of(dsn), project_of(dsn, alias)
    event = {**PYTHON_EVENT, "event_id": uuid4().hex}
    sentry = {"x-sentry-auth": f"Sentry sentry_key={key}, sentry_version=7"}

    said: dict[str, str] = {}
    method, sent = "POST", b""
    match door.split():
        case ["logs" | "analytics" as kind, place]:
            path = f"/v1/{kind}/" + (f"?dsn={quote(dsn, safe='')}" if place == "query" else "")
            said = {"bearer": {"authorization": f"Bearer {dsn}"}, "header": {"x-service-dsn": dsn}}.get(place, {})
            sent = written(LOG if kind == "logs" else EVENT)
        case ["browser-config"]:
            method, path = "GET", f"/v1/analytics/browser-config?dsn={quote(dsn, safe='')}"
        case ["sentry", "envelope"]:
            path, said, sent = f"/api/{named}/envelope/", sentry, of_event(event)
        case ["sentry", "store"]:
            path, said, sent = f"/api/{named}/store/", sentry, written(event)
        case ["sentry", "query"]:
            path, sent = f"/api/{named}/envelope/?sentry_key={key}", of_event(event)
        case ["sentry", "tunnel"]:
            header = {"dsn": f"https://{key}@h/{named}"}
            path, sent = f"/api/{named}/envelope/", envelope(({"type": "event"}, written(event)), header=header)
        case ["posthog", "batch"]:
            path, sent = "/batch/", written({"api_key": dsn, "batch": [CAPTURED]})
        case ["posthog", "capture"]:
            path, sent = "/capture/", written({"api_key": dsn, **CAPTURED})
        case _:
            path, said, sent = "/v1/logs", {"authorization": f"Bearer {dsn}"}, written(OTLP)
    headers = {"content-type": "application/json", **said} if sent else said
    return await world.call(method, path, content=sent, headers=headers)


async def records(world: World, project_id: str) -> int:
    """Records stored of a project."""
    [[count]] = await world.sql(
        "select (select count(*) from log_events where project_id = %s)"
        " + (select count(*) from analytics_events where project_id = %s)",
        project_id,
        project_id,
    )
    return int(count)


@pytest.fixture
async def owner(world: World) -> Person:
    return await world.sign_in()


def forms(made: Mapping[str, Any]) -> list[str]:
    """The forms of one DSN: as it is shown, as it was shown with the id of its project, and its key alone."""
    dsn, named = made["dsn"], f"/{made['alias']}"
    assert dsn.endswith(named)
    return [dsn, dsn.removesuffix(named) + f"/{made['id']}", key_of(dsn)]


async def test_one_form_wherever_a_dsn_is_shown(world: World, owner: Person) -> None:
    made = await owner.create_project()
    path = f"/v1/projects/{made['id']}"
    shown = [made, ok(await owner.get(f"{path}/dsn")), ok(await owner.post(f"{path}/dsn/rotate", {}))]
    shown.append(ok(await owner.get(f"{path}/dsn")))
    for answer in shown:
        assert answer["dsn"] == answer["sdks"]["sentry_dsn"]
        assert answer["dsn"].endswith(f"@{world.server.base_url.split('//')[1]}/{made['alias']}")


@pytest.mark.parametrize("door", ALL_DOORS)
async def test_every_form_of_a_dsn_opens_every_door(world: World, owner: Person, door: str) -> None:
    """And none opens it for the project that another path names."""
    made, other = await owner.create_project(), await owner.create_project()
    for count, dsn in enumerate(forms(made), 1):
        answer = await knock(world, door, dsn, made["alias"])
        assert answer.status_code in {200, 202}, answer.text
        assert await records(world, made["id"]) == (0 if door == "browser-config" else count)
    key = key_of(made["dsn"])
    for dsn in (other["dsn"].replace(key_of(other["dsn"]), key), forms(other)[1].replace(key_of(other["dsn"]), key)):
        refused(await knock(world, door, dsn, made["alias"]), 401, "unauthenticated")
    assert await records(world, other["id"]) == 0


async def test_verify_tells_the_project_of_both_forms(owner: Person) -> None:
    made, other = await owner.create_project(), await owner.create_project()
    verify = f"/v1/projects/{made['id']}/dsn/verify"
    expected: list[tuple[str, bool, str | None]] = [
        *((dsn, True, made["id"]) for dsn in forms(made)[:2]),
        (key_of(made["dsn"]), True, None),
        (forms(other)[0], False, str(other["alias"])),
        (forms(other)[1], False, other["id"]),
        (made["dsn"].replace(key_of(made["dsn"]), key_of(other["dsn"])), False, made["id"]),
        ("nonsense", False, None),
    ]
    for dsn, matches, named in expected:
        answer = ok(await owner.post(verify, {"dsn": dsn}))
        assert (answer["ok"], answer["parsed_project_id"]) == (matches, named), dsn
