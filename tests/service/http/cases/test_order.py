"""The orders of the list of cases: by the last error, by errors and by people, in pages, with filters (R-CASE-11)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.support.api import World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

SHOWN = {"last_seen": "last_seen_at", "errors": "event_count", "people": "users_affected"}
"""What a case shows of what each order is by."""
ORDERS = ("newest", *SHOWN)


@pytest.fixture(scope="module")
def counts() -> list[tuple[str, int, int]]:
    """Cases with so many errors of so many people each. Some have as many as others."""
    drawn = random.Random(34)
    return [(f"part {n % 2} case {chr(97 + n)}", drawn.randint(1, 4), drawn.randint(0, 2)) for n in range(9)]


async def send(dsn: Any, title: str, errors: int, people: int, **members: Any) -> str:
    """Report errors of a case; returns its id."""
    for number in range(errors):
        who = {"user": {"id": f"u{number % people}"}} if people else {}
        sent = ok(await dsn.post("/v1/logs/", {"level": "error", "message": title, **who, **members}), 202)
    return str(sent["case_id"])


async def paged(owner: Any, project_id: str, **query: Any) -> list[dict[str, Any]]:
    """All cases of a list, page by page."""
    seen: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = ok(await owner.get(f"/v1/projects/{project_id}/cases", params={"limit": 2, **query, **cursor}))
        assert page["count"] == len(page["cases"]) <= 2
        seen += page["cases"]
        if page["next_cursor"] is None:
            return seen
        cursor = {"cursor": page["next_cursor"]}


async def test_every_order_shows_every_case_once_whatever_it_is_filtered_by(world: World, counts):
    owner = await world.sign_in()
    made = await owner.create_project()
    project_id, dsn = made["id"], world.having(made["dsn"])
    for number, (title, errors, people) in enumerate(counts):
        await send(dsn, title, errors, people, environment=f"env{number % 3}", release=f"r{number % 4}")
        await world.wait(number % 2)
    await send(dsn, "proof", 2, 1, tags={"service_onboarding_proof": "sop_rt_" + "A" * 43})
    [closed, into, gone] = (await paged(owner, project_id))[:3]
    ok(await owner.post(f"/v1/cases/{closed['id']}/resolve", {"case_revision": closed["revision"]}))
    merged = {"into_case_id": into["id"], "case_revision": gone["revision"]}
    ok(await owner.post(f"/v1/cases/{gone['id']}/merge", merged))

    everything = await paged(owner, project_id, status="all")
    assert len(everything) == len(counts) + 1
    [both] = [case for case in everything if case["id"] == into["id"]]
    assert both["event_count"] == into["event_count"] + gone["event_count"]
    middle = sorted(case["last_seen_at"] for case in everything)[4]
    for order, shown in SHOWN.items():
        for wanted in (
            {},
            {"status": "all"},
            {"status": "ignored"},
            {"environment": "env1"},
            {"release": "r2", "status": "all"},
            {"environment": "env0", "release": "r0"},
            {"text": "PART 1"},
            {"text": "case", "environment": "env2", "status": "all"},
            {"since": middle, "status": "all"},
            {"trust": "synthetic", "status": "all"},
            {"text": "nothing"},
        ):
            found = await paged(owner, project_id, order=order, **wanted)
            expected = await paged(owner, project_id, **wanted)
            expected.sort(key=lambda case: (case[shown], case["id"]), reverse=True)
            assert found == expected, (order, wanted)


async def test_a_cursor_is_one_of_its_order(world: World):
    owner = await world.sign_in()
    made = await owner.create_project()
    for title in "abc":
        await send(world.having(made["dsn"]), title, 1, 1)
    path = f"/v1/projects/{made['id']}/cases"
    for order in ORDERS:
        cursor = ok(await owner.get(path, params={"limit": 1, "order": order}))["next_cursor"]
        for other in ORDERS:
            answer = await owner.get(path, params={"limit": 1, "order": other, "cursor": cursor})
            if other == order:
                ok(answer)
            else:
                error = refused(answer, 400, "invalid_payload")
                assert [one["field"] for one in error["details"]["invalid_fields"]] == ["cursor"]
