"""What people write in the forms of SDKs: stored beside the errors, shown to members, gone with the person (G-197)."""

from __future__ import annotations

import asyncio
import json
from typing import Any
from uuid import uuid4

import httpx2
import psycopg
import pytest

from service.ingest.kept import settle
from service.settingvalues import RATE_LIMITS
from tests.service.http.cases.test_kinds import item
from tests.support import archives, seen
from tests.support.api import Person, World, at_once, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.ending import holding
from tests.support.sentry import PYTHON_EVENT, envelope
from tests.support.server import ServerFactory

pytestmark = pytest.mark.shares_server

FORMS = {
    "jwt": "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9."
    "eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "bearer": "Bearer abcdefghijklmnop0123456789",
    "basic": "Basic dXNlcjpwYXNzd29yZDEyMw==",
    "url": "https://ada:s3cr3tpw@db.example/x",
    "cloud": "AKIAIOSFODNN7EXAMPLE",
    "card": "4111 1111 1111 1111",
    "own": "service_sk_" + "a1B2" * 10,
}
CORES = {"url": "s3cr3tpw", "bearer": "abcdefghijklmnop0123456789", "basic": "dXNlcjpwYXNzd29yZDEyMw=="}


class Product:
    """A project and everything that reports to it."""

    def __init__(self, world: World, owner: Person, made: dict[str, Any]) -> None:
        self.world, self.owner, self.id = world, owner, made["id"]
        self.dsn = httpx2.URL(made["sdks"]["sentry_dsn"])
        self.public_dsn = httpx2.URL(made["sdks_public"]["sentry_dsn"])
        self.path = f"/v1/projects/{self.id}/feedback-reports"

    async def send(self, *items: tuple[dict[str, Any], bytes], public: bool = False, **header: Any) -> httpx2.Response:
        key = (self.public_dsn if public else self.dsn).username
        headers = {"x-sentry-auth": f"Sentry sentry_key={key}, sentry_version=7"}
        body = envelope(*items, header=header)
        return await self.world.call("POST", f"/api{self.dsn.path}/envelope/", content=body, headers=headers)

    async def tell(
        self, told: dict[str, Any] | bytes, authorization: str | None = None, path: str | None = None
    ) -> httpx2.Response:
        """Send a report by Sentry's older API, by the DSN of the server if none is given."""
        headers = {"content-type": "application/json", "authorization": authorization or f"DSN {self.dsn}"}
        if authorization == "":
            del headers["authorization"]
        url = f"/api/0/projects/any/{path or self.dsn.path.strip('/')}/user-feedback/"
        content = told if isinstance(told, bytes) else json.dumps(told).encode()
        return await self.world.call("POST", url, content=content, headers=headers)

    async def err(self, **members: Any) -> tuple[str, str]:
        """Send an error; returns its id as the SDK gave it, and its case."""
        event = error(**members)
        ok(await self.send(event))
        sent = json.loads(event[1])["event_id"]
        query = "select case_id from log_events where project_id = %s and extra -> 'sdk' ->> 'event_id' = %s"
        [[case_id]] = await self.world.sql(query, self.id, sent)
        return sent, case_id

    async def settle(self) -> int:
        """What the task does every minute."""
        url = self.world.server.database_url
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            return await settle(connection)

    async def listed(self, query: str = "") -> list[dict[str, Any]]:
        found = ok(await self.owner.get(f"{self.path}{query}"))
        assert found["count"] == len(found["feedback_reports"])
        reports: list[dict[str, Any]] = found["feedback_reports"]
        return reports

    async def refused(self, number: int) -> dict[str, int]:
        """What health says was refused, once it is so much."""
        for _ in range(200):
            found = ok(await self.owner.get(f"/v1/projects/{self.id}/health"))["not_kept"]
            if sum(one["count"] for one in found) >= number:
                return {one["kind"]: one["count"] for one in found if one["outcome"] == "refused"}
            await asyncio.sleep(0.1)
        raise AssertionError(found)


def error(**members: Any) -> tuple[dict[str, Any], bytes]:
    return item("event", json.dumps({**PYTHON_EVENT, "event_id": uuid4().hex, **members}).encode())


