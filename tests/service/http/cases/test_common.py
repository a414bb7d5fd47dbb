"""What the stored errors of a case have in common, over HTTP: counted over all of them, within bounds."""

from __future__ import annotations

from typing import Any

import pytest

from service.cases import event as common_reads
from service.cases.event import Common, common_of, family_of
from service.eventstore.store import EventStore
from tests.support.api import Person, World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.erring import erring_shop

pytestmark = pytest.mark.shares_server


async def common(owner: Person, case_id: str) -> dict[str, Any]:
    found: dict[str, Any] = ok(await owner.get(f"/v1/cases/{case_id}/common"))
    return found


async def test_what_errors_have_in_common_is_counted_over_all_of_them(world: World):
    """Also over those of merged cases and of other days, and beyond a page of the list."""
    shop = await erring_shop(world)
    for number in range(60):
        tags = {"region": "eu" if number % 3 else "us", "number": str(number), "environment": "no environment"}
        case_id = await shop.err("Same broke", release=f"r{number % 2}", tags=tags)
    other = await shop.err("Another broke", release="r9", tags={"region": "eu"})
    merge = {"case_revision": (await shop.case(other))["revision"], "into_case_id": case_id}
    ok(await shop.owner.post(f"/v1/cases/{other}/merge", merge))
    found = await common(shop.owner, case_id)
    assert (found["errors"], found["complete"], found["case_id"]) == (61, True, case_id)
    told = {tag["name"]: tag for tag in found["tags"]}
    assert told["region"] == {
        "name": "region",
        "errors": 61,
        "values": [{"value": "eu", "errors": 41}, {"value": "us", "errors": 20}],
        "others": 0,
    }
    assert told["environment"]["values"] == [{"value": "production", "errors": 61}]
    assert [value["value"] for value in told["release"]["values"]] == ["r0", "r1", "r9"]
    assert (told["number"]["errors"], told["number"]["others"]) == (60, 57)
    assert [tag["errors"] for tag in found["tags"]] == sorted((tag["errors"] for tag in found["tags"]), reverse=True)


async def test_what_errors_have_in_common_is_counted_within_bounds(world: World, monkeypatch: pytest.MonkeyPatch):
    """Of very many the newest alone, and it says so. Further statements have their time, and only the first is sure."""
    shop = await erring_shop(world)
    for number in range(6):
        case_id = await shop.err("Same broke", tags={"number": str(number)})

    async def count(store: EventStore) -> Common:
        return await common_of(store, shop.id, await family_of(store, shop.id, case_id))

    monkeypatch.setattr(common_reads, "COUNTED", (2, 4))
    found = await world.operate(count)
    assert (found.errors, found.complete) == (4, False)
    assert [(tag.name, tag.errors, tag.others) for tag in found.tags] == [("environment", 4, 0), ("number", 4, 1)]
    monkeypatch.setattr(common_reads, "SECONDS", -1.0)
    assert (await world.operate(count)).errors == 2
    monkeypatch.setattr(common_reads, "COUNTED", (6, 60))
    monkeypatch.setattr(common_reads, "SECONDS", 60.0)
    assert (await world.operate(count))[:3:2] == (6, True)


async def test_the_caller_may_count_fewer(world: World):
    shop = await erring_shop(world)
    for number in range(4):
        case_id = await shop.err("Same broke", tags={"number": str(number)})
    found = ok(await shop.owner.get(f"/v1/cases/{case_id}/common?newest=3"))
    assert (found["errors"], found["complete"]) == (3, False)
    for bad in ("0", "100001", "x", "-1"):
        refused(await shop.owner.get(f"/v1/cases/{case_id}/common?newest={bad}"), 400, "invalid_payload")


async def test_who_may_count_what_errors_have_in_common(world: World):
    shop = await erring_shop(world)
    case_id = await shop.err("Same broke")
    stranger = await world.sign_in()
    refused(await stranger.get(f"/v1/cases/{case_id}/common"), 404, "case_not_found")
    refused(await shop.owner.get("/v1/cases/case_none/common"), 404, "case_not_found")
    await world.sql("delete from log_events where project_id = %s", shop.id)
    found = await common(shop.owner, case_id)
    assert (found["errors"], found["complete"], found["counted_from"], found["tags"]) == (0, True, None, [])
