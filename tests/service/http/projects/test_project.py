"""Projects and their DSN over HTTP (R-PROJ, G-023, G-026)."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from service.accounts import membership as admin
from service.eventstore.declare.commands import Answer, Command, Origin
from service.ids import new_id
from statemachines.accounts.membership import Role
from statemachines.projects import project
from statemachines.projects.project import ProjectDeletionInProgress, decide_fence
from tests.support import seen
from tests.support.api import Person, World, at_once, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server


def key_of(dsn: str) -> str:
    return dsn.split("//")[1].split("@", maxsplit=1)[0]


async def deploy(world: World, dsn: str) -> Any:
    return await world.having(dsn).post("/v1/deploys/", {"version": "1.0.0"})


async def test_a_project_is_made_listed_and_its_dsn_read(world: World):
    person = await world.sign_in()
    made = await person.create_project("Shop ✓")
    assert made["id"] == made["project_id"]
    assert re.fullmatch(r"http://service_dsn_[0-9A-Za-z]{43}@127\.0\.0\.1:\d+/" + str(made["alias"]), made["dsn"])
    assert made["dsn_prefix"] == key_of(made["dsn"])[:20]
    assert (made["name"], made["role"], made["dsn_recoverable"]) == ("Shop ✓", "owner", True)
    assert made["deploys_url"] == f"{world.server.base_url}/v1/deploys/"
    [item] = ok(await person.get("/v1/projects"))["projects"]
    assert item == {name: made[name] for name in item}
    assert "dsn" not in item
    read = ok(await person.get(f"/v1/projects/{made['id']}/dsn"))
    assert (read["dsn"], read["raw_available"], read["dsn_prefix"]) == (made["dsn"], True, made["dsn_prefix"])
    assert ok(await person.get(f"/v1/projects/{made['id']}/dsn")) == read  # reading never rotates
    assert read["rotate_endpoint"].endswith(f"/v1/projects/{made['id']}/dsn/rotate")


async def test_lists_are_paged_and_hold_ones_own_projects(world: World):
    person, stranger = await world.sign_in(), await world.sign_in()
    made = [(await person.create_project(f"p{n}"))["id"] for n in range(5)]
    await stranger.create_project()
    seen, cursor = [], None
    while True:
        page = ok(await person.get("/v1/projects", params={"limit": 2} | ({"cursor": cursor} if cursor else {})))
        seen += [item["id"] for item in page["projects"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(seen) == sorted(made)
    assert len(seen) == 5


async def test_a_replayed_creation_is_the_same_project_without_its_dsn(world: World):
    person = await world.sign_in()
    answers = await at_once(16, lambda _: person.post("/v1/projects", {"name": "one"}, key="k"))
    done = [answer for answer in answers if answer.status_code == 201]
    for answer in answers:
        if answer.status_code != 201:
            refused(answer, 409, "idempotency_in_progress")
    first = [answer for answer in done if "idempotent-replayed" not in answer.headers]
    assert len(first) == 1
    made = first[0].json()
    replay = await person.post("/v1/projects", {"name": "one"}, key="k")
    assert replay.headers["idempotent-replayed"] == "true"
    assert ok(replay, 201) == {
        **made,
        **dict.fromkeys(("dsn", "sdks", "public_dsn", "sdks_public")),
        "next_action": replay.json()["next_action"],
    }
    assert ok(await person.get(f"/v1/projects/{made['id']}/dsn"))["dsn"] == made["dsn"]
    assert ok(await person.get("/v1/projects"))["count"] == 1
    refused(await person.post("/v1/projects", {"name": "two"}, key="k"), 422, "idempotency_key_reused")
    # The key is this principal's alone: another key of the same person makes another project.
    assert ok(await (await world.sign_in()).post("/v1/projects", {"name": "one"}, key="k"), 201)["id"] != made["id"]


@pytest.mark.parametrize("body", [{}, {"name": ""}, {"name": "x" * 201}, {"name": 5}, {"name": "x", "more": 1}, []])
async def test_bad_bodies_are_named(world: World, body: Any):
    person = await world.sign_in()
    refused(await person.post("/v1/projects", body), 400, "invalid_payload")
    assert ok(await person.get("/v1/projects"))["projects"] == []


@pytest.mark.parametrize(
    "name",
    [
        " ",
        "\t",
        "\u00a0\u2003",
        "\u200b\u200d",
        "\u3164",
        "a\x1b[31m",
        "a\nb",
        "shop\n",
        "a\x7f",
        "a\u202egnp.exe",
        "\u2066a",
        "\ufeffa",
    ],
)
async def test_names_that_mislead_are_refused(world: World, name: str):
    """Blank ones, and those with control characters or with characters that turn the direction of what follows."""
    person = await world.sign_in()
    answer = refused(await person.post("/v1/projects", {"name": name}), 400, "invalid_payload")
    assert answer["details"]["invalid_fields"] == [
        {
            "field": "name",
            "reason": (
                "must be a string of 1 to 200 characters, with at least one visible character, and without control or "
                "direction characters"
            ),
        }
    ]


@pytest.mark.parametrize("name", ["Shop ✓", " a ", "متجر", "חנות", "👩\u200d💻", "e\u0301", "x" * 200])
async def test_names_of_every_script_are_taken(world: World, name: str):
    person = await world.sign_in()
    assert (await person.create_project(name))["name"] == name


async def test_verifying_a_dsn(world: World):
    person = await world.sign_in()
    mine, other = await person.create_project(), await person.create_project()
    path = f"/v1/projects/{mine['id']}/dsn/verify"

    async def verify(dsn: str) -> dict[str, Any]:
        return ok(await person.post(path, {"dsn": dsn}))

    for dsn, ok_, parsed in (
        (mine["dsn"], True, mine["id"]),
        (key_of(mine["dsn"]), True, None),
        (other["dsn"], False, str(other["alias"])),
        (mine["dsn"].replace(str(mine["alias"]), other["id"]), False, other["id"]),
        (mine["dsn"].replace(str(mine["alias"]), mine["id"]), True, mine["id"]),
        (mine["dsn"].replace(str(mine["alias"]), mine["id"] + "x"), False, mine["id"] + "x"),
        (f"https://x@h/{mine['id']}", False, mine["id"]),
        ("nonsense", False, None),
    ):
        answer = await verify(dsn)
        assert (answer["ok"], answer["parsed_project_id"]) == (ok_, parsed), dsn
        assert answer["stored_for_recovery"] is ok_
        assert (answer["project_id"], answer["dsn_prefix"]) == (mine["id"], mine["dsn_prefix"])
    await world.sql("delete from dsn_copies where project_id = %s", mine["id"])
    lost = ok(await person.get(f"/v1/projects/{mine['id']}/dsn"))
    assert (lost["dsn"], lost["raw_available"]) == (None, False)
    listed = {item["id"]: item["dsn_recoverable"] for item in ok(await person.get("/v1/projects"))["projects"]}
    assert listed == {mine["id"]: False, other["id"]: True}
    assert not (await verify(other["dsn"]))["stored_for_recovery"]
    assert ok(await person.get(f"/v1/projects/{mine['id']}/dsn"))["dsn"] is None
    assert (await verify(key_of(mine["dsn"])))["stored_for_recovery"]
    assert ok(await person.get(f"/v1/projects/{mine['id']}/dsn"))["dsn"] == mine["dsn"]
    refused(await person.post(path, {}), 400, "invalid_payload")
    refused(await person.post(path, {"dsn": "x", "more": 1}), 400, "invalid_payload")


async def test_rotation_ends_the_dsn_before_at_once(world: World):
    person = await world.sign_in()
    made = await person.create_project()
    path = f"/v1/projects/{made['id']}/dsn/rotate"
    assert (await deploy(world, made["dsn"])).status_code == 202
    rotated = ok(await person.post(path, key="k"))
    assert (rotated["id"], rotated["name"], rotated["dsn_recoverable"]) == (made["id"], "shop", True)
    assert rotated["dsn"] != made["dsn"]
    refused(await deploy(world, made["dsn"]), 401, "unauthenticated")
    assert (await deploy(world, rotated["dsn"])).status_code == 202
    replay = await person.post(path, {}, key="k")
    assert ok(replay)["dsn"] is None
    assert replay.headers["idempotent-replayed"] == "true"
    assert ok(await person.get(f"/v1/projects/{made['id']}/dsn"))["dsn"] == rotated["dsn"]
    refused(await person.post(path, {"more": 1}), 400, "invalid_payload")


async def test_no_deploy_is_recorded_under_a_dsn_after_its_rotation(world: World):
    """Six devices report deploys in a tight loop; none of theirs commits once the rotation was answered."""
    person = await world.sign_in()
    made = await person.create_project()
    path = f"/v1/projects/{made['id']}/dsn"
    dsn = made["dsn"]
    for _ in range(4):
        accepted = 0

        async def report(dsn=dsn) -> None:
            nonlocal accepted
            while (answer := await deploy(world, dsn)).status_code == 202:
                accepted += 1
            refused(answer, 401, "unauthenticated")

        reporters = [asyncio.create_task(report()) for _ in range(6)]
        await asyncio.sleep(0.1)
        dsn = ok(await person.post(f"{path}/rotate"))["dsn"]
        query = "select count(*) from events where project_id = %s and topic like 'deploy.%%'"
        [[before]] = await world.sql(query, made["id"])
        await asyncio.gather(*reporters)
        [[after]] = await world.sql(query, made["id"])
        assert accepted > 0
        assert after == before


async def test_rotations_at_once_leave_one_dsn_that_works(world: World):
    person = await world.sign_in()
    made = await person.create_project()
    answers = await at_once(8, lambda _: person.post(f"/v1/projects/{made['id']}/dsn/rotate"))
    fresh = [ok(answer)["dsn"] for answer in answers]
    current = ok(await person.get(f"/v1/projects/{made['id']}/dsn"))["dsn"]
    assert current in fresh
    working = [dsn for dsn in [made["dsn"], *fresh] if (await deploy(world, dsn)).status_code == 202]
    assert working == [current]


async def add_member(world: World, project_id: str, name: str, role: Role = Role.MEMBER) -> Person:
    person = await world.sign_in(name)
    await world.operate(lambda store: admin.set_member(store, project_id, person.user_id, role))
    return person


OWNER_ROUTES = [("GET", "/dsn", None), ("POST", "/dsn/rotate", {}), ("POST", "/public-dsn/rotate", {})]
MEMBER_ROUTES = [("POST", "/dsn/verify", {"dsn": "x"})]


async def test_members_see_a_project_and_owners_change_it(world: World):
    owner = await world.sign_in()
    made = await owner.create_project()
    member = await add_member(world, made["id"], "bob")
    assert ok(await owner.get(f"/v1/projects/{made['id']}/dsn"))["dsn"] == made["dsn"]  # R-PROJ-07
    [item] = ok(await member.get("/v1/projects"))["projects"]
    assert (item["id"], item["role"]) == (made["id"], "member")
    for method, path, body in OWNER_ROUTES:
        refused(await member.call(method, f"/v1/projects/{made['id']}{path}", body), 403, "owner_required")
    for method, path, body in MEMBER_ROUTES:
        ok(await member.call(method, f"/v1/projects/{made['id']}{path}", body))
    await world.operate(lambda store: admin.remove_member(store, made["id"], member.user_id))
    assert ok(await member.get("/v1/projects"))["projects"] == []
    for method, path, body in OWNER_ROUTES + MEMBER_ROUTES:
        refused(await member.call(method, f"/v1/projects/{made['id']}{path}", body), 404, "project_not_found")


async def test_nothing_a_removed_owner_started_is_committed_afterwards(world: World):
    owner = await world.sign_in()
    made = await owner.create_project()
    second = await add_member(world, made["id"], "second-owner", Role.OWNER)

    working = [asyncio.Event() for _ in range(4)]

    async def work(turn: int) -> None:
        number = 0
        while True:
            number += 1
            body = {"kind": "ci_deploy", "name": "x"}
            answer = await second.post(f"/v1/projects/{made['id']}/credentials", body, key=f"{turn}-{number}")
            if answer.status_code != 200:
                assert answer.status_code == 404, answer.text
                assert number > 1
                return
            working[turn].set()

    workers = [asyncio.create_task(work(turn)) for turn in range(4)]
    await asyncio.gather(*(asyncio.wait_for(one.wait(), 30) for one in working))
    await world.operate(lambda store: admin.remove_member(store, made["id"], second.user_id))
    [[before]] = await world.sql("select count(*) from credentials where project_id = %s", made["id"])
    await asyncio.gather(*workers)
    [[after]] = await world.sql("select count(*) from credentials where project_id = %s", made["id"])
    assert after == before > 0


async def test_another_persons_project_is_like_none(world: World):
    owner, stranger = await world.sign_in(), await world.sign_in()
    made = await owner.create_project()
    for method, path, body in OWNER_ROUTES + MEMBER_ROUTES:
        answers = [
            await stranger.call(method, f"/v1/projects/{project_id}{path}", body)
            for project_id in (made["id"], new_id("proj"), "proj_x:y.z", "short", "-bad-first-character")
        ]
        refused(answers[0], 404, "project_not_found")
        assert all(without_request_id(answer) == without_request_id(answers[0]) for answer in answers)


async def test_project_secrets_are_of_the_wrong_kind(world: World):
    owner = await world.sign_in()
    made = await owner.create_project()
    credential = await owner.create_credential(made["id"], "k")
    for method, path, body in OWNER_ROUTES + MEMBER_ROUTES:
        for secret in (made["dsn"], credential["credential"], world.server.internal_token, world.server.test_token):
            answer = await world.having(secret).call(method, f"/v1/projects/{made['id']}{path}", body)
            refused(answer, 403, "principal_not_allowed")
        refused(await world.call(method, f"/v1/projects/{made['id']}{path}", body), 401, "unauthenticated")


async def fence(world: World, project_id: str) -> None:
    """Accept a deletion of a project."""
    stream = project.stream(project_id)

    def decide(unit: Any) -> Answer:
        unit.append(stream, decide_fence(unit.state(stream), "del_1", unit.now))
        return Answer(204, None)

    origin = Origin("system", "test", "fence", "req_1")
    command = Command(origin=origin, decide=decide, streams=[stream], exclusive=[project_id])
    await world.operate(lambda store: store.execute(command))


async def test_the_deletion_fence_leaves_people_their_reads_and_nothing_else(world: World):
    owner = await world.sign_in()
    made = await owner.create_project()
    member = await add_member(world, made["id"], "fenced-member")
    ci = await owner.create_credential(made["id"], "c")
    path = f"/v1/projects/{made['id']}"
    await fence(world, made["id"])
    for _ in range(2):
        assert ok(await owner.get(f"{path}/dsn"))["dsn"] == made["dsn"]
        assert [item["id"] for item in ok(await owner.get(f"{path}/credentials"))["credentials"]] == [ci["id"]]
        assert ok(await member.get("/v1/projects"))["count"] == 1
        for answer in (
            await owner.post(f"{path}/dsn/rotate"),
            await owner.post(f"{path}/dsn/verify", {"dsn": made["dsn"]}),
            await member.post(f"{path}/dsn/verify", {"dsn": made["dsn"]}),
            await owner.post(f"{path}/credentials", {"kind": "ci_deploy", "name": "x"}, key="k"),
            await owner.post(f"{path}/credentials", {"kind": "ci_deploy", "name": "release"}, key="c"),
            await owner.post(f"/v1/project-credentials/{ci['id']}/revoke"),
            await deploy(world, made["dsn"]),
            await deploy(world, ci["credential"]),
        ):
            error = refused(answer, 409, "project_deletion_in_progress")
            assert error.get("retryable", False) is False
        await asyncio.sleep(1.1)  # past what is remembered
    assert (await owner.create_project())["id"] != made["id"]
    with pytest.raises(ProjectDeletionInProgress):
        await world.operate(lambda store: admin.set_member(store, made["id"], owner.user_id, Role.MEMBER))


async def test_a_test_run_makes_synthetic_projects(world: World):
    started = ok(await world.post("/v1/auth/device"))
    body = {"user_code": started["user_code"], "test_run_id": "run"}
    ok(await world.test_operator.post("/v1/auth/device/test-authorize", body))
    key = ok(await world.post("/v1/auth/device/poll", {"device_code": started["device_code"]}))["api_key"]
    made = ok(await world.having(key).post("/v1/projects", {"name": "x"}), 201)
    ordinary = await (await world.sign_in()).create_project()
    both = [made["id"], ordinary["id"]]
    assert await world.sql("select id from projects where synthetic and id = any(%s)", both) == [(made["id"],)]


async def test_without_an_encryption_key_no_copy_is_kept(server_factory: Any):

    server = server_factory(env={"SERVICE_ENCRYPTION_KEY": "none"})
    async with seen.async_client(server.base_url, timeout=30) as client:
        person = await World(client, server).sign_in()
        made = await person.create_project()
        path = f"/v1/projects/{made['id']}/dsn"
        assert made["dsn_recoverable"] is False
        assert ok(await person.get("/v1/projects"))["projects"][0]["dsn_recoverable"] is False
        read = ok(await person.get(path))
        assert (read["dsn"], read["raw_available"]) == (None, False)
        verified = ok(await person.post(f"{path}/verify", {"dsn": made["dsn"]}))
        assert (verified["ok"], verified["stored_for_recovery"]) == (True, False)
        rotated = ok(await person.post(f"{path}/rotate"))
        assert rotated["dsn_recoverable"] is False
        assert rotated["dsn"]