def written(text: Any = "It broke.", about: str | None = None, **members: Any) -> tuple[dict[str, Any], bytes]:
    """An item of the newer form, as the SDK for browsers sends it."""
    context = {"message": text, "source": "widget", **({"associated_event_id": about} if about else {})}
    event = {
        "type": "feedback",
        "event_id": uuid4().hex,
        "contexts": {"feedback": {**context, **members.pop("feedback", {})}, "trace": {"trace_id": uuid4().hex}},
        "release": "shop@1.2.3",
        "environment": "staging",
        **members,
    }
    return item("feedback", json.dumps(event).encode())


def report(about: str | None, comments: Any = "It broke.", **members: Any) -> tuple[dict[str, Any], bytes]:
    """An item of the older form, as a crash dialog sends it."""
    return item("user_report", json.dumps({"event_id": about, "comments": comments, **members}).encode())


@pytest.fixture
async def product(world: World) -> Product:
    owner = await world.sign_in()
    return Product(world, owner, await owner.create_project())


async def test_both_forms_are_stored_beside_their_error(product: Product) -> None:
    """In envelopes of their own, in that of the error, and by the DSN of pages."""
    sent, case_id = await product.err()
    ann = {"contact_email": "ann@example.com", "name": "Ann", "url": "https://shop.example/cart?coupon=x17#top"}
    assert ok(await product.send(written("No card works.", sent, feedback=ann), public=True)) == {}
    ok(await product.send(report(sent, "Nothing\nhappens", name="Bob", email="bob@example.com"), event_id=sent))
    other = error()
    other_id = json.loads(other[1])["event_id"]
    assert ok(await product.send(other, report(other_id, "Again"))) == {"id": other_id}
    third, second, first = await product.listed()
    assert first == {
        "id": first["id"],
        "received_at": first["received_at"],
        "text": "No card works.",
        "name": "Ann",
        "email": "ann@example.com",
        "url": "https://shop.example/cart#top",
        "user_id": "ann@example.com",
        "release": "shop@1.2.3",
        "environment": "staging",
        "sdk_event_id": sent,
        "event_id": first["event_id"],
        "case_id": case_id,
        "adjusted": [],
        "dsn": "public",
    }
    assert (second["text"], second["name"], second["user_id"]) == ("Nothing\nhappens", "Bob", "bob@example.com")
    assert (second["dsn"], second["url"], second["case_id"]) == ("server", None, case_id)
    assert (third["text"], third["name"], third["user_id"], third["case_id"]) == ("Again", None, None, case_id)
    shown = ok(await product.owner.get(f"/v1/cases/{case_id}/events/{first['event_id']}"))
    assert shown["feedback"] == [second, first]
    assert await product.listed(f"?case_id={case_id}") == [third, second, first]
    assert await product.listed("?without_case=true") == []
    case = ok(await product.owner.get(f"/v1/cases/{case_id}"))
    assert case["comments"] == []
    assert (case["event_count"], case["revision"]) == (2, 1)
    assert ok(await product.owner.get(f"/v1/projects/{product.id}/health"))["not_kept"] == []


async def test_a_text_without_an_error_and_one_before_its_error(product: Product) -> None:
    """The error shows it at once, and its case once the task has looked. A log record has no case."""
    ok(await product.send(written("I like it.", user={"id": 42, "email": "u42@example.com", "username": "u"})))
    early = uuid4().hex
    ok(await product.send(report(early, "Too early")))
    log = error(level="info", exception=None, message="noted")
    ok(await product.send(log))
    ok(await product.send(report(json.loads(log[1])["event_id"], "About a log")))
    of_log, too_early, alone = await product.listed("?without_case=true")
    assert (alone["text"], alone["user_id"], alone["email"], alone["name"]) == (
        "I like it.", "42", "u42@example.com", "u",
    )  # fmt: skip
    assert (alone["sdk_event_id"], alone["event_id"]) == (None, None)
    assert (too_early["sdk_event_id"], too_early["event_id"], of_log["case_id"]) == (early, None, None)
    assert of_log["event_id"]
    _, case_id = await product.err(event_id=early)
    [latest] = ok(await product.owner.get(f"/v1/cases/{case_id}/events"))["events"]
    shown = ok(await product.owner.get(f"/v1/cases/{case_id}/events/{latest['id']}"))
    assert [one["text"] for one in shown["feedback"]] == ["Too early"]
    assert await product.settle() == 1
    [settled] = await product.listed(f"?case_id={case_id}")
    assert (settled["text"], settled["event_id"]) == ("Too early", latest["id"])
    assert [one["text"] for one in await product.listed("?without_case=true")] == ["About a log", "I like it."]


