"""Events of a project over HTTP: pages, downloads and streams that go on, to owners alone (G-169)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import pytest

from service import events as feeds
from service import events as reads
from service.eventstore.read.stored import EventEnvelope, LogEvent, canonical, hash_leaf
from tests.support import seen
from tests.support.api import Person, World, ok, refused, world  # noqa: F401 (a fixture)

pytestmark = pytest.mark.shares_server

PATIENCE = 30
PUBLISHED = Path(__file__).parent / "published"
LINES = {"accept": "application/x-ndjson"}
SENT = {"accept": "text/event-stream"}
BATCH = {"accept": "application/cloudevents-batch+json"}


async def shop(world: World) -> tuple[Person, dict[str, Any], str]:  # noqa: F811
    """An owner with a project and some history; the path of its events."""
    owner = await world.sign_in()
    project = await owner.create_project()
    for number in range(3):
        await owner.create_credential(project["id"], f"key-{number}")
    return owner, project, f"/v1/projects/{project['id']}/events"


async def whole(owner: Person, path: str, **params: Any) -> list[dict[str, Any]]:
    """All events, page by page."""
    after, found = 0, []
    while True:
        page = ok(await owner.get(path, params={"after": after, **params}))
        found += page["events"]
        after = page["next_after"]
        if after >= page["log_size"] or (not page["events"] and "streams" in path):
            return found


async def numbered(owner: Person, path: str, number: int) -> list[dict[str, Any]]:
    """All events once there are so many: each gets its position a moment after its command."""
    async with asyncio.timeout(PATIENCE):
        while len(found := await whole(owner, path)) < number:  # noqa: ASYNC110 - another process numbers them
            await asyncio.sleep(0.05)
    return found


class Followed:
    """What a stream of events has sent."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()
        self.signs = 0

    async def next(self) -> dict[str, str]:
        """The next event, by its fields. Raises StopAsyncIteration at the end."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE):
            while True:
                line = await anext(self._lines)
                if not line and "data" in fields:
                    return fields
                name, _, value = line.partition(": ")
                self.signs += not name and bool(value)
                fields[name] = value

    async def ended(self) -> bool:
        try:
            while True:
                await self.next()
        except StopAsyncIteration:
            return True


@asynccontextmanager
async def followed(who: Person, path: str, last: int | str | None = None, **params: Any) -> AsyncIterator[Followed]:
    headers = {**SENT, "authorization": f"Bearer {who.secret}"}
    if last is not None:
        headers["last-event-id"] = str(last)
    async with who.client.stream("GET", path, headers=headers, params=params) as answer:
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"] == "text/event-stream"
        yield Followed(answer)


async def test_pages_have_every_event_once_with_hashes_that_prove_it(world: World) -> None:  # noqa: F811
    owner, project, path = await shop(world)
    events = await numbered(owner, path, 5)
    positions = [event["position"] for event in events]
    assert positions == sorted(set(positions))
    assert {event["project_id"] for event in events} == {project["id"]}
    assert events == await whole(owner, path, limit=1)
    for event in events:
        payload_hash = hashlib.sha256(bytes.fromhex(event["salt"]) + canonical(event["payload"])).hexdigest()
        assert payload_hash == event["payload_hash"]
        names = EventEnvelope.__struct_fields__
        assert hash_leaf(EventEnvelope(**{name: event[name] for name in names})).hex() == event["leaf"]
        assert not event["erased"]
    created = events[0]
    assert (created["stream_id"], created["revision"]) == (project["id"], 1)


async def test_a_stream_has_its_own_events(world: World) -> None:  # noqa: F811
    owner, _, path = await shop(world)
    events = await numbered(owner, path, 5)
    for stream in {event["stream_id"] for event in events}:
        mine = [event for event in events if event["stream_id"] == stream]
        of_stream = f"/v1/streams/{stream}/events"
        assert await whole(owner, of_stream, limit=1) == mine
        for event in mine:
            page = ok(await owner.get(of_stream, params={"after": event["position"] - 1}))
            assert page["events"][0] == event
        assert ok(await owner.get(of_stream, params={"after": mine[-1]["position"]}))["events"] == []


async def test_pages_backwards_have_the_same_events(world: World) -> None:  # noqa: F811
    """The last events before a position in the order of the log, down to the first one."""
    owner, _, path = await shop(world)
    events = await numbered(owner, path, 5)
    busiest = max({event["stream_id"] for event in events}, key=[event["stream_id"] for event in events].count)
    of_stream = [event for event in events if event["stream_id"] == busiest]
    for address, expected in ((path, events), (f"/v1/streams/{busiest}/events", of_stream)):
        found: list[dict[str, Any]] = []
        before: int | None = 2**53 - 1
        while before is not None:
            page = ok(await owner.get(address, params={"before": before, "limit": 2}))
            assert len(page["events"]) <= 2
            found, before = [*page["events"], *found], page["next_before"]
        assert found == expected
        middle = expected[-1]["position"]
        page = ok(await owner.get(address, params={"before": middle}))
        assert page["events"] == expected[:-1]
        assert page["next_before"] is None
        nothing = ok(await owner.get(address, params={"before": 0}))
        assert (nothing["events"], nothing["next_before"], nothing["next_after"]) == ([], None, 0)
        assert ok(await owner.get(address))["next_before"] is None
        for wrong in ({"after": 1}, {"format": "cloudevents"}):
            refused(await owner.get(address, params={"before": 9, **wrong}), 400, "invalid_payload")
        for form in (LINES, SENT, BATCH):
            refused(await owner.get(address, params={"before": 9}, headers=form), 400, "invalid_payload")
        refused(await owner.get(address, params={"before": -1}), 400, "invalid_payload")


async def test_a_page_backwards_goes_on_over_events_of_others(world: World, monkeypatch: Any) -> None:  # noqa: F811
    """A page has so many events, and holds so many bytes."""
    owner, project, path = await shop(world)
    events = await numbered(owner, path, 5)
    source = reads.EventSource(project["id"])

    async def back(store: Any, limit: int = 50) -> list[int]:
        found: list[int] = []
        before: int | None = events[-1]["position"] + 3
        while before is not None:
            page = await reads.read_before(store, source, before, limit)
            found, before = [*(event.position or 0 for event in page.events), *found], page.next_before
        return found

    for limit in (1, 2, 5, 50):
        assert await world.operate(partial(back, limit=limit)) == [event["position"] for event in events]
    monkeypatch.setattr(reads, "PAGE_BYTES", 1)
    assert await world.operate(back) == [event["position"] for event in events]


async def test_nothing_of_it_is_secret(world: World) -> None:  # noqa: F811
    """Neither a DSN nor a key nor a credential is in the events: they are stored as hashes."""
    owner, project, path = await shop(world)
    made = await owner.create_credential(project["id"], "looked-for")
    await numbered(owner, path, 6)
    text = (await owner.get(path, headers=LINES)).text
    for secret in (project["dsn"], project["dsn"].split("@")[0], made["credential"], owner.secret or ""):
        assert secret not in text


async def test_who_may_read(world: World) -> None:  # noqa: F811
    """Owners and auditors; to anybody else but members neither the project nor a stream is there."""
    owner, project, path = await shop(world)
    stranger = await world.sign_in()
    member = await world.sign_in()
    await add(world, project["id"], member)
    [event, *_] = await numbered(owner, path, 5)
    of_stream = f"/v1/streams/{event['stream_id']}/events"
    for form in ({}, LINES, SENT, BATCH):
        refused(await member.get(path, headers=form), 403, "owner_required")
        refused(await member.get(of_stream, headers=form), 403, "owner_required")
        refused(await stranger.get(path, headers=form), 404, "project_not_found")
        refused(await stranger.get(of_stream, headers=form), 404, "not_found")
        refused(await world.get(path, headers=form), 401, "unauthenticated")
    auditor = await world.sign_in()
    await add(world, project["id"], auditor, "auditor")
    for form in ({}, LINES, BATCH):
        for address in (path, of_stream):
            assert (await auditor.get(address, headers=form)).status_code == 200
    refused(await owner.get(f"/v1/streams/{owner.user_id}/events"), 404, "not_found")
    credential = world.having((await owner.create_credential(project["id"], "ci"))["credential"])
    refused(await credential.get(path), 403, "principal_not_allowed")


async def add(world: World, project_id: str, person: Person, role: str = "member") -> None:  # noqa: F811
    from service.accounts.membership import set_member
    from statemachines.accounts.membership import Role

    await world.operate(lambda store: set_member(store, project_id, person.user_id, Role(role)))


@pytest.mark.parametrize("params", [{"after": -1}, {"after": "x"}, {"limit": 0}, {"limit": 201}, {"format": "xml"}])
async def test_bad_parameters(world: World, params: dict[str, Any]) -> None:  # noqa: F811
    owner, _, path = await shop(world)
    for form in ({}, LINES, SENT):
        refused(await owner.get(path, params=params, headers=form), 400, "invalid_payload")
    for last in ("x", "-1", "9" * 30):
        refused(await owner.get(path, headers={**SENT, "last-event-id": last}), 400, "invalid_payload")


async def test_a_download_is_the_pages_by_lines(world: World) -> None:  # noqa: F811
    owner, _, path = await shop(world)
    events = await numbered(owner, path, 5)
    answer = await owner.get(path, headers=LINES)
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line) for line in answer.text.splitlines()] == events
    later = await owner.get(path, headers=LINES, params={"after": events[1]["position"]})
    assert [json.loads(line) for line in later.text.splitlines()] == events[2:]
    head = await owner.call("HEAD", path, headers=SENT)
    assert (head.status_code, head.content, head.headers["content-type"]) == (200, b"", "text/event-stream")


async def test_a_stream_goes_on_and_resumes_without_gap_or_duplicate(world: World) -> None:  # noqa: F811
    """From the beginning into what happens now; each id is the position to go on after."""
    owner, project, path = await shop(world)
    before = await numbered(owner, path, 5)
    got: list[int] = []
    async with followed(owner, path) as stream:
        for event in before:
            sent = await stream.next()
            assert json.loads(sent["data"]) == event
            assert (sent["id"], sent["event"]) == (str(event["position"]), event["topic"])
            got.append(event["position"])
        await owner.create_credential(project["id"], "now")
        got.append(int((await stream.next())["id"]))
    await owner.create_credential(project["id"], "meanwhile")
    async with followed(owner, path, got[-1]) as stream:
        got.append(int((await stream.next())["id"]))
        await owner.create_credential(project["id"], "later")
        got.append(int((await stream.next())["id"]))
    events = await numbered(owner, path, 8)
    assert got == [event["position"] for event in events]
    only = f"/v1/streams/{project['id']}/events"
    async with followed(owner, only, after=before[0]["position"]) as stream:
        await owner.create_credential(project["id"], "elsewhere")
        rotated = await owner.post(f"/v1/projects/{project['id']}/dsn/rotate", {}, key="rotate")
        assert rotated.is_success, rotated.text
        assert json.loads((await stream.next())["data"])["stream_id"] == project["id"]


@pytest.mark.parametrize("role", ["owner", "auditor"])
async def test_the_stream_of_a_removed_member_ends(world: World, role: str) -> None:  # noqa: F811
    """It ends with the event of the removal. Nothing more is sent after that."""
    owner, project, path = await shop(world)
    other = await world.sign_in()
    await add(world, project["id"], other, role)
    events = await numbered(owner, path, 6)
    async with (
        followed(other, path, events[-1]["position"]) as stream,
        followed(owner, path, events[-1]["position"]) as mine,
    ):
        removed = await owner.call("DELETE", f"/v1/projects/{project['id']}/members/{other.user_id}")
        assert removed.is_success, removed.text
        assert await stream.ended()
        assert (await mine.next())["event"].startswith("membership.")
    refused(await other.get(path, headers=SENT), 404, "project_not_found")


async def test_a_stream_ends_with_its_key_and_with_the_right_to_read(world: World) -> None:  # noqa: F811
    """A revoked key ends its own stream alone. An owner who becomes an auditor reads on, one who becomes a member not.

    No stream has had to give a sign of life first.
    """
    name = f"holder-{uuid.uuid4().hex}"
    one, two = await world.sign_in(name), await world.sign_in(name)
    project = await two.create_project()
    path = f"/v1/projects/{project['id']}/events"
    other = await world.sign_in()
    await add(world, project["id"], other, "owner")
    last = (await numbered(two, path, 3))[-1]["position"]
    async with (
        followed(one, path, last) as of_one,
        followed(two, path, last) as of_two,
        followed(other, path, last) as of_other,
    ):
        keys = ok(await two.get("/v1/keys"))["keys"]
        [revoked] = [key["id"] for key in keys if key["key_prefix"] == (one.secret or "")[:16]]
        ok(await two.post(f"/v1/keys/{revoked}/revoke"))
        assert await of_one.ended()
        await add(world, project["id"], other, "auditor")
        for stream in (of_two, of_other):
            assert (await stream.next())["event"] == "membership.auditor_added.v1"
        await add(world, project["id"], other, "member")
        assert await of_other.ended()
        assert (await of_two.next())["event"].startswith("membership.")
        assert [stream.signs for stream in (of_one, of_other)] == [0, 0]
    refused(await one.get(path, headers=SENT), 401, "unauthenticated")
    refused(await other.get(path, headers=SENT), 403, "owner_required")


async def test_cloud_events_fit_their_published_schema(world: World) -> None:  # noqa: F811
    """In a batch with a link to the next page, and line by line."""
    owner, _, path = await shop(world)
    events = await numbered(owner, path, 5)
    validator = jsonschema_rs.validator_for(json.loads((PUBLISHED / "cloudevents.json").read_text()))
    batch = await owner.get(path, headers=BATCH, params={"limit": 2})
    assert batch.headers["content-type"] == "application/cloudevents-batch+json"
    link = batch.headers["link"].partition(">")[0].removeprefix("<")
    rest = await owner.get(link, headers=BATCH)
    lines = (await owner.get(path, headers=LINES, params={"format": "cloudevents"})).text.splitlines()
    shown = [*batch.json(), *rest.json()][:4]
    assert shown == [json.loads(line) for line in lines][:4]
    for cloud, event in zip(shown, events, strict=False):
        validator.validate(cloud)
        assert (cloud["id"], cloud["type"], cloud["subject"]) == (
            event["event_id"],
            event["topic"],
            event["stream_id"],
        )
        assert (cloud["position"], cloud["data"]) == (str(event["position"]), event["payload"])
        assert all(name.isalnum() and name == name.lower() for name in cloud)
    async with followed(owner, path, format="cloudevents") as stream:
        assert json.loads((await stream.next())["data"]) == shown[0]


def test_an_erased_event_is_shown_as_such() -> None:
    """Without payload and salt; its envelope is the same as before."""
    names = {name: name for name in LogEvent._fields}
    hashes = {"payload_hash": b"p" * 32, "leaf": b"l" * 32, "chain": b"c" * 32, "salt": None, "payload": None}
    at = datetime(2026, 11, 26, 20, tzinfo=UTC)
    event = LogEvent(**{**names, **hashes, "position": 7, "revision": 1, "recorded_at": at})  # type: ignore[arg-type]
    shown = json.loads(reads.encode_event(event))
    assert (shown["erased"], shown["payload"], shown["salt"]) == (True, None, None)
    assert (shown["position"], shown["leaf"], shown["recorded_at"]) == (7, "6c" * 32, int(at.timestamp() * 1_000_000))
    cloud = json.loads(reads.encode_cloud_event("https://service.example")(event))
    assert (cloud["erased"], cloud["data"], cloud["time"]) == (True, None, "2026-11-26T20:00:00Z")


async def test_streams_are_bounded_for_an_account(world: World) -> None:  # noqa: F811
    """With a hundred of them one more is refused, and welcome once one has ended."""
    owner, _, path = await shop(world)
    events = await numbered(owner, path, 5)
    limits = httpx2.Limits(max_connections=300)
    async with seen.async_client(str(owner.client.base_url), limits=limits, timeout=60) as client:
        many = Person(client, owner.secret or "", owner.user_id, world)
        opened = [followed(many, path, events[-1]["position"]) for _ in range(100)]
        for stream in opened:
            await stream.__aenter__()
        refused(await owner.get(path, headers=SENT), 429, "rate_limited")
        refused(await owner.get(path, headers=LINES), 429, "rate_limited")
        assert ok(await owner.get(path))["events"]
        for stream in opened:
            await stream.__aexit__(None, None, None)
    async with asyncio.timeout(PATIENCE):
        while (await owner.get(path, headers=LINES)).status_code == 429:  # noqa: ASYNC110 - another process decides
            await asyncio.sleep(0.1)


def test_bounds() -> None:
    assert feeds.KEPT_BYTES * 100 <= 10 << 20  # of one account's streams
    assert feeds.PAGE <= 200
    assert reads.PAGE_BYTES <= 1 << 20
