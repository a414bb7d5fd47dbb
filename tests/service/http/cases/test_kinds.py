"""Every kind of telemetry that a door takes is shown by a read, or named by the health of its project (G-194)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import httpx2
import pytest

from schemas.cases.log import LEVELS
from service.auth.authority import PrincipalKind
from service.http.edge.routes import all_endpoints
from service.ingest.foreign.crash import DUMP
from service.ingest.foreign.feedback import ITEM_TYPES, OTHER
from service.ingest.foreign.posthog import NOT_TAKEN
from service.ingest.kept import MOST_NAMES, NOT_KEPT, Kind, KindCounts
from tests.service.http.cases.test_otlp import AS_PROTOBUF, export
from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.minidumps import FORM, form, minidump
from tests.support.posthog import batch, event
from tests.support.sentry import PYTHON_EVENT, envelope
from tests.support.tenants.recording import operation_of

pytestmark = pytest.mark.shares_server

DAY = 86_400
ROOT = Path(__file__).parents[4]


class Product:
    """A project and everything that reports to it."""

    def __init__(self, world: World, owner: Any, made: dict[str, Any]) -> None:
        self.world, self.owner, self.id = world, owner, made["id"]
        self.dsn, self.posthog_key = made["dsn"], made["sdks"]["posthog_key"]
        self.sentry_dsn = httpx2.URL(made["sdks"]["sentry_dsn"])
        self.to_sentry = {"x-sentry-auth": f"Sentry sentry_key={self.sentry_dsn.username}, sentry_version=7"}

    async def sentry(self, *items: tuple[dict[str, Any], bytes]) -> httpx2.Response:
        path = f"/api{self.sentry_dsn.path}/envelope/"
        return await self.world.call("POST", path, content=envelope(*items), headers=self.to_sentry)

    async def posthog(self, *events: Any) -> httpx2.Response:
        return await self.world.call("POST", "/batch/", content=batch(self.posthog_key, *events))

    async def log(self, *records: Any) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self.dsn}", "content-type": "application/x-ndjson"}
        return await self.world.call("POST", "/v1/logs/", content="\n".join(map(json.dumps, records)), headers=headers)

    async def health(self) -> dict[str, Any]:
        return ok(await self.owner.get(f"/v1/projects/{self.id}/health"))

    async def not_kept(self, number: int) -> dict[tuple[str, str, str], int]:
        """What health names, once it names so many."""
        for _ in range(200):
            found = (await self.health())["not_kept"]
            if sum(one["count"] for one in found) >= number:
                assert all(one["last_at"] > 0 for one in found)
                return {(one["protocol"], one["kind"], one["outcome"]): one["count"] for one in found}
            await asyncio.sleep(0.1)
        raise AssertionError(found)


@pytest.fixture
async def product(world: World) -> Product:
    owner = await world.sign_in()
    return Product(world, owner, await owner.create_project())


def item(kind: str, payload: bytes = b"{}") -> tuple[dict[str, Any], bytes]:
    return {"type": kind, "length": len(payload)}, payload


class Sent(NamedTuple):
    """A record with a word in it: its request, and its protocol and name in health if no read shows it."""

    path: str
    body: Any
    headers: Mapping[str, str] = {}
    name: tuple[str, str] | None = None


def kinds_of(product: Product, made: Mapping[str, Any]) -> dict[str, Callable[[str], Sent]]:
    """Every kind of record that a door may take, by a name of ours."""
    alias, by_dsn = made["alias"], {"authorization": f"Bearer {product.dsn}"}
    found: dict[str, Callable[[str], Sent]] = {
        **{
            f"log {level}": lambda word, level=level: Sent("/v1/logs/", {"level": level, "message": word}, by_dsn)
            for level in (None, *LEVELS)
        },
        "logs": lambda word: Sent("/v1/logs/", [{"level": "info", "message": word}], by_dsn),
        "event": lambda word: Sent("/v1/analytics/", {"event": word, "distinct_id": word}, by_dsn),
        "deploy": lambda word: Sent("/v1/deploys/", {"version": word}, by_dsn),
        "store": lambda word: Sent(f"/api/{alias}/store/", {"message": word}, product.to_sentry),
        "user-feedback": lambda word: Sent(
            f"/api/0/projects/any/{alias}/user-feedback/",
            {"event_id": uuid4().hex, "comments": word},
            {"authorization": f"DSN {product.sentry_dsn}"},
        ),
        "minidump": lambda word: Sent(
            f"/api/{alias}/minidump/?sentry_key={product.sentry_dsn.username}",
            form(minidump(), {"sentry": json.dumps({"tags": {"word": word}})}),
            {"content-type": FORM},
        ),
    }
    written: dict[str, Callable[[str], Any]] = {
        "event": lambda word: {"message": word, "level": "info"},
        "feedback": lambda word: {"contexts": {"feedback": {"message": word}}},
        "user_report": lambda word: {"event_id": uuid4().hex, "comments": word},
    }
    for kind in (*ITEM_TYPES, "brandnew"):
        found[f"sentry {kind}"] = lambda word, kind=kind: Sent(
            f"/api/{alias}/envelope/",
            envelope(item(kind, json.dumps(written.get(kind, written["event"])(word)).encode())),
            product.to_sentry,
            None if kind in written else ("sentry", kind if kind in ITEM_TYPES else OTHER),
        )
    body = {"effectiveDirective": "img-src", "disposition": "enforce"}
    reports: dict[str, tuple[Callable[[str], Any], str]] = {
        "csp": (lambda word: {"csp-report": {"effective-directive": "img-src", "blocked-uri": f"https://{word}/"}}, ""),
        "expect-ct": (lambda word: {"expect-ct-report": {"hostname": word}}, ""),
        "pins": (lambda word: {"hostname": word, "known-pins": []}, ""),
        "csp-violation": (
            lambda word: {"type": "csp-violation", "body": {**body, "blockedURL": f"https://{word}"}},
            "",
        ),
        "extension": (
            lambda word: {"type": "csp-violation", "body": {**body, "blockedURL": f"moz-extension://{word}"}},
            "extension_report",
        ),
        "network-error": (lambda word: {"type": "network-error", "body": {"phase": word}}, "nel"),
        "deprecation": (lambda word: {"type": "deprecation", "body": {"id": word}}, OTHER),
    }
    for kind, (report, counted) in reports.items():
        found[f"report {kind}"] = lambda word, report=report, counted=counted: Sent(
            f"/api/{alias}/security/?sentry_key={product.sentry_dsn.username}",
            report(word),
            {"content-type": "application/json"},
            ("sentry", counted) if counted else None,
        )
    of_posthog: dict[str, Callable[[str], dict[str, Any]]] = {
        "custom": lambda word: {"event": word},
        "$exception": lambda word: {"properties": {"$exception_list": [{"type": "E", "value": word}]}},
        "$identify": lambda word: {"properties": {"$anon_distinct_id": f"anon {word}", "$set": {"mail": word}}},
        "$create_alias": lambda word: {"properties": {"alias": f"alias {word}"}},
        "$merge_dangerously": lambda word: {"properties": {"alias": f"other {word}"}},
        "$groupidentify": lambda word: {"properties": {"$group_type": "shop", "$group_key": word}},
        **{kind: lambda word: {"properties": {"$current_url": word}} for kind in AS_EVENTS},
        **{kind: lambda word: {"properties": {"$current_url": word}} for kind in NOT_TAKEN},
    }
    for kind, members in of_posthog.items():
        for door in ("batch", "capture", "e", "i/v0/e"):
            found[f"posthog {kind} {door}"] = lambda word, kind=kind, members=members, door=door: Sent(
                f"/{door}/",
                batch(product.posthog_key, {"event": kind, "distinct_id": word, **members(word)}),
                name=("posthog", kind) if kind in NOT_TAKEN else None,
            )
    for severity in (0, 1, 5, 9, 13, 17, 21):
        found[f"otlp {severity}"] = lambda word, severity=severity: Sent(
            "/v1/logs",
            export({"body": word, "severity_number": severity}).SerializeToString(),
            {**AS_PROTOBUF, **by_dsn},
        )
    for path in ("/v1/traces", "/v1/metrics", "/v1development/profiles"):
        found[f"otlp {path}"] = lambda word, path=path: Sent(path, word.encode(), {**AS_PROTOBUF, **by_dsn})
    return found


AS_EVENTS = ("$pageview", "$pageleave", "$autocapture", "$feature_flag_called", "$set", "survey sent", "$ai_generation")
"""Kinds of PostHog that are events like those of the product's own."""
ONLY_REFUSED = {"otlp /v1/traces", "otlp /v1/metrics", "otlp /v1development/profiles"}