async def test_a_merged_case_shows_what_was_written_about_both(product: Product) -> None:
    first, into = await product.err()
    second, gone = await product.err(exception={"values": [{"type": "OtherError", "value": "other"}]})
    ok(await product.send(report(first, "one")))
    ok(await product.send(report(second, "two")))
    ok(await product.owner.post(f"/v1/cases/{gone}/merge", {"case_revision": 1, "into_case_id": into}))
    assert [one["text"] for one in await product.listed(f"?case_id={into}")] == ["two", "one"]


async def test_a_repeat_is_stored_once(product: Product) -> None:
    """Many times at once, by each form. Two texts about one error are two, and so are two without ids."""
    sent, _ = await product.err()
    mine, older = written("mine", sent), report(sent, "older")
    for answer in await at_once(8, lambda turn: product.send(mine if turn % 2 else older)):
        ok(answer)
    assert sorted(one["text"] for one in await product.listed()) == ["mine", "older"]
    ok(await product.send(report(sent, "another")))
    for _ in range(2):
        ok(await product.send(report(None, "nameless")))
    texts = [one["text"] for one in await product.listed()]
    assert texts[:3] == ["nameless", "nameless", "another"]
    assert sorted(texts[3:]) == ["mine", "older"]


@pytest.mark.parametrize(
    "bad",
    [
        item("feedback", b"no json"),
        item("feedback", b"[]"),
        written(text=None),
        written(text="  \n"),
        written(text={"not": "a text"}),
        item("feedback", json.dumps({"contexts": {"feedback": "text"}}).encode()),
        item("user_report", b"{}"),
        report("x", comments=7),
        item("user_report", b'{"comments": "\xff"}'),
        item("user_report", b'{"comments": "a", "comments": "b"}'),
    ],
)
async def test_a_bad_item_is_refused_and_counted(product: Product, bad: tuple[dict[str, Any], bytes]) -> None:
    """Alone it gets a 400 in the words of the SDK. Beside an error or another text these are stored."""
    answer = await product.send(bad)
    refused(answer, 400, "invalid_payload")
    assert answer.headers["x-sentry-error"]
    ok(await product.send(error(), bad))
    ok(await product.send(bad, report(None, "fine")))
    assert [one["text"] for one in await product.listed()] == ["fine"]
    assert await product.world.sql("select count(*) from log_events where project_id = %s", product.id) == [(1,)]
    assert await product.refused(3) == {bad[0]["type"]: 3}


async def test_large_items_and_too_many_are_refused(product: Product) -> None:
    large = written("x" * 300_000)
    refused(await product.send(large), 413, "payload_too_large")
    ok(await product.send(*(written(f"text {n}") for n in range(20))))
    assert len(await product.listed()) == 16
    assert await product.refused(5) == {"feedback": 5}


async def test_a_bad_error_takes_no_text_along(product: Product) -> None:
    """Nor does an envelope that breaks off after it."""
    refused(await product.send(item("event", b"[]"), written("beside a bad one")), 400, "invalid_payload")
    broken = {"type": "attachment", "length": 10}, b"short"
    refused(await product.send(written("before the end"), broken), 400, "invalid_payload")
    assert sorted(one["text"] for one in await product.listed()) == ["before the end", "beside a bad one"]


