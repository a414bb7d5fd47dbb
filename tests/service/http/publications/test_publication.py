"""Publications over HTTP: publish, list, revoke, and what anybody reads (R-PUB-01 to R-PUB-04, G-093, G-131, G-163)."""

from __future__ import annotations

import asyncio
import hashlib
import re
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from schemas.publications import MAX_PUBLIC_ROWS
from service.analytics.blueprints.asking import CATALOGUE
from service.http.publications.publication import PRIVATE
from statemachines.publications import PUBLICATIONS_LIMIT
from tests.service.http.analytics.test_blueprint import Shop
from tests.service.http.projects.test_project import add_member
from tests.support.api import World, at_once, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

TOP = {"blueprint_id": "top-events"}
CREATED = {
    "publication_id",
    "project_id",
    "blueprint_id",
    "params",
    "title",
    "cache_seconds",
    "status",
    "public_url",
    "publishable_key",
    "publishable_key_prefix",
    "created_at",
    "next_action",
}
ANSWERED = {
    "publication_id",
    "blueprint_id",
    "title",
    "params",
    "rows",
    "columns",
    "truncated",
    "evidence",
    "freshness",
    "next_action",
}


@pytest_asyncio.fixture
async def shop(world: World) -> Shop:
    owner = await world.sign_in()
    return Shop(world, owner, await owner.create_project())


def home(shop: Shop) -> str:
    return f"/v1/projects/{shop.project_id}/public-queries"


async def publish(shop: Shop, body: Any = None, **more: Any) -> dict[str, Any]:
    """Publish a query, the most frequent events without a body."""
    return ok(await shop.owner.post(home(shop), body or TOP, **more), 201)


async def read(world: World, made: dict[str, Any], **more: Any) -> httpx2.Response:
    """Read a public query as anybody does."""
    return await world.get(f"/v1/public/q/{made['publication_id']}", **more)


async def test_a_query_is_published_with_a_key_that_is_shown_once(shop: Shop) -> None:
    """G-093: the whole answer. The database holds the hash of the key, and nothing else of it but the prefix."""
    body = {
        "blueprint_id": "event-count",
        "params": {"event": "paid", "more": 1},
        "title": "Sales",
        "cache_seconds": 60,
    }
    made = await publish(shop, body)
    assert set(made) == CREATED
    assert re.fullmatch("pub_[0-9a-hjkmnp-tv-z]{26}", made["publication_id"])
    assert re.fullmatch("agp_[0-9A-Za-z_-]{32}", made["publishable_key"])
    assert made["publishable_key_prefix"] == made["publishable_key"][:16]
    assert made["params"] == {"event": "paid", "days": 30}
    assert (made["title"], made["cache_seconds"], made["status"]) == ("Sales", 60, "published")
    assert made["public_url"].endswith(f"/v1/public/q/{made['publication_id']}")
    assert made["public_url"].startswith("http")
    [[stored]] = await shop.world.sql("select key_hash from publications where id = %s", made["publication_id"])
    assert stored == hashlib.sha256(made["publishable_key"].encode()).hexdigest()
    [[shown]] = await shop.world.sql(
        "select count(*) from events e, idempotency i where e.project_id = %s and i.project_id = e.project_id "
        "and (e.payload::text like %s or convert_from(i.body, 'UTF8') like %s)",
        shop.project_id,
        *[f"%{made['publishable_key']}%"] * 2,
    )
    assert shown == 0


async def test_defaults_are_those_of_the_rules(shop: Shop) -> None:
    made = await publish(shop)
    assert (made["params"], made["title"], made["cache_seconds"]) == ({"days": 30, "limit": 20}, None, 300)


async def test_a_replay_shows_no_key(shop: Shop) -> None:
    """G-008: the same publication, and null where the key was."""
    made = await publish(shop, key="once")
    again = await shop.owner.post(home(shop), TOP, key="once")
    assert again.headers["idempotent-replayed"] == "true"
    assert ok(again, 201) == made | {"publishable_key": None}
    refused(await shop.owner.post(home(shop), TOP | {"title": "x"}, key="once"), 422, "idempotency_key_reused")
    assert ok(await shop.owner.get(home(shop)))["count"] == 1


