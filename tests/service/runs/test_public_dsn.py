"""The public DSN and automation: the source of a page is no way to a paid run (G-184)."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from tests.support.automation_world import closed
from tests.support.loop.http_scene import HttpScene

pytestmark = pytest.mark.shares_server


def public(at: HttpScene) -> HttpScene:
    """Let the scene send by the public DSN as well."""
    at.world.secrets["page"] = at.must(at.world.call("GET", f"{at.project}/dsn"))["public_dsn"]
    return at


def page_error(at: HttpScene, times: int = 1, **changes: Any) -> str:
    """Send errors by the public DSN; returns their case."""
    body = {"message": "Payment declined for order 17", "level": "error"} | changes
    for _ in range(times):
        case_id: str = at.must(at.call("POST", "/v1/logs/", body, who="page"), 202)["case_id"]
    return case_id


def page_traffic(at: HttpScene, times: int) -> None:
    for _ in range(times):
        body = {"event": "checkout_completed", "distinct_id": "u1"}
        at.must(at.call("POST", "/v1/analytics/", body, who="page"), 202)


def accept(at: HttpScene, accepts: bool = True) -> None:
    """Set whether errors by the public DSN alone may start automation, and enable what that turned off."""
    path = f"{at.project}/settings"
    etag = at.must(at.call("GET", path, who="owner"))["etag"]
    body = {"accept_public_events": accepts}
    if at.must(at.call("PATCH", path, body, who="owner", etag=etag))["automations_disabled"]:
        at.enable()


def test_a_flood_by_the_public_dsn_is_no_way_to_a_receipt(at: HttpScene) -> None:
    """However many errors of however many kinds a page sends. Two errors of a server, as the policy wants, are."""
    public(at.prepare())
    for number in range(60):
        page_error(at, message=f"Payment {chr(97 + number % 20)} declined", environment="production")
    for _ in range(3):
        assert at.issue()["trigger_receipts"] == []
        at.wait(61)
    shown = at.must(at.call("GET", f"{at.project}/cases", who="owner"))["cases"]
    assert sum(case["event_count"] for case in shown) == 60, "they count, open cases and are shown"
    at.error()
    page_error(at, 5)
    assert at.issue()["trigger_receipts"] == [], "one error of a server is not the two of the policy"
    at.error()
    [receipt] = at.issue()["trigger_receipts"]
    assert (receipt["case"]["case_id"], receipt["case"]["event_count"]) == (at.case_id, 2)


def test_a_project_that_accepts_them_counts_both(at: HttpScene) -> None:
    public(at.prepare())
    accept(at)
    at.case_id = page_error(at, 2)
    [receipt] = at.issue()["trigger_receipts"]
    assert receipt["case"]["case_id"] == at.case_id


def test_what_tightens_holds_from_its_answer_on(at: HttpScene) -> None:
    """A receipt issued for errors of a page begins no run once the owner has refused these."""
    public(at.prepare())
    accept(at)
    at.case_id = page_error(at, 2)
    at.issue()
    at.must(at.claim(), 201)
    accept(at, False)
    closed(at.start(), 409, "materiality_not_met")
    page_error(at, 5)
    at.wait(61)
    assert at.issue()["trigger_receipts"] == []


def test_the_second_look_at_a_start_counts_as_the_first(at: HttpScene) -> None:
    """An error of a server has to be as new as the policy says when the run begins, whatever the page sends."""
    public(at.prepare())
    at.error(2)
    at.issue()
    at.must(at.claim(), 201)
    assert at.server.database_url is not None
    with psycopg.connect(at.server.database_url, autocommit=True) as connection:
        query = "update case_stats set last_seen_at = last_seen_at - 90000 where project_id = %s"
        connection.execute(query, (at.world.project_id,))
    page_error(at, 3)
    closed(at.start(), 409, "materiality_not_met")


@pytest.mark.parametrize("who", ["page", "dsn"])
def test_a_closed_case_brought_back_by_a_page_waits_for_a_server(at: HttpScene, who: str) -> None:
    """What servers saw before it was resolved says nothing of the time after."""
    public(at.prepare())
    at.error(3)
    at.must(at.call("POST", f"/v1/cases/{at.case_id}/resolve", {"case_revision": 1}, who="owner"))
    at.wait(5)
    body = {"message": "Payment declined for order 17", "level": "error"}
    at.must(at.call("POST", "/v1/logs/", body, who=who), 202)
    assert at.must(at.call("GET", f"/v1/cases/{at.case_id}", who="owner"))["status"] == "open"
    assert bool(at.issue()["trigger_receipts"]) is (who == "dsn")
    at.wait(61)
    at.error()
    if who == "page":
        assert [one["case"]["case_id"] for one in at.issue()["trigger_receipts"]] == [at.case_id]


def test_an_environment_is_one_in_which_a_server_had_the_error(at: HttpScene) -> None:
    public(at.prepare())
    at.error(3, environment="staging")
    page_error(at, 3, environment="production")
    assert at.issue()["trigger_receipts"] == []
    at.error(environment="production")
    assert len(at.issue()["trigger_receipts"]) == 1


@pytest.mark.parametrize("accepts", [False, True])
def test_an_error_by_the_public_dsn_recurs_where_it_is_material(at: HttpScene, accepts: bool) -> None:
    if accepts:
        accept(at)
    public(at.delivered())
    at.must(at.prove(), 201)
    at.deploy()
    at.wait(2)
    page_error(at, 5)
    at.wait(3)
    answer = at.verify()
    assert answer.json()["verification"]["outcome"] == ("recurred" if accepts else "pending")


def test_a_page_is_no_traffic_where_a_server_tells_of_it(at: HttpScene) -> None:
    """The scene's server has sent the event before."""
    public(at.delivered())
    at.must(at.prove(), 201)
    at.deploy()
    at.wait(2)
    page_traffic(at, 5)
    at.traffic(1)
    at.wait(130)
    sample = at.verify().json()["verification"]["sample"]
    assert (sample["count"], "counted_by" in sample) == (1, False)
    at.traffic(1)
    at.wait(5)
    assert at.verify().json()["verification"]["outcome"] == "no_recurrence"


def test_a_page_is_traffic_where_no_server_tells_of_it(at: HttpScene) -> None:
    """And the record says so."""
    public(at.delivered())
    at.must(at.prove(), 201)
    assert at.server.database_url is not None
    with psycopg.connect(at.server.database_url, autocommit=True) as connection:
        query = "delete from analytics_events where project_id = %s and not public"
        connection.execute(query, (at.world.project_id,))
    at.deploy()
    at.wait(2)
    page_traffic(at, 2)
    at.wait(130)
    done = at.verify().json()["verification"]
    assert (done["outcome"], done["sample"]["count"], done["sample"]["counted_by"]) == ("no_recurrence", 2, "public")
    assert at.run()["verification"]["sample"]["counted_by"] == "public"
