"""Feedback over HTTP: repeats are counted, texts go with the account, operators read it (G-063, G-158, R-INST-13)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from service.accounts.person import latest_feedback
from service.ids import new_id
from statemachines.accounts.person import FEEDBACK_LIMIT, MOST_DETAILS
from tests.service.http.deletion.test_account import to_the_receipt
from tests.service.http.projects.test_project import add_member, fence
from tests.support.api import Person, World, at_once, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.ending import holding, left_of

pytestmark = pytest.mark.shares_server

PATH = "/v1/feedback"
BODY = {"kind": "agent_discovered_bug", "fingerprint": "verify-500-on-empty-map", "title": "Verify fails"}
DOCUMENTED = {"id", "kind", "fingerprint", "status", "occurrences", "created_at", "next_action"}


async def kept(world: World, person: Person) -> list[dict[str, Any]]:
    """What an operator sees of a person, the latest first."""
    rows = await world.operate(lambda store: latest_feedback(store, 10_000))
    return [msgspec.to_builtins(row) for row in rows if row.project_id == person.user_id]


async def test_a_repeat_is_counted_and_changes_nothing_else(world: World) -> None:
    person = await world.sign_in()
    more = {"body_md": "# What", "severity": "high", "operation": "verify_install", "request_id": "req_1"}
    first = ok(await person.post(PATH, BODY | more | {"details": {"status": 500}}), 201)
    assert set(first) == DOCUMENTED
    assert (first["status"], first["occurrences"]) == ("received", 1)
    assert (first["kind"], first["fingerprint"]) == (BODY["kind"], BODY["fingerprint"])
    await world.wait(5)
    again = ok(await person.post(PATH, BODY | {"title": "Another title", "severity": "low"}))
    assert again == first | {"occurrences": 2}
    [row] = await kept(world, person)
    assert (row["title"], row["body_md"], row["severity"], row["details"]) == (
        BODY["title"],
        "# What",
        "high",
        '{"status":500}',
    )
    assert row["last_at"] >= row["created_at"] + 5
    assert await world.sql("select 1 from events where payload::text like %s", f"%{BODY['fingerprint']}%") == []


async def test_feedback_is_one_per_person_kind_and_fingerprint(world: World) -> None:
    person, other = await world.sign_in(), await world.sign_in()
    ids = [
        ok(await who.post(PATH, BODY | changed), 201)["id"]
        for who, changed in ((person, {}), (person, {"kind": "idea"}), (person, {"fingerprint": "x" * 8}), (other, {}))
    ]
    assert len(set(ids)) == 4


async def test_the_same_key_counts_once(world: World) -> None:
    person = await world.sign_in()
    first = ok(await person.post(PATH, BODY, key="k"), 201)
    replayed = await person.post(PATH, BODY, key="k")
    assert (ok(replayed, 201), replayed.headers["idempotent-replayed"]) == (first, "true")
    refused(await person.post(PATH, BODY | {"kind": "idea"}, key="k"), 422, "idempotency_key_reused")
    assert ok(await person.post(PATH, BODY, key="other"))["occurrences"] == 2


async def test_repeats_at_once_are_all_counted(world: World) -> None:
    person = await world.sign_in()
    answers = await at_once(8, lambda _: person.post(PATH, BODY))
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert sorted(answer.json()["occurrences"] for answer in answers) == list(range(1, 9))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"kind": "praise"}, "kind"),
        ({"fingerprint": "short"}, "fingerprint"),
        ({"fingerprint": "x" * 201}, "fingerprint"),
        ({"title": ""}, "title"),
        ({"title": "x" * 201}, "title"),
        ({"body_md": "x" * 16385}, "body_md"),
        ({"severity": "urgent"}, "severity"),
        ({"project_id": "x"}, "project_id"),
        ({"details": [1]}, "details"),
        ({"details": {"text": "x" * MOST_DETAILS}}, "details"),
        ({"title": "service_sk_" + "a" * 43}, "title"),
        ({"details": {"key": "service_ci_" + "a" * 43}}, "details"),
        ({"more": 1}, "more"),
    ],
)
async def test_bad_feedback_is_refused_by_name(world: World, changed: Any, named: str) -> None:
    person = await world.sign_in()
    details = refused(await person.post(PATH, BODY | changed), 400, "invalid_payload")["details"]
    assert named in details["unknown_fields"] + [fault["field"] for fault in details["invalid_fields"]]
    assert details["request_body_schema"]["properties"]["fingerprint"]
    assert await kept(world, person) == []


async def test_a_missing_member_is_named(world: World) -> None:
    person = await world.sign_in()
    for name in BODY:
        body = {member: value for member, value in BODY.items() if member != name}
        error = refused(await person.post(PATH, body), 400, "invalid_payload")
        assert error["details"]["missing_fields"] == [name]


async def test_a_project_of_feedback_is_one_of_the_senders(world: World) -> None:
    owner, stranger = await world.sign_in(), await world.sign_in()
    project = await owner.create_project()
    body = BODY | {"project_id": project["id"]}
    foreign = await stranger.post(PATH, body)
    refused(foreign, 404, "project_not_found")
    absent = await stranger.post(PATH, BODY | {"project_id": new_id("proj")})
    assert without_request_id(foreign) == without_request_id(absent)
    member = await add_member(world, project["id"], f"member-{project['id']}")
    ok(await member.post(PATH, body), 201)
    ci = await owner.create_credential(project["id"], "ci")
    for secret in (project["dsn"], ci["credential"]):
        refused(await world.having(secret).post(PATH, BODY), 403, "principal_not_allowed")
    refused(await world.post(PATH, BODY), 401, "unauthenticated")
    await fence(world, project["id"])
    refused(await owner.post(PATH, body), 409, "project_deletion_in_progress")
    ok(await owner.post(PATH, BODY), 201)


async def test_a_person_has_a_thousand_also_in_a_race(world: World) -> None:
    """A repeat of one is still counted."""
    person = await world.sign_in()
    ok(await person.post(PATH, BODY), 201)
    await world.sql(
        "insert into feedback (project_id, id, kind, fingerprint, title, occurrences, created_at, last_at) "
        "select %s, 'fb_' || n, 'idea', 'fingerprint ' || n, 't', 1, 1, 1 from generate_series(1, %s) n",
        person.user_id,
        FEEDBACK_LIMIT - 4,
    )

    async def send(turn: int) -> int:
        return (await person.post(PATH, BODY | {"fingerprint": f"in-a-race-{turn}"})).status_code

    found = await at_once(8, send)
    assert sorted(found) == [201] * 3 + [400] * 5
    refused(await person.post(PATH, BODY | {"kind": "idea"}), 400, "invalid_payload")
    assert ok(await person.post(PATH, BODY))["occurrences"] == 2
    ok(await (await world.sign_in()).post(PATH, BODY), 201)


async def test_feedback_goes_with_the_account_and_forgets_a_deleted_project(world: World) -> None:
    person, owner = await world.sign_in(), await world.sign_in()
    url = world.server.database_url
    project = await owner.create_project()
    member = await add_member(world, project["id"], f"teller-{project['id']}")
    for who in (person, member):
        ok(await who.post(PATH, BODY | {"title": f"canary-of-feedback {who.user_id}"}), 201)
    ok(await member.post(PATH, BODY | {"kind": "idea", "project_id": project["id"]}), 201)
    await to_the_receipt(person)
    assert holding(url, f"canary-of-feedback {person.user_id}") == {}
    assert left_of(url, person.user_id).keys() <= {"events"}
    await to_the_receipt(owner)
    assert left_of(url, project["id"]) == {}
    assert [row["about_project"] for row in await kept(world, member)] == [None, None]