async def test_every_kind_is_shown_refused_or_named(world: World) -> None:
    """Whoever adds a door or an item adds a kind; nothing that is answered as taken is nowhere."""
    owner = await world.sign_in()
    made = await owner.create_project()
    product = Product(world, owner, made)
    kinds = kinds_of(product, made)
    words = {kind: f"zq{number}q{uuid4().hex[:8]}" for number, kind in enumerate(kinds)}
    sent = {kind: make(words[kind]) for kind, make in kinds.items()}
    reached, refused = set(), set()
    for kind, one in sent.items():
        content = one.body if isinstance(one.body, bytes) else json.dumps(one.body).encode()
        headers = {"content-type": "application/json", **one.headers}
        answer = await world.call("POST", one.path, content=content, headers=headers)
        assert answer.status_code < 500, (kind, answer.text)
        if one.path == "/v1/logs":  # another form of logs
            assert answer.status_code == 200
        elif answer.status_code < 400:
            reached.add(operation_of("POST", one.path.partition("?")[0])[0].operation_id)
        else:
            refused.add(kind)
    taking = {
        one.operation.operation_id for one in all_endpoints() if one.operation.who.principals & {PrincipalKind.DSN}
    }
    assert taking - reached == {"read_browser_config", "read_posthog_flags", "decide_posthog"}, "which store nothing"
    assert refused == ONLY_REFUSED

    shown = await shown_of(product, words)
    left = kinds.keys() - shown - refused
    assert {kind for kind in left if sent[kind].name is None} == set(), "neither shown, nor refused, nor named"
    named = await product.not_kept(len(left))
    assert {(protocol, kind) for protocol, kind, _ in named} == {sent[kind].name for kind in left}
    assert sum(named.values()) == len(left)