@pytest.mark.parametrize(
    ("body", "member"),
    [
        ({}, "blueprint_id"),
        ({"blueprint_id": "unknown"}, "blueprint_id"),
        ({"blueprint_id": "Top-Events"}, "blueprint_id"),
        *[({"blueprint_id": name}, "blueprint_id") for name in sorted(PRIVATE)],
        ({"blueprint_id": "event-count"}, "params.event"),
        ({"blueprint_id": "event-count", "params": {"event": 7}}, "params.event"),
        (TOP | {"params": {"days": 91}}, "params.days"),
        (TOP | {"params": []}, "params"),
        (TOP | {"query": "select 1"}, "query"),
        (TOP | {"sql": "select 1"}, "sql"),
        (TOP | {"source": "events"}, "source"),
        (TOP | {"limit": 5}, "limit"),
        (TOP | {"title": ""}, "title"),
        (TOP | {"title": "x" * 201}, "title"),
        (TOP | {"title": "\u202eevil"}, "title"),
        (TOP | {"cache_seconds": -1}, "cache_seconds"),
        (TOP | {"cache_seconds": 86_401}, "cache_seconds"),
        (TOP | {"cache_seconds": "60"}, "cache_seconds"),
        (TOP | {"cache_seconds": True}, "cache_seconds"),
    ],
)
async def test_a_bad_body_is_named(shop: Shop, body: Any, member: str) -> None:
    """Query text is refused like every unknown member (R-PUB-02), and a private blueprint like an unknown one."""
    details = refused(await shop.owner.post(home(shop), body), 400, "invalid_payload")["details"]
    named = [*details["missing_fields"], *details["unknown_fields"]]
    assert [*named, *(found["field"] for found in details["invalid_fields"])] == [member]
    assert details["request_body_schema"]


def test_the_private_blueprints_are_those_of_the_rules() -> None:
    """Their rows hold texts or ids of people and cases (G-163)."""
    assert {"breakdown", "top-errors", "deploy-recurrence"} == PRIVATE < set(CATALOGUE)


async def test_anybody_reads_the_rows_and_nothing_else(shop: Shop) -> None:
    """R-PUB-02, R-PUB-03: no project, no query text, in body and headers alike."""
    await shop.send("paid")
    made = await publish(shop, TOP | {"title": "Top", "params": {"days": 7}})
    reply = await read(shop.world, made)
    answer = ok(reply)
    assert set(answer) == ANSWERED
    assert answer["rows"] == [
        {"event": "paid", "row_count": 1, "unique_users": 1, "last_seen_at": answer["freshness"]["last_event_at"]}
    ]
    assert [column["name"] for column in answer["columns"]] == list(answer["rows"][0])
    assert (answer["title"], answer["params"], answer["truncated"]) == ("Top", {"days": 7, "limit": 20}, False)
    said = reply.text + str(reply.headers)
    for hidden in (shop.project_id, "project_id", "proj_", "select ", shop.owner.user_id, "results", "agp_"):
        assert hidden not in said
    assert reply.headers["access-control-allow-origin"] == "*"
    assert "etag" in reply.headers["access-control-expose-headers"]
    assert "access-control-allow-credentials" not in reply.headers
    assert reply.headers["cache-control"] == "no-cache"


async def test_no_more_than_a_thousand_rows(shop: Shop) -> None:
    """And that there are more is said. The rows of the database are made at once: what counts is the number."""
    await shop.world.sql(
        "insert into log_events "
        "(project_id, received_at, id, level, message, environment, release, tags, extra, case_id) "
        "select %s, service_seconds() - 60, 'log_' || n, 'error', 'm', 'e', 'r' || n, '{}', '{}', 'case_1' "
        "from generate_series(1, %s) n",
        shop.project_id,
        MAX_PUBLIC_ROWS + 1,
    )
    made = await publish(shop, {"blueprint_id": "errors-by-release"})
    answer = ok(await read(shop.world, made))
    assert (len(answer["rows"]), answer["truncated"]) == (MAX_PUBLIC_ROWS, True)


async def test_rows_are_kept_for_as_long_as_was_said(shop: Shop) -> None:
    """By the time of the service, whatever process answers."""
    made = await publish(shop, TOP | {"cache_seconds": 600})
    first = await read(shop.world, made)
    assert ok(first)["rows"] == []
    await shop.send("paid")
    again = await read(shop.world, made)
    assert (again.content, again.headers["etag"]) == (first.content, first.headers["etag"])
    await shop.world.wait(601)
    assert len(ok(await read(shop.world, made))["rows"]) == 1


async def test_without_a_time_each_answer_is_computed(shop: Shop) -> None:
    made = await publish(shop, TOP | {"cache_seconds": 0})
    for number in range(1, 4):
        await shop.send(f"event-{number}")
        assert len(ok(await read(shop.world, made))["rows"]) == number


