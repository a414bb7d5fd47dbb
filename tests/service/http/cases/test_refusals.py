"""Each door of telemetry refuses for each reason in the form of its SDK, and asks nobody to retry in vain (G-142)."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import httpx2
import pytest

from service.http.answer.errors import failure_of
from service.http.edge.routes import all_endpoints
from tests.service.http.cases.test_backing_off import PADDING, held, without_room
from tests.service.http.cases.test_otlp import AS_JSON, AS_PROTOBUF, export, written
from tests.support.api import World
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.minidumps import FORM, form, minidump
from tests.support.posthog import event as captured
from tests.support.sentry import of_event

pytestmark = pytest.mark.shares_server

TEMPORARY = {429, 503}
"""The only statuses on which an SDK may send the same again. Both say when."""
NUMBERS = {400: 3, 401: 16, 403: 7, 409: 9, 413: 8, 415: 3, 429: 8, 503: 14}
"""Codes of google.rpc.Status by status."""


class Door(NamedTuple):
    """A door: its path with the alias of a project, the protocol, a good body for a key, and its headers.

    `broken` is a bad body, and `begin` that of one without an end.
    """

    path: str
    protocol: str
    body: Callable[[str], bytes]
    headers: Mapping[str, str] = {}
    broken: bytes = b"{"
    begin: bytes = b""


def _of_posthog(key: str) -> bytes:
    sent = captured(properties={"padding": PADDING})
    return json.dumps({"api_key": key, "batch": [sent]} if key else {"batch": [sent]}).encode()


def _one_of_posthog(key: str) -> bytes:
    return json.dumps({**captured(properties={"padding": PADDING}), **({"api_key": key} if key else {})}).encode()


LOGGED = {"message": "m", "level": "error", "extra": {"padding": PADDING}}
REPORT = {"csp-report": {"effective-directive": "img-src", "blocked-uri": "inline", "script-sample": PADDING}}
EXPORT = export({"body": "m", "attributes": {"padding": PADDING}})
DOORS = {
    "envelope": Door(
        "/api/{alias}/envelope/",
        "sentry",
        lambda _: of_event(LOGGED),
        broken=b"no envelope",
        begin=b'{}\n{"type":"attachment"}\n',
    ),
    "store": Door("/api/{alias}/store/", "sentry", lambda _: json.dumps(LOGGED).encode()),
    "security": Door(
        "/api/{alias}/security/",
        "sentry",
        lambda _: json.dumps(REPORT).encode(),
        {"content-type": "application/csp-report"},
    ),
    "minidump": Door(
        "/api/{alias}/minidump/",
        "sentry",
        lambda _: form(minidump(), {"padding": PADDING}),
        {"content-type": FORM},
        b"no form",
    ),
    "user-feedback": Door(
        "/api/0/projects/any/{alias}/user-feedback/",
        "sentry",
        lambda _: json.dumps({"event_id": "5" * 32, "comments": PADDING}).encode(),
        AS_JSON,
    ),
    "batch": Door("/batch/", "posthog", _of_posthog),
    "capture": Door("/capture/", "posthog", _one_of_posthog),
    "e": Door("/e/", "posthog", _one_of_posthog),
    "i/v0/e": Door("/i/v0/e/", "posthog", _of_posthog),
    "otlp protobuf": Door("/v1/logs/", "protobuf", lambda _: EXPORT.SerializeToString(), AS_PROTOBUF, b"\xff\xff"),
    "otlp json": Door("/v1/logs/", "json", lambda _: written(EXPORT, "json")[0], AS_JSON, b'{"resourceLogs":['),
    "logs": Door("/v1/logs/", "native", lambda _: json.dumps(LOGGED).encode(), AS_JSON),
    "analytics": Door(
        "/v1/analytics/",
        "native",
        lambda _: json.dumps({"event": "e", "distinct_id": "u", "properties": {"padding": PADDING}}).encode(),
        AS_JSON,
    ),
}


class Project:
    """A project with all its doors; another one's key is `other`."""

    def __init__(self, world: World, owner: Any, made: Mapping[str, Any], other: Mapping[str, Any]) -> None:
        self.world, self.owner, self.alias, self.project_id = world, owner, made["alias"], made["id"]
        self.dsn = made["sdks"]["posthog_key"]
        self.other = other["sdks"]["posthog_key"]
        self.key = {"authorization": f"Bearer {self.dsn}"}

    async def knock(
        self, door: Door, *, key: str | None = None, body: bytes | None = None, **headers: str
    ) -> httpx2.Response:
        """Send to a door: a good body by default, with a key of the project."""
        key = self.dsn if key is None else key
        path, said = door.path.format(alias=self.alias), {**door.headers, **headers}
        if door.protocol == "sentry" and key:
            path = f"{path}?sentry_key={key}"
        elif key and (door.protocol != "posthog" or body is not None):
            said.setdefault("authorization", f"Bearer {key}")
        content = door.body(key) if body is None else body
        return await self.world.client.post(path, content=content, headers=said)

    async def knock_at_all(self, status: int, code: str) -> None:
        """Knock at all doors at once, by a key in the head. Each refuses."""
        heads = [{} if door.protocol == "sentry" else self.key for door in DOORS.values()]
        knocks = (self.knock(door, **head) for door, head in zip(DOORS.values(), heads, strict=True))
        for door, answer in zip(DOORS.values(), await asyncio.gather(*knocks), strict=True):
            check(door, answer, status, code)

    async def stored(self) -> int:
        """Rows of its telemetry."""
        return await self.world.telemetry(self.project_id)