async def shown_of(product: Product, words: Mapping[str, str]) -> set[str]:
    """The kinds whose words some read of the project shows: beside those that it has in its question."""
    cases: list[dict[str, Any]] = []
    cursor = ""
    while cursor is not None:
        query = {"limit": "100", "status": "all", **({"cursor": cursor} if cursor else {})}
        page = ok(await product.owner.get(f"/v1/projects/{product.id}/cases", params=query))
        cases, cursor = cases + page["cases"], page["next_cursor"]
    paths = [
        f"/v1/projects/{product.id}/{name}" for name in ("logs?limit=100", "deploys", "event-names", "feedback-reports")
    ]
    paths += [f"/v1/cases/{case['case_id']}/events" for case in cases]
    texts = [(await product.owner.get(path)).text for path in paths]
    found = {kind for kind, word in words.items() if any(word in text for text in texts)}
    for kind, word in words.items():
        person = await product.owner.get(f"/v1/projects/{product.id}/users/{word}/summary")
        if ok(person)["recent_events"]:
            found.add(kind)
    return found


async def test_items_of_sentry_that_are_not_kept_have_a_name(product: Product) -> None:
    """Also beside an event, in several envelopes, and of a type that nobody knows."""
    ok(await product.sentry(item("session"), item("session"), item("check_in"), item("replay_recording", b"\0\1")))
    of_event = item("event", json.dumps(PYTHON_EVENT).encode())
    ok(await product.sentry(of_event, item("attachment", b"x"), item("brandnew")))
    ok(await product.sentry(item("transaction"), item("profile_chunk"), item("session")))
    assert await product.not_kept(9) == {
        ("sentry", "session", NOT_KEPT): 3,
        ("sentry", "check_in", NOT_KEPT): 1,
        ("sentry", "replay_recording", NOT_KEPT): 1,
        ("sentry", "attachment", NOT_KEPT): 1,
        ("sentry", OTHER, NOT_KEPT): 1,
        ("sentry", "transaction", NOT_KEPT): 1,
        ("sentry", "profile_chunk", NOT_KEPT): 1,
    }


async def test_what_an_sdk_lost_is_named(product: Product) -> None:
    lost = [
        {"reason": "queue_overflow", "category": "error", "quantity": 3},
        {"reason": "before_send", "category": "error", "quantity": 2},
        {"reason": "sample_rate", "category": "transaction", "quantity": 40},
        {"reason": "made_up", "category": "made_up", "quantity": 1},
    ]
    ok(await product.sentry(item("client_report", json.dumps({"discarded_events": lost}).encode())))
    assert await product.not_kept(47) == {
        ("sentry", "client_report", NOT_KEPT): 1,
        ("sentry", "error", "lost_by_sdk"): 5,
        ("sentry", "transaction", "lost_by_sdk"): 40,
        ("sentry", OTHER, "lost_by_sdk"): 1,
    }