async def test_a_current_copy_is_not_sent_again(shop: Shop) -> None:
    """304 with the tag and the caching of the answer. A weak form of the tag, a list and `*` match too."""
    made = await publish(shop)
    whole = await read(shop.world, made)
    tag = whole.headers["etag"]
    assert re.fullmatch('"[0-9a-f]{32}"', tag)
    for sent in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        reply = await read(shop.world, made, headers={"if-none-match": sent})
        assert (reply.status_code, reply.content) == (304, b"")
        assert (reply.headers["etag"], reply.headers["cache-control"]) == (tag, "no-cache")
        assert reply.headers["access-control-allow-origin"] == "*"
        assert "content-type" not in reply.headers
    for other in ('"other"', tag[:-2] + '"', ""):
        assert (await read(shop.world, made, headers={"if-none-match": other})).content == whole.content
    wrong = await read(shop.world, made, headers={"if-none-match": tag, "authorization": "Bearer agp_wrong"})
    refused(wrong, 401, "invalid_publishable_key")


async def test_a_head_is_a_get_without_a_body(shop: Shop) -> None:
    made = await publish(shop)
    whole = await read(shop.world, made)
    head = await shop.world.call("HEAD", f"/v1/public/q/{made['publication_id']}")
    assert (head.status_code, head.content) == (200, b"")
    for name in ("etag", "content-length", "content-type", "cache-control", "access-control-allow-origin"):
        assert head.headers[name] == whole.headers[name]
    seen = await shop.world.call(
        "HEAD", f"/v1/public/q/{made['publication_id']}", headers={"if-none-match": whole.headers["etag"]}
    )
    assert seen.status_code == 304


async def test_a_browser_is_told_that_it_may(shop: Shop) -> None:
    made = await publish(shop)
    reply = await shop.world.call("OPTIONS", f"/v1/public/q/{made['publication_id']}")
    assert reply.status_code == 204
    assert reply.headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"
    assert "authorization" in reply.headers["access-control-allow-headers"]
    assert "if-none-match" in reply.headers["access-control-allow-headers"]


async def test_a_revoked_publication_serves_nothing(shop: Shop) -> None:
    """R-PUB-04: kept rows neither; a repeat tells the same time, also under a key of its own."""
    made = await publish(shop)
    ok(await read(shop.world, made))
    path = f"{home(shop)}/{made['publication_id']}"
    revoked = ok(await shop.owner.call("DELETE", path))
    assert set(revoked) == {"publication_id", "status", "revoked_at", "next_action"}
    assert (revoked["publication_id"], revoked["status"]) == (made["publication_id"], "revoked")
    refused(await read(shop.world, made), 404, "publication_not_found")
    await shop.world.wait(5)
    assert ok(await shop.owner.call("DELETE", path)) == revoked
    assert ok(await shop.owner.call("DELETE", path, key="again")) == revoked
    again = await shop.owner.call("DELETE", path, key="again")
    assert (ok(again), again.headers["idempotent-replayed"]) == (revoked, "true")
    assert ok(await shop.owner.get(home(shop)))["publications"] == []


async def test_publications_are_listed_newest_first_and_without_keys(shop: Shop) -> None:
    assert ok(await shop.owner.get(home(shop)))["publications"] == []
    made = []
    for title in ("one", "two", "three"):
        made.append(await publish(shop, TOP | {"title": title}))
        await shop.world.wait(1)
    listed = ok(await shop.owner.get(home(shop)))
    assert set(listed) == {"project_id", "publications", "count", "next_action"}
    assert (listed["project_id"], listed["count"]) == (shop.project_id, 3)
    without = [{k: v for k, v in one.items() if k not in {"publishable_key", "next_action"}} for one in made]
    assert listed["publications"] == without[::-1]


@pytest.mark.parametrize("last", ["0" * 26, "x", "a%2fb", "0" * 300, "é"])
async def test_what_is_not_published_is_not_found(shop: Shop, last: str) -> None:
    """In any form, and with any key: 404 comes before a look at the key."""
    for name in (last, f"pub_{last}"):
        for more in ({}, {"headers": {"authorization": "Bearer agp_x"}}, {"params": {"key": "x"}}):
            answer = await shop.world.get(f"/v1/public/q/{name}", **more)
            refused(answer, 404, "not_found" if "%2f" in name else "publication_not_found")
        if "%2f" not in name:
            refused(await shop.owner.call("DELETE", f"{home(shop)}/{name}"), 404, "publication_not_found")


async def test_every_absence_looks_the_same(shop: Shop) -> None:
    """Revoked, unknown, and of a project that is being deleted (G-093, R-GEN-14)."""
    revoked, fenced = await publish(shop), await publish(shop)
    ok(await shop.owner.call("DELETE", f"{home(shop)}/{revoked['publication_id']}"))
    ok(await read(shop.world, fenced))
    await shop.world.sql("update projects set status = 'fenced' where id = %s", shop.project_id)
    unknown = {"publication_id": "pub_" + "0" * 26}
    answers = [await read(shop.world, one) for one in (revoked, unknown, fenced)]
    assert len({str(without_request_id(answer)) for answer in answers}) == 1
    refused(answers[0], 404, "publication_not_found")