async def test_all_of_a_text_has_at_most_four_kibibytes(product: Product) -> None:
    """Cut after it was scrubbed, between two characters, and said so."""
    card = "4111 1111 1111 1111"
    long = {"name": "ä" * 300, "contact_email": f"{'e' * 400}@x.y", "url": f"https://x.y/{'u' * 900}"}
    ok(await product.send(written(f"{'é' * 2000}{card}{'z' * 9000}", feedback=long, release="r" * 300)))
    ok(await product.send(written(f"{'y' * 4090}{card}")))
    ok(await product.send(written("odd \0 character", feedback={"name": "Ann"})))
    odd, second, first = await product.listed()
    texts = ("text", "name", "email", "url", "user_id", "release", "environment")
    sizes = [sum(len((one[name] or "").encode()) for name in texts) for one in (first, second)]
    assert all(4090 <= size <= 4096 for size in sizes), sizes
    assert set(first["adjusted"]) == {"name", "email", "url", "user_id", "release", "text"}
    assert first["text"] == "é" * len(first["text"])
    assert len(first["text"]) >= 512
    assert second["text"].startswith("y" * 4000)
    assert "4111" not in second["text"]
    assert second["adjusted"] == ["text"]
    assert (odd["text"], odd["adjusted"]) == ("odd \ufffd character", ["contexts.feedback.message"])


@pytest.mark.parametrize("form", FORMS)
async def test_a_secret_in_a_text_is_found_nowhere(product: Product, form: str) -> None:
    """By each form, in every member that somebody may write it into: no table, no answer, no archive, no log."""
    text = f"see {FORMS[form]} here"
    members = {"name": text, "contact_email": text, "url": f"https://shop.example/{FORMS[form]}?x={FORMS[form]}"}
    ok(await product.send(written(text, feedback=members, release=text, environment=text)))
    ok(await product.send(report(None, text, name=text, email=text)))
    listed = await product.listed()
    assert len(listed) == 2
    hidden = all(one["text"] == "[scrubbed]" for one in listed)
    assert hidden if form == "own" else all("[scrubbed:" in one["text"] for one in listed), listed
    url = product.world.server.database_url
    assert url is not None
    core = CORES.get(form, FORMS[form])
    assert holding(url, core) == {}
    assert core not in json.dumps(listed)
    assert core not in product.world.server.log()


async def test_who_sees_it(product: Product, world: World) -> None:
    """Members, by pages. Nobody else: no runner, no DSN, no stranger. A case of another project is none."""
    for number in range(5):
        ok(await product.send(report(None, f"text {number}")))
    texts, cursor = [], ""
    while cursor is not None:
        found = ok(await product.owner.get(f"{product.path}?limit=2{cursor}"))
        texts += [one["text"] for one in found["feedback_reports"]]
        cursor = found["next_cursor"] and f"&cursor={found['next_cursor']}"
    assert texts == [f"text {number}" for number in (4, 3, 2, 1, 0)]
    stranger = await world.sign_in()
    theirs = Product(world, stranger, await stranger.create_project())
    refused(await world.get(product.path), 401, "unauthenticated")
    refused(await stranger.get(product.path), 404, "project_not_found")
    runner = await product.owner.create_credential(
        product.id, "runner", kind="automation_runner", automation_id="error-to-draft-pr"
    )
    ci = await product.owner.create_credential(product.id, "ci")
    for secret in (runner["credential"], ci["credential"], product.dsn.username):
        refused(await world.having(secret).get(product.path), 403, "principal_not_allowed")
    _, foreign = await theirs.err()
    for case_id in (foreign, "case_nobody"):
        refused(await product.owner.get(f"{product.path}?case_id={case_id}"), 404, "case_not_found")
    for query in ("limit=0", "cursor=x", "without_case=maybe", "case_id=1"):
        refused(await product.owner.get(f"{product.path}?{query}"), 400, "invalid_payload")
    assert await theirs.listed() == []


async def test_a_wrong_key_writes_nothing(product: Product, world: World) -> None:
    other = Product(world, product.owner, await product.owner.create_project("other"))
    body = envelope(written())
    for key, path in (("nobody", product.dsn.path), (other.dsn.username, product.dsn.path)):
        headers = {"x-sentry-auth": f"Sentry sentry_key={key}, sentry_version=7"}
        answer = await world.call("POST", f"/api{path}/envelope/", content=body, headers=headers)
        refused(answer, 401, "unauthenticated")
    assert await product.listed() == await other.listed() == []