async def test_recordings_and_malformed_events_of_posthog_have_a_name(product: Product) -> None:
    taken = [event(event=name) for name in ("$snapshot", "$$heatmap", "$snapshot", "paid")]
    answer = await product.posthog(*taken, {"no": "name"}, {"event": "nobody"})
    assert ok(answer)["refused"] == 2
    assert await product.not_kept(5) == {
        ("posthog", "$snapshot", NOT_KEPT): 2,
        ("posthog", "$$heatmap", NOT_KEPT): 1,
        ("posthog", "malformed_event", "refused"): 2,
    }


async def test_refused_records_of_opentelemetry_have_a_name(product: Product) -> None:
    raw = export({"body": "fine"}).SerializeToString() + b"\x0a\x06\x12\x04\x12\x02\x0d\x01"  # a record cut off
    headers = {**AS_PROTOBUF, "authorization": f"Bearer {product.dsn}"}
    assert (await product.world.call("POST", "/v1/logs", content=raw, headers=headers)).status_code == 200
    assert await product.not_kept(1) == {("opentelemetry", "malformed_record", "refused"): 1}


async def test_native_records_without_a_level_are_named_for_a_day(product: Product) -> None:
    """Whatever level they got, alone or among others; no record that names one, and none of an SDK (G-191)."""
    bare = {key: value for key, value in PYTHON_EVENT.items() if key != "level"}
    ok(await product.sentry(item("event", json.dumps(bare).encode()), item("session")))
    ok(await product.log({"message": "named", "level": "info"}), 202)
    await product.not_kept(1)
    assert (await product.health())["last_log_without_level_at"] is None
    for sent in (
        [{"message": "plain"}],
        [{"message": "broke", "level": None, "extra": {"exception": {"type": "E", "value": "v"}}}],
        [{"message": "named", "level": "info"}, {"message": "among others"}],
    ):
        ok(await product.log(*sent), 202)
        await named_without_level(product)
        await product.world.wait(DAY + 2)
        assert (await product.health())["last_log_without_level_at"] is None
    assert await product.not_kept(1) == {("sentry", "session", NOT_KEPT): 1}
    other = Product(product.world, product.owner, await product.owner.create_project("other"))
    assert (await other.health())["last_log_without_level_at"] is None
    ok(await other.log({"message": "plain"}), 202)
    health = await named_without_level(other)
    assert health["last_log_without_level_at"] >= health["last_event_received_at"]
    assert health["next_action"].startswith("Name the level of each record")


async def named_without_level(product: Product) -> dict[str, Any]:
    """The health of a project once it names records without a level."""
    for _ in range(200):
        if (health := await product.health())["last_log_without_level_at"] is not None:
            return health
        await asyncio.sleep(0.1)
    raise AssertionError(health)


async def test_another_project_is_not_shown(product: Product) -> None:
    other = Product(product.world, product.owner, await product.owner.create_project("other"))
    ok(await product.sentry(item("session")))
    await product.not_kept(1)
    assert ok(await other.owner.get(f"/v1/projects/{other.id}/health"))["not_kept"] == []


def rows_of(page: str) -> str:
    """The first cells of the tables of a how-to."""
    lines = (ROOT / "docs" / "how-to" / page).read_text().splitlines()
    return "\n".join(line.split("|")[1] for line in lines if line.startswith("| "))


@pytest.mark.parametrize(
    ("page", "kinds"),
    [
        ("sentry.md", [*ITEM_TYPES - {"minidump"}, DUMP]),
        ("posthog.md", [*NOT_TAKEN, "$exception"]),
    ],
)
def test_a_how_to_says_of_each_kind_what_becomes_of_it(page: str, kinds: list[str]) -> None:
    said = rows_of(page)
    assert [kind for kind in kinds if f"`{kind}`" not in said] == []


def test_names_are_bounded() -> None:
    counts = KindCounts("")
    for number in range(MOST_NAMES + 10):
        counts.note(Kind(f"p{number}", "sentry", "session", NOT_KEPT))
    assert len(counts._amounts) == MOST_NAMES