async def test_a_fenced_project_publishes_and_revokes_nothing(shop: Shop) -> None:
    """Its members still see the list (G-131)."""
    made = await publish(shop)
    await shop.world.sql("update projects set status = 'fenced' where id = %s", shop.project_id)
    refused(await shop.owner.post(home(shop), TOP), 409, "project_deletion_in_progress")
    path = f"{home(shop)}/{made['publication_id']}"
    refused(await shop.owner.call("DELETE", path), 409, "project_deletion_in_progress")
    assert ok(await shop.owner.get(home(shop)))["count"] == 1


async def test_a_deleted_project_takes_its_publications_along(shop: Shop) -> None:
    made = await publish(shop)
    ok(await read(shop.world, made))
    path = f"/v1/projects/{shop.project_id}"
    while (answer := await shop.owner.call("DELETE", path, key="k")).status_code == 202:
        refused(await read(shop.world, made), 404, "publication_not_found")
        await asyncio.sleep(0.05)
    ok(answer)
    refused(await read(shop.world, made), 404, "publication_not_found")
    assert await shop.world.sql("select from publications where project_id = %s", shop.project_id) == []


async def test_members_publish_and_nobody_else(shop: Shop) -> None:
    """A member does what an owner may; strangers see no project, and a project's own secret is no person."""
    member, stranger = await add_member(shop.world, shop.project_id, "publisher"), await shop.world.sign_in()
    made = ok(await member.post(home(shop), TOP), 201)
    path = f"{home(shop)}/{made['publication_id']}"
    for method, where, body in (("POST", home(shop), TOP), ("GET", home(shop), None), ("DELETE", path, None)):
        refused(await stranger.call(method, where, body), 404, "project_not_found")
        refused(await stranger.having(None).call(method, where, body), 401, "unauthenticated")
        refused(await shop.dsn.call(method, where, body), 403, "principal_not_allowed")
        refused(await stranger.having(made["publishable_key"]).call(method, where, body), 401, "unauthenticated")
    other = await stranger.create_project()
    elsewhere = f"/v1/projects/{other['id']}/public-queries/{made['publication_id']}"
    refused(await stranger.call("DELETE", elsewhere), 404, "publication_not_found")
    assert ok(await stranger.get(f"/v1/projects/{other['id']}/public-queries"))["count"] == 0
    ok(await read(shop.world, made))
    ok(await member.call("DELETE", path))


async def test_a_publication_outlives_the_membership_of_its_publisher(shop: Shop) -> None:
    member = await add_member(shop.world, shop.project_id, "leaver")
    made = ok(await member.post(home(shop), TOP), 201)
    ok(await shop.owner.call("DELETE", f"/v1/projects/{shop.project_id}/members/{member.user_id}"))
    ok(await read(shop.world, made))


async def test_a_delete_with_a_body_is_refused_first(shop: Shop) -> None:
    """G-007: form comes before existence."""
    path = f"{home(shop)}/pub_{'0' * 26}"
    refused(await shop.owner.call("DELETE", path, {"more": 1}), 400, "invalid_payload")
    refused(await shop.owner.call("DELETE", path, {}), 404, "publication_not_found")


async def test_a_hundred_are_published_however_many_try_at_once(shop: Shop) -> None:
    """G-163: exactly. A revoked one makes room for one more."""
    await at_once(PUBLICATIONS_LIMIT - 8, lambda _: patiently(shop))
    answers = await at_once(12, lambda _: patiently(shop))
    assert sorted(answer.status_code for answer in answers) == [201] * 8 + [400] * 4
    for answer in answers:
        if answer.status_code == 400:
            refused(answer, 400, "invalid_payload")
    listed = ok(await shop.owner.get(home(shop)))
    assert listed["count"] == len(listed["publications"]) == PUBLICATIONS_LIMIT
    ok(await shop.owner.call("DELETE", f"{home(shop)}/{listed['publications'][0]['publication_id']}"))
    answers = await at_once(3, lambda _: patiently(shop))
    assert sorted(answer.status_code for answer in answers) == [201, 400, 400]


async def patiently(shop: Shop) -> httpx2.Response:
    """Publish, and try again while the lane of fences is full."""
    for _ in range(200):
        answer = await shop.owner.client.post(
            home(shop), json=TOP, headers={"authorization": f"Bearer {shop.owner.secret}"}
        )
        if answer.status_code != 503:
            return answer
        await asyncio.sleep(0.05)
    return answer
