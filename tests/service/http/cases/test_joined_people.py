"""Two names of one person, joined by what PostHog's SDKs send: in every count of people, and by whom (G-197)."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.support.api import Api, Person, World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

SECRET = "service_" + "sk_" + "Zx81kQpL0vT3nB6yRw9sXe2cUd5fGh7j"


class Product:
    """A project whose product names its people."""

    def __init__(self, world: World, owner: Person, made: dict[str, Any]) -> None:
        self.world, self.owner, self.made = world, owner, made
        self.id: str = made["id"]
        self.dsn = Api(world.client, made["dsn"])

    async def send(self, event: str, name: str, *, key: str = "posthog_key", **properties: Any) -> None:
        """Send an event by a PostHog SDK of a server, or with `key` of another."""
        holder = "sdks" if key == "posthog_key" else "sdks_public"
        body = {"event": event, "distinct_id": name, "properties": properties}
        sent = {"api_key": self.made[holder]["posthog_key"], "batch": [body]}
        assert ok(await self.world.call("POST", "/batch/", sent))["status"] == 1

    async def run(self, blueprint: str, **params: Any) -> list[dict[str, Any]]:
        path = f"/v1/projects/{self.id}/query-blueprints/{blueprint}/run"
        rows: list[dict[str, Any]] = ok(await self.owner.post(path, {"params": params}))["rows"]
        return rows

    async def people(self, event: str = "page") -> int:
        [row] = await self.run("event-count", event=event, days=1)
        return int(row["unique_users"])

    async def person(self, name: str) -> dict[str, Any]:
        found = ok(await self.owner.get(f"/v1/projects/{self.id}/users/{quote(name, safe='')}/summary"))
        person: dict[str, Any] = found.get("person", {})
        return person | {"events": [event["name"] for event in found["recent_events"]]}


@pytest.fixture
async def product(world: World) -> Product:
    owner = await world.sign_in()
    return Product(world, owner, await owner.create_project())


JOINING = [
    ("$identify", {"$anon_distinct_id": "anon-1"}),
    ("$create_alias", {"alias": "anon-1"}),
    ("$merge_dangerously", {"alias": "anon-1"}),
]


@pytest.mark.parametrize(("event", "properties"), JOINING, ids=[event for event, _ in JOINING])
async def test_two_names_count_as_one_person_from_then_on(product: Product, event: str, properties: Any) -> None:
    """In blueprints, funnels, retention, structured queries, and of people who met errors."""
    await product.send("page", "anon-1")
    assert await product.people() == 1
    await product.send(event, "ann", **properties)
    await product.send("page", "ann")
    await product.send("paid", "ann")
    await product.send("page", "bob")
    assert await product.people() == 2
    assert (await product.run("active-users", days=1))[-1]["unique_users"] == 2
    steps = await product.run("ordered-funnel", events=["page", "paid"], days=1)
    assert [step["users"] for step in steps] == [2, 1]
    for name in ("anon-1", "ann"):
        ok(await product.dsn.post("/v1/logs/", {"message": "boom", "level": "error", "user": {"id": name}}), 202)
    [error] = await product.run("top-errors", days=1)
    assert (error["error_count"], error["users_affected"]) == (2, 1)
    listed = ok(await product.owner.get(f"/v1/projects/{product.id}/users"))
    assert (listed["unique_users"], [user["error_count"] for user in listed["users"]]) == (1, [2])
    of_case = ok(await product.owner.get(f"/v1/cases/{error['case_id']}/users"))
    assert [(user["error_count"], user["distinct_fingerprints"]) for user in of_case["users"]] == [(2, 1)]
    query = {
        "source": "events",
        "select": [{"fn": "unique", "field": "distinct_id", "as": "people"}],
        "filters": [{"field": "event", "op": "eq", "value": "page"}],
    }
    asked = ok(await product.owner.post(f"/v1/projects/{product.id}/analytics/query", query))
    assert asked["rows"] == [{"people": 2}]
    names = ok(await product.owner.get(f"/v1/projects/{product.id}/event-names"))["analytics_events"]
    assert {found["event"]: found["unique_users"] for found in names}["page"] == 2


async def test_a_person_comes_back_under_another_name(product: Product) -> None:
    """Retention by day: yesterday without a name, today with one."""
    await product.send("page", "anon-1")
    await product.world.sql(
        "update analytics_events set received_at = received_at - 86400, occurred_at = occurred_at - 86400 "
        "where project_id = %s",
        product.id,
    )
    await product.send("page", "ann")

    async def returned() -> int:
        found = await product.run("retention", start_event="page", return_event="page", days=2)
        return sum(row["users"] for row in found)

    assert await returned() == 0
    await product.send("$identify", "ann", **{"$anon_distinct_id": "anon-1"})
    assert await returned() == 1


async def test_two_identified_people_stay_two_but_by_a_merge_of_a_server(product: Product) -> None:
    for name in ("ann", "bob"):
        await product.send("$identify", name, **{"$anon_distinct_id": f"anon-{name}"})
        await product.send("page", name)
    await product.send("$identify", "bob", **{"$anon_distinct_id": "anon-ann"})  # one browser, two people
    await product.send("$create_alias", "bob", alias="ann")
    assert await product.people() == 2
    bob = await product.person("bob")
    assert (bob["names"], bob["links_refused"], bob["identified"]) == (["bob", "anon-bob"], 2, True)
    body = {"event": "$merge_dangerously", "distinct_id": "bob", "properties": {"alias": "ann"}}
    public = product.made["sdks_public"]["posthog_key"]
    told = ok(await product.world.call("POST", "/batch/", {"api_key": public, "batch": [body]}))
    assert told == {"status": 1, "refused": 1}
    refused(await Api(product.world.client, product.made["public_dsn"]).post("/v1/analytics/", body), 400,
            "invalid_payload")  # fmt: skip
    assert await product.people() == 2
    await product.send("$merge_dangerously", "bob", alias="ann")
    assert await product.people() == 1
    for name in ("ann", "anon-ann", "bob"):
        person = await product.person(name)
        assert person["names"] == ["bob", "ann", "anon-ann", "anon-bob"]
        assert person["events"].count("page") == 2


@pytest.mark.parametrize("name", ["null", "Undefined", "anonymous", "[object Object]", "0", "[Filtered]"])
async def test_names_that_are_nobodys_join_nobody(product: Product, name: str) -> None:
    for number in range(3):
        await product.send("$identify", name, **{"$anon_distinct_id": f"anon-{number}"})
        await product.send("$identify", f"user-{number}", **{"$anon_distinct_id": name})
        await product.send("page", f"anon-{number}")
        await product.send("page", f"user-{number}")
    assert await product.people() == 6


async def test_properties_are_the_persons_whoever_is_named(product: Product) -> None:
    """Both members, within an event and beside it; later ones win but for those set once; one person's are joined."""
    await product.send("page", "anon-1", **{"$set_once": {"first": "ad", "plan": "free"}})
    await product.send("page", "ann", **{"$set": {"plan": "pro", "seats": 3}})
    beside = {"event": "$set", "distinct_id": "ann", "$set": {"seats": 4}, "$set_once": {"plan": "never"}}
    sent = {"api_key": product.made["sdks"]["posthog_key"], "batch": [beside]}
    ok(await product.world.call("POST", "/batch/", sent))
    assert (await product.person("ann"))["properties"] == {"plan": "pro", "seats": 4}
    assert (await product.person("anon-1"))["properties"] == {"first": "ad", "plan": "free"}
    await product.send("$identify", "ann", **{"$anon_distinct_id": "anon-1"})
    for name in ("ann", "anon-1"):
        person = await product.person(name)
        assert person["properties"] == {"first": "ad", "plan": "pro", "seats": 4}
        assert person["identified"]
    never_sent = await product.person("somebody")
    assert never_sent == {"events": []}


