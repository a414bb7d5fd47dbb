"""An account's fence reaches the projects that nobody else owns, at once and without a worker (R-DEL-04)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from service.accounts import membership as admin
from statemachines.accounts.membership import Role
from tests.support import seen
from tests.support.api import Person, World, ok, refused
from tests.support.cluster import TestCluster
from tests.support.ending import problems
from tests.support.server import ServerHandle, running_server

PATH = "/v1/auth/self_delete"
DELETE = {"confirm": "DELETE"}
LOG = {"message": "m", "level": "error"}
PROJECTS = 40
RIVALS = 6


@pytest.fixture(scope="module")
def idle(cluster: TestCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerHandle]:
    """A server of two processes, whose worker stands still: nobody moves a deletion on but its own requests."""
    with running_server(tmp_path_factory.mktemp("idle"), cluster, {"SERVICE_WORKERS": "2"}) as handle:
        workers = handle.processes("service.process.worker")
        assert workers
        for worker in workers:
            worker.suspend()
        try:
            yield handle
        finally:
            for worker in workers:
                worker.resume()


@pytest_asyncio.fixture
async def world(idle: ServerHandle) -> AsyncIterator[World]:
    async with seen.async_client(idle.base_url, timeout=30) as client:
        yield World(client, idle)


async def join(world: World, project_id: str, person: Person, role: Role) -> None:
    await world.operate(lambda store: admin.set_member(store, project_id, person.user_id, role))


async def credential(person: Person, project_id: str, kind: str) -> str:
    more = {"ci": {}, "runner": {"kind": "automation_runner", "automation_id": "error-to-draft-pr"}}[kind]
    return str((await person.create_credential(project_id, f"{kind}-{project_id}", **more))["credential"])


async def test_the_fence_of_an_account_is_that_of_its_projects(world: World):
    """Telemetry, deploys, runners and other members: closed from the answer on, in every project, for every process."""
    person, member = await world.sign_in(), await world.sign_in()
    made = [await person.create_project(f"p{number}") for number in range(PROJECTS)]
    for project in made[:3]:
        await join(world, project["id"], member, Role.MEMBER)
    secrets = [await credential(person, made[0]["id"], kind) for kind in ("ci", "runner")]
    for project in made:
        ok(await world.having(project["dsn"]).post("/v1/logs/", LOG), 202)
    case_id = ok(await member.get(f"/v1/projects/{made[0]['id']}/cases"))["cases"][0]["id"]
    assert ok(await person.post(PATH, DELETE), 202)["status"] == "deleting"
    code = "project_deletion_in_progress"
    for _ in range(4):  # whichever process answers
        for project in made:
            dsn = world.having(project["dsn"])
            refused(await dsn.post("/v1/logs/", LOG), 409, code)
            refused(await dsn.post("/v1/analytics/", {"event": "e", "distinct_id": "d"}), 409, code)
        refused(
            await world.having(secrets[0]).post("/v1/deploys/", {"version": "1", "environment": "production"}),
            409,
            code,
        )
        shop = f"/v1/projects/{made[0]['id']}"
        refused(await world.having(secrets[1]).get(f"{shop}/automation-trigger-receipts"), 409, code)
        refused(await member.post(f"/v1/cases/{case_id}/comments", {"case_revision": 1, "text": "t"}), 409, code)
        refused(await member.call("PUT", f"{shop}/source-maps?release=1&source_url=~/a.js", content=b"{}"), 409, code)
        refused(await person.post("/v1/projects", {"name": "n"}), 409, code)
    ok(await member.get(f"{shop}/cases"))  # Reads stay open to people (G-131).
    rows = await world.sql("select count(*) from log_events where project_id = any(%s)", [p["id"] for p in made])
    assert rows == [(PROJECTS,)]


async def test_a_project_with_another_owner_goes_on(world: World):
    """Before, during and after; and goes with the last of them, whoever that is."""
    one, other = await world.sign_in(), await world.sign_in()
    project = await one.create_project()
    await join(world, project["id"], other, Role.OWNER)
    dsn = world.having(project["dsn"])
    done = asyncio.Event()

    async def send() -> list[int]:
        statuses = []
        while not done.is_set():
            statuses.append((await dsn.post("/v1/logs/", LOG)).status_code)
        return statuses

    senders = [asyncio.create_task(send()) for _ in range(RIVALS)]
    ok(await one.post(PATH, DELETE), 202)
    ok(await other.get("/v1/projects"))
    done.set()
    assert {status for statuses in await asyncio.gather(*senders) for status in statuses} == {202}
    ok(await dsn.post("/v1/logs/", LOG), 202)
    ok(await other.post(PATH, DELETE), 202)
    refused(await dsn.post("/v1/logs/", LOG), 409, "project_deletion_in_progress")


@pytest.mark.parametrize("owners", [1, 2], ids=["alone", "together"])
async def test_nothing_that_began_before_the_fence_comes_after_its_answer(world: World, owners: int):
    """Telemetry, deploys and another member's writes race the deletion; together, the owners' race each other."""
    people = [await world.sign_in() for _ in range(owners)]
    member = await world.sign_in()
    project = await people[0].create_project()
    for person in people[1:]:
        await join(world, project["id"], person, Role.OWNER)
    await join(world, project["id"], member, Role.MEMBER)
    ci = world.having(await credential(people[0], project["id"], "ci"))
    dsn = world.having(project["dsn"])
    ok(await dsn.post("/v1/logs/", LOG), 202)
    case_id = ok(await member.get(f"/v1/projects/{project['id']}/cases"))["cases"][0]["id"]
    taken = {"logs": 1, "deploys": 0, "comments": 0}
    fenced = asyncio.Event()

    async def race(kind: str, number: int) -> None:
        """Write until refused; whatever begins after the answer is refused."""
        for turn in range(10_000):
            late = fenced.is_set()
            if kind == "logs":
                answer = await dsn.post("/v1/logs/", LOG)
            elif kind == "deploys":
                answer = await ci.post("/v1/deploys/", {"version": f"{number}-{turn}", "environment": "test"})
            else:
                answer = await member.post(f"/v1/cases/{case_id}/comments", {"case_revision": 1, "text": "t"})
            if answer.status_code == 409:
                assert answer.json()["error"]["code"] == "project_deletion_in_progress"
                return
            assert not late, answer.text
            assert answer.status_code in {200, 201, 202}, answer.text
            taken[kind] += 1
        raise AssertionError("it was never refused")

    async def leave() -> None:
        answers = await asyncio.gather(*(person.post(PATH, DELETE) for person in people))
        assert [answer.status_code for answer in answers] == [202] * owners
        fenced.set()

    await asyncio.gather(leave(), *(race(kind, number) for kind in taken for number in range(RIVALS)))
    counts = (
        ("logs", "select count(*) from log_events where project_id = %s"),
        ("deploys", "select count(*) from deploys where project_id = %s"),
        ("comments", "select count(*) from events where project_id = %s and topic like 'comment.%%'"),
    )
    for kind, query in counts:
        [[count]] = await world.sql(query, project["id"])
        assert count == taken[kind], kind
    assert problems(world.server.database_url) == []


async def test_an_upload_is_told_of_the_fence_that_another_process_has_set(world: World):
    """Also in the second in which it remembers that the project was open: not that there were too many uploads."""
    person = await world.sign_in()
    project = await person.create_project()
    path = f"/v1/projects/{project['id']}/source-maps?release=1&source_url=~/a.js&kind=minified_source"
    for number in range(8):  # both processes remember
        ok(await person.call("PUT", path, content=b"f()" * (number + 1)))
    await world.sql("update projects set status = 'fenced' where project_id = %s", project["id"])
    for _ in range(8):
        refused(await person.call("PUT", path, content=b"g()"), 409, "project_deletion_in_progress")


async def test_a_project_is_found_by_its_key_as_its_gate_has_it(world: World):
    """The functions under the view become a part of the query; else each command would read every project."""
    plan = await world.sql(
        "explain select row_to_json(t) from owned_projects t where t.project_id = %s and t.id = %s", "p", "p"
    )
    told = " ".join(line for (line,) in plan)
    assert "Function Scan" not in told
    assert "project_id = 'p'" in told
