"""A case takes 1,000 comments and 500 agents' runs, over HTTP and whoever writes at once (G-145, R-CASE-01)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from tests.service.http.cases.test_acting import project as project  # noqa: PLC0414 (a fixture is found by name)
from tests.service.http.cases.test_acting import read
from tests.service.http.cases.test_case import log
from tests.support.api import World, at_once, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server


class Kind(NamedTuple):
    """What is written to a case: its path, the body of a request, its table and how many fit."""

    path: str
    body: Mapping[str, Any]
    table: str
    most: int


COMMENTS = Kind("comments", {"case_revision": 1, "text": "Seen."}, "case_comments", 1_000)
RUNS = Kind("runs", {"status": "failed"}, "case_runs", 500)
KINDS = pytest.mark.parametrize("kind", [COMMENTS, RUNS], ids=lambda kind: kind.path)
FILL = {
    "case_comments": "insert into case_comments (project_id, id, revision, case_id, user_id, text, commented_at) "
    "select %s, 'cmt_' || n, 1, %s, 'usr_1', 'Before.', 1 from generate_series(%s::int, %s::int) n",
    "case_runs": "insert into case_runs (project_id, id, revision, case_id, status, recorded_at) "
    "select %s, 'arun_' || n, 1, %s, 'failed', 1 from generate_series(%s::int, %s::int) n",
}
"""Rows as a release that counts nothing leaves them, by table: from the first number to the last."""


async def fill(world: World, kind: Kind, project_id: str, case_id: str, first: int, last: int) -> None:
    await world.sql(FILL[kind.table], project_id, case_id, first, last)


async def count(world: World, kind: Kind, case_id: str) -> int:
    [[found]] = await world.sql(f"select count(*) from {kind.table} where case_id = %s", case_id)
    return int(found)


@KINDS
async def test_of_twelve_at_once_those_that_fit_are_written(world: World, project, kind: Kind):
    """Two places are left. The ten others are told the bound, and what was stored answers its key as before."""
    owner, project_id, dsn = project
    case_id = (await log(dsn, "boom"))["case_id"]
    await fill(world, kind, project_id, case_id, 1, kind.most - 2)
    path = f"/v1/cases/{case_id}/{kind.path}"
    answers = await at_once(12, lambda turn: owner.post(path, kind.body, key=f"k{turn}"))
    assert sorted(answer.status_code for answer in answers) == [201] * 2 + [409] * 10
    assert await count(world, kind, case_id) == kind.most
    for turn, answer in enumerate(answers):
        again = await owner.post(path, kind.body, key=f"k{turn}")
        if answer.status_code == 201:
            assert ok(again, 201) == answer.json()
        else:
            assert refused(answer, 409, "case_not_actionable") | {"request_id": ""} == refused(
                again, 409, "case_not_actionable"
            ) | {"request_id": ""}
            error = answer.json()["error"]
            assert f"at most {kind.most:,} " in error["message"]
            assert error["details"]["most"] == kind.most
    assert await count(world, kind, case_id) == kind.most
    other = RUNS if kind is COMMENTS else COMMENTS
    ok(await owner.post(f"/v1/cases/{case_id}/{other.path}", other.body), 201)
    another = (await log(dsn, "another"))["case_id"]
    ok(await owner.post(f"/v1/cases/{another}/{kind.path}", kind.body), 201)


@KINDS
async def test_what_another_release_writes_meanwhile_counts(world: World, project, kind: Kind):
    """Rows that nobody counted under the lock fill a case that has a count already."""
    owner, project_id, dsn = project
    case_id = (await log(dsn, "boom"))["case_id"]
    path = f"/v1/cases/{case_id}/{kind.path}"
    ok(await owner.post(path, kind.body), 201)
    await fill(world, kind, project_id, case_id, 1, kind.most - 2)
    ok(await owner.post(path, kind.body), 201)
    refused(await owner.post(path, kind.body), 409, "case_not_actionable")
    assert await count(world, kind, case_id) == kind.most


async def test_a_full_case_is_ignored_by_the_case_itself(world: World, project):
    """A record of noise does not fit, and leaves the case as it is."""
    owner, project_id, dsn = project
    case_id = (await log(dsn, "boom"))["case_id"]
    await fill(world, RUNS, project_id, case_id, 1, RUNS.most)
    refused(await owner.post(f"/v1/cases/{case_id}/runs", {"status": "marked_spurious"}), 409, "case_not_actionable")
    assert (await read(owner, case_id))["status"] == "open"
    ok(await owner.post(f"/v1/cases/{case_id}/ignore", {"case_revision": 1}))