async def test_properties_are_scrubbed_and_few_and_short(product: Product) -> None:
    held = {"password": "hunter2", "note": f"key {SECRET}", "long": "x" * 5000, "list": ["y" * 2000]}
    await product.send("$identify", "ann", **{"$set": held})
    for place in range(4):
        told = {f"p{place:02}{number:02}": number for number in range(30)}
        await product.send("page", "ann", **{"$set": told})
    properties = (await product.person("ann"))["properties"]
    assert len(properties) == 64
    assert properties["password"] == "[scrubbed]"
    assert SECRET not in str(properties)
    assert (len(properties["long"]), "list" in properties) == (128, False)
    assert properties["p0000"] == 0
    await product.send("page", "ann", **{"$set": {"p0000": 7, "zzz": 1}})
    after = (await product.person("ann"))["properties"]
    assert after == properties | {"p0000": 7}


async def test_a_person_has_at_most_a_thousand_names(product: Product) -> None:
    batch = [
        {"event": "$create_alias", "distinct_id": "ann", "properties": {"alias": f"a-{number:04}"}}
        for number in range(1005)
    ]
    sent = {"api_key": product.made["sdks"]["posthog_key"], "batch": batch}
    assert ok(await product.world.call("POST", "/batch/", sent)) == {"status": 1}
    person = await product.person("ann")
    assert (len(person["names"]), person["links_refused"]) == (1000, 6)
    assert await product.world.sql(
        "select max(n) from (select count(*) as n from person_names where project_id = %s group by person) x",
        product.id,
    ) == [(1000,)]


async def test_names_are_a_projects_own(world: World, product: Product) -> None:
    other = Product(world, product.owner, await product.owner.create_project("other"))
    for each in (product, other):
        await each.send("page", "anon-1")
        await each.send("page", "ann")
    await product.send("$identify", "ann", **{"$anon_distinct_id": "anon-1", "$set": {"plan": "pro"}})
    assert (await product.people(), await other.people()) == (1, 2)
    assert (await other.person("ann"))["properties"] == {}