@pytest.mark.parametrize("by", ["server", "public", "id"])
async def test_a_report_of_the_older_api_is_stored_beside_its_error(product: Product, by: str) -> None:
    """By each DSN in Authorization, with the number or the id in the path. The answer shows it as it is stored."""
    sent, case_id = await product.err()
    dsn = product.public_dsn if by == "public" else product.dsn
    told = {"event_id": sent, "comments": "It broke, AKIAIOSFODNN7EXAMPLE", "name": "Bob", "email": "bob@example.com"}
    answer = await product.tell(told, f"DSN {dsn}", product.id if by == "id" else None)
    [stored] = await product.listed(f"?case_id={case_id}")
    assert ok(answer) == {
        "eventID": sent,
        "comments": stored["text"],
        "name": "Bob",
        "email": "bob@example.com",
    }
    assert stored["text"].startswith("It broke, [scrubbed:")
    assert (stored["sdk_event_id"], stored["dsn"]) == (sent, "public" if by == "public" else "server")


async def test_a_repeat_by_the_older_api_is_stored_once(product: Product) -> None:
    """Many times at once, with other spellings of the id, and beside an item of an envelope."""
    sent, _ = await product.err()
    dashed = f"{sent[:8]}-{sent[8:12]}-{sent[12:16]}-{sent[16:20]}-{sent[20:]}"
    for answer in await at_once(
        8, lambda turn: product.tell({"event_id": dashed if turn % 2 else sent, "comments": "It broke."})
    ):
        assert ok(answer) == {"eventID": sent, "comments": "It broke.", "name": None, "email": None}
    ok(await product.send(report(sent, "It broke.")))
    ok(await product.tell({"event_id": sent, "comments": "Another."}))
    assert [one["text"] for one in await product.listed()] == ["Another.", "It broke."]


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"event_id=1",
        b"[]",
        b'{"event_id": "%s"}' % (b"5" * 32),
        b'{"event_id": "%s", "comments": " "}' % (b"5" * 32),
        b'{"event_id": "%s", "comments": ["a"]}' % (b"5" * 32),
        b'{"event_id": "%s", "comments": "a", "comments": "b"}' % (b"5" * 32),
        b'{"comments": "a"}',
        b'{"event_id": null, "comments": "a"}',
        b'{"event_id": 17, "comments": "a"}',
        b'{"event_id": "%s0", "comments": "a"}' % (b"5" * 32),
    ],
)
async def test_a_bad_report_of_the_older_api_is_refused_and_counted(product: Product, bad: bytes) -> None:
    """With the reason in the words of the SDK."""
    answer = await product.tell(bad)
    refused(answer, 400, "invalid_payload")
    assert answer.headers["x-sentry-error"]
    assert await product.listed() == []
    assert await product.refused(1) == {"user_report": 1}


async def test_a_wrong_dsn_writes_nothing_by_the_older_api(product: Product, world: World) -> None:
    """Of nobody, of another project, in another's path, and of another kind of key."""
    other = Product(world, product.owner, await product.owner.create_project("other"))
    told = {"event_id": "5" * 32, "comments": "It broke."}
    base = f"{product.dsn.scheme}://service_dsn_nobody@{product.dsn.host}{product.dsn.path}"
    for authorization in (f"DSN {base}", f"DSN {other.dsn}", "DSN x", "DSN https://", "", "Basic eDp5"):
        refused(await product.tell(told, authorization), 401, "unauthenticated")
    refused(await product.tell(told, path=other.dsn.path.strip("/")), 401, "unauthenticated")
    refused(await product.tell(told, path=other.id), 401, "unauthenticated")
    elsewhere = str(product.dsn).replace(product.dsn.path, other.dsn.path)
    refused(await product.tell(told, f"DSN {elsewhere}"), 401, "unauthenticated")
    refused(await product.tell(told, f"Bearer {product.owner.secret}"), 403, "principal_not_allowed")
    assert await product.listed() == await other.listed() == []


async def test_it_is_no_usage_and_enters_no_log(product: Product) -> None:
    """It is counted in no month, and is in no event, webhook or case."""
    sent, case_id = await product.err()
    canary = f"canary-{uuid4().hex}"
    usage = "select errors, analytics, scrubbed from usage_days where project_id = %s"
    before = await product.world.sql(usage, product.id)
    events = await product.world.sql("select count(*) from events")
    ok(await product.send(report(sent, canary)))
    ok(await product.send(written(canary, sent)))
    assert await product.world.sql(usage, product.id) == before
    assert await product.world.sql("select count(*) from events") == events
    assert set(holding(product.world.server.database_url or "", canary)[canary]) == {"feedback_reports"}
    assert canary not in json.dumps(ok(await product.owner.get(f"/v1/cases/{case_id}")))