@pytest.fixture
async def project(world: World) -> Project:
    owner = await world.sign_in()
    return Project(world, owner, await owner.create_project(), await owner.create_project("other"))


def check(door: Door, answer: httpx2.Response, status: int, code: str) -> None:
    """An answer is a refusal of this code in the form of the door's protocol, temporary or for good."""
    assert answer.status_code == status, answer.text
    assert ("retry-after" in answer.headers) == (status in TEMPORARY)
    if status in TEMPORARY:
        assert int(answer.headers["retry-after"]) >= 1
    if door.protocol == "protobuf":
        assert answer.headers["content-type"] == "application/x-protobuf"
        assert answer.content[:3] == bytes([0x08, NUMBERS[status], 0x12])
        assert f"{code}: ".encode() in answer.content
        return
    told = answer.json()
    if door.protocol == "json" and "code" in told:
        assert told["code"] == NUMBERS[status]
        assert told["message"].startswith(f"{code}: ")
        return
    # Of JSON nothing but its begin tells an export from a record of our own.
    assert told["error"]["code"] == code
    assert told["error"]["retryable"] == (status in TEMPORARY)
    assert told["error"]["next_action"]
    if door.protocol == "sentry":
        assert answer.headers["x-sentry-error"] == told["error"]["message"][:200]
        assert answer.headers.get("x-sentry-rate-limits") == (
            f"{answer.headers['retry-after']}::key:{code}" if status == 429 else None
        )


@pytest.mark.parametrize("name", DOORS)
async def test_a_refusal_for_good_says_so_in_the_form_of_its_sdk(project: Project, name: str) -> None:
    """By the key, the kind of it, the body, its size, its coding and the state of the project."""
    door = DOORS[name]
    check(door, await project.knock(door, key=""), 401, "unauthenticated")
    check(door, await project.knock(door, key="service_dsn_nobody"), 401, "unauthenticated")
    check(door, await project.knock(door, body=door.broken), 400, "invalid_payload")
    coded, bomb = {"content-encoding": "gzip"}, gzip.compress(door.begin + b" " * 50_000_000, mtime=0)
    check(door, await project.knock(door, body=bomb, **coded), 413, "payload_too_large")
    check(door, await project.knock(door, body=b"x", **coded), 400, "invalid_payload")
    coded = {"content-encoding": "compress"}
    check(door, await project.knock(door, body=door.body(project.dsn), **coded), 415, "unsupported_media_type")
    if door.protocol == "sentry":
        check(door, await project.knock(door, key=project.other), 401, "unauthenticated")
    if door.protocol != "posthog":
        owner = {"authorization": f"Bearer {project.owner.secret}"}
        check(door, await project.knock(door, key="", **owner), 403, "principal_not_allowed")
    if name in {"security", "minidump", "user-feedback", "logs", "analytics"}:
        check(door, await project.knock(door, **{"content-type": "image/png"}), 415, "unsupported_media_type")
    assert await project.stored() == 0
    await project.world.sql("update projects set status = 'fenced' where project_id = %s", project.project_id)
    check(door, await project.knock(door), 409, "project_deletion_in_progress")
    assert await project.stored() == 0


async def test_a_temporary_refusal_says_when_to_retry(project: Project) -> None:
    """No room and no database: afterwards each door takes the same."""
    async with without_room(project):  # type: ignore[arg-type] - it has the members that are used
        await project.knock_at_all(429, "rate_limited")
    async with held(project):  # type: ignore[arg-type]
        await project.knock_at_all(503, "service_unavailable")
    assert await project.stored() == 0
    for door in DOORS.values():
        assert (await project.knock(door)).status_code in {200, 202}


def test_each_door_of_telemetry_stands_above() -> None:
    """A new one needs a row."""
    asks = {"/flags/", "/decide/"}  # store nothing
    doors = {
        endpoint.operation.path
        for endpoint in all_endpoints()
        if endpoint.operation.rate == "ingest" and endpoint.operation.method == "POST"
    }
    knocked = {door.path.replace("/any/", "/{organization}/") for door in DOORS.values()}
    assert doors - asks - {"/v1/deploys/"} == knocked


def test_any_error_asks_to_retry_only_where_that_helps() -> None:
    """Whatever goes wrong inside is temporary, too: the next attempt may find another process."""
    failure = failure_of(RuntimeError("a bug"))
    assert (failure.status, failure.retryable, "retry-after" in failure.headers) == (500, True, True)