async def test_it_goes_with_its_person(product: Product) -> None:
    """Under the id, under the address of their errors, and about an error of theirs, also one that came later."""
    canary = f"canary-{uuid4().hex}"
    owner, person = product.owner, f"ann-{canary}"
    sent, _ = await product.err(user={"id": person, "email": f"{canary}@example.com"})
    later = uuid4().hex
    ok(await product.send(written("by id", user={"id": person})))
    ok(await product.send(report(sent, f"about their error {canary}")))
    ok(await product.send(report(None, f"by address {canary}", email=f"{canary}@example.com")))
    ok(await product.send(report(later, f"before their error {canary}", name="Somebody")))
    ok(await product.send(report(None, "of somebody else", email="bob@example.com")))
    await product.err(event_id=later, user={"id": person})
    path = f"/v1/projects/{product.id}/users/{person}"
    for _ in range(200):
        answer = await owner.call("DELETE", path, key="k")
        if answer.status_code == 200:
            break
        await asyncio.sleep(0.05)
    assert ok(answer)["records"] == 6
    assert [one["text"] for one in await product.listed()] == ["of somebody else"]
    assert holding(product.world.server.database_url or "", canary) == {}


async def test_it_goes_with_its_project(product: Product) -> None:
    canary = f"canary-{uuid4().hex}"
    ok(await product.send(report(None, canary)))
    path = f"/v1/projects/{product.id}"
    for _ in range(400):
        answer = await product.owner.call("DELETE", path, key="gone")
        if answer.status_code == 200:
            break
        assert answer.status_code == 202, answer.text
        again = await product.send(report(None, canary))
        assert again.status_code in {401, 409}, again.text
        await asyncio.sleep(0.05)
    assert ok(answer)["status"] == "deleted"
    assert holding(product.world.server.database_url or "", canary) == {}


async def test_an_archive_has_it(product: Product) -> None:
    sent, case_id = await product.err()
    ok(await product.send(report(sent, "It broke.", name="Bob")))
    archive = await product.owner.get(f"/v1/projects/{product.id}/archive")
    [line] = archives.lines(archives.members(archive.content), "telemetry/feedback")
    [shown] = await product.listed()
    assert (line["text"], line["name"], line["case_id"], line["source"]) == ("It broke.", "Bob", case_id, "user_report")
    assert (line["id"], line["event_id"]) == (shown["id"], shown["event_id"])


async def test_a_dsn_may_send_so_many_a_minute(server_factory: ServerFactory) -> None:
    """Beyond that the SDK is told to hold back texts, and nothing else. Errors are stored, and each DSN has its own."""
    assert RATE_LIMITS["feedback"] == 60
    server = server_factory(env={"SERVICE_RATE_LIMITS": "feedback=2"})
    async with seen.async_client(server.base_url) as client:
        world = World(client, server)
        owner = await world.sign_in()
        product = Product(world, owner, await owner.create_project())
        ok(await product.send(written("first"), written("second")))
        answer = await product.send(written("third"))
        refused(answer, 429, "rate_limited")
        wait = answer.headers["retry-after"]
        told = f"{wait}:feedback;user_report:key:rate_limited"
        assert 1 <= int(wait) <= 60
        assert answer.headers["x-sentry-rate-limits"] == told
        beside = error()
        answer = await product.send(beside, report(None, "fourth"))
        assert ok(answer)["id"]
        assert answer.headers["x-sentry-rate-limits"].endswith(":feedback;user_report:key:rate_limited")
        ok(await product.send(error()))
        ok(await product.send(written("by the other DSN"), public=True))
        assert [one["text"] for one in await product.listed()] == ["by the other DSN", "second", "first"]
        assert await world.sql("select count(*) from log_events where project_id = %s", product.id) == [(2,)]
        assert await product.refused(2) == {"feedback": 1, "user_report": 1}
