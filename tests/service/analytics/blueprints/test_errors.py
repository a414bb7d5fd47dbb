"""Blueprints over errors and deploys, by hand, with the events that they are set beside (G-152, G-153)."""

from __future__ import annotations

from typing import Any

import pytest

from service.analytics.blueprints.asking import ask_for
from service.auth.refusals import InvalidPayload
from service.eventstore.connect.facts import DAY
from tests.service.analytics.blueprints.test_events import cells, three_days
from tests.support.questions import OTHER, Error, Event, Questions
from tests.support.questions import questions as questions  # noqa: PLC0414 (a fixture is found by name)

HOUR = 3600


async def test_errors_are_counted_by_case_and_merged_ones_where_they_went(questions: Questions) -> None:
    """Somebody who met both is one person; who is not named counts as an error alone."""
    now = questions.now
    for case, into in (("c1", None), ("c2", "c1"), ("c3", None), ("c4", None)):
        questions.open_case(case, now - 99, into)
    questions.meet(
        [
            Error(now - 9, None, "ann", "c1"),
            Error(now - 8, None, "ann", "c2"),
            Error(now - 7, None, None, "c2"),
            Error(now - 6, None, "bob", "c3", environment="staging"),
            Error(now - 5, None, "cid", "c3"),
            Error(now - 4, None, "cid", "c4"),
        ]
    )
    questions.meet([Error(now, None, "eve", "c1")], OTHER)
    found = await questions.run("top-errors", {})
    assert cells(found) == [
        ("c1", 3, 1, now - 7, "local"),
        ("c3", 2, 2, now - 5, "local"),
        ("c4", 1, 1, now - 4, "local"),
    ]
    staged = await questions.run("top-errors", {"environment": "staging"})
    assert cells(staged) == [("c3", 1, 1, now - 6, "local")]
    top = await questions.run("top-errors", {"limit": 1})
    assert (len(top.rows), top.truncated) == (1, True)


async def test_days_show_who_met_no_error(questions: Questions) -> None:
    begin = three_days(questions)
    questions.receive([Event("a", person, begin + place) for place, person in enumerate(("ann", "bob", "cid", "ann"))])
    questions.receive([Event("a", "ann", begin + 2 * DAY)])
    questions.meet(
        [
            Error(begin, person="ann"),
            Error(begin + 1, person="ann"),
            Error(begin + 2, person=None),
            Error(begin + 3, person="bob", environment="staging"),
            Error(begin + DAY, person="bob"),
            Error(begin + 2 * DAY, person="x"),
            Error(begin + 2 * DAY, person="y"),
        ]
    )
    found = await questions.run("error-free-users", {}, since=begin, until=begin + 3 * DAY)
    assert cells(found) == [(begin, 3, 2, 0.333333), (begin + DAY, 0, 1, None), (begin + 2 * DAY, 1, 2, None)]
    real = await questions.run("error-free-users", {"environment": "production"}, since=begin, until=begin + DAY)
    assert cells(real) == [(begin, 3, 1, 0.666667)]


async def test_days_whose_errors_are_gone_have_no_share(questions: Questions) -> None:
    now = questions.now
    kept = now - now % DAY - 30 * DAY
    questions.receive([Event("a", "ann", kept - 1), Event("a", "ann", kept)])
    found = await questions.run("error-free-users", {}, since=kept - DAY, until=kept + DAY)
    assert cells(found) == [(kept - DAY, 1, None, None), (kept, 1, 0, 1.0)]
    assert not found.evidence.complete


async def test_two_releases_are_compared_by_their_events(questions: Questions) -> None:
    """The first text of three properties names the release of an event."""
    now = questions.now
    questions.meet([Error(now - 5, "2.0", "ann"), Error(now - 4, "2.0", "ann"), Error(now - 3, "1.0", "bob")])
    questions.meet([Error(now - 2, "1.0", "cid", environment="staging"), Error(now - 1, None, "dan")])
    named: list[dict[str, Any]] = [
        {"release": "2.0"},
        {"$release": "2.0", "release": ""},
        {"$app_version": "2.0"},
        {"release": "1.0", "$app_version": "2.0"},
        {"release": "3.0"},
        {},
    ]
    questions.receive([Event("a", "ann", now - 9, properties) for properties in named])
    params = {"release": "2.0", "base_release": "1.0"}
    found = await questions.run("release-comparison", params)
    assert cells(found) == [("2.0", 2, 1, 3, 666.666667), ("1.0", 2, 2, 1, 2000.0)]
    real = await questions.run("release-comparison", {**params, "environment": "production"})
    assert cells(real)[1] == ("1.0", 1, 1, 1, 1000.0)
    unknown = await questions.run("release-comparison", {"release": "9", "base_release": "2.0"})
    assert cells(unknown)[0] == ("9", 0, 0, 0, None)


async def test_releases_are_not_compared_over_what_is_partly_gone(questions: Questions) -> None:
    now = questions.now
    params = {"release": "2.0", "base_release": "1.0"}
    found = await questions.run("release-comparison", params, since=now - 32 * DAY, until=now)
    assert cells(found) == [("2.0", None, None, None, None), ("1.0", None, None, None, None)]
    assert not found.evidence.complete


async def test_a_deploy_is_compared_with_what_was_before(questions: Questions) -> None:
    """Errors of its environment, cases that were new in either period, and the traffic of the whole project."""
    at = three_days(questions)
    questions.deploy("dep_1", "2.0", at)
    for case, opened in (("c1", at - 2 * HOUR), ("c2", at - HOUR), ("c3", at), ("c4", at + 10)):
        questions.open_case(case, opened)
    questions.meet(
        [
            Error(at - HOUR - 1, case="c1"),
            Error(at - HOUR, case="c1"),
            Error(at - HOUR, case="c2"),
            Error(at - 1, case="c2", environment="staging"),
            Error(at, case="c3"),
            Error(at + 9, case="c2"),
            Error(at + HOUR - 1, case="c4", environment="staging"),
            Error(at + HOUR, case="c4"),
        ]
    )
    questions.receive([Event("a", "ann", at + after) for after in (-HOUR - 1, -HOUR, -1, 0, 1, HOUR - 1, HOUR)])
    found = await questions.run("deploy-impact", {"deploy_id": "dep_1", "hours": 1})
    assert cells(found) == [("before", 2, 1, 2, 1000.0), ("after", 2, 1, 3, 666.666667)]
    assert (found.evidence.since, found.evidence.until) == (at - HOUR, at + HOUR)
    assert found.evidence.complete
    assert found.evidence.params == {"deploy_id": "dep_1", "hours": 1}


async def test_the_time_after_a_deploy_ends_now(questions: Questions) -> None:
    """And without traffic there is no rate."""
    now = questions.now
    questions.deploy("dep_1", "2.0", now - 60)
    questions.open_case("case_0001", now - 60)
    questions.meet([Error(now - 60), Error(now)])
    found = await questions.run("deploy-impact", {"deploy_id": "dep_1"}, at=now)
    assert cells(found) == [("before", 0, 0, 0, None), ("after", 2, 1, 0, None)]
    assert (found.evidence.since, found.evidence.until) == (now - 60 - DAY, now + 1)


async def test_a_period_of_a_deploy_that_is_not_kept_has_no_numbers(questions: Questions) -> None:
    now = questions.now
    kept = now - now % DAY - 30 * DAY
    questions.deploy("dep_1", "2.0", kept + HOUR)
    questions.open_case("case_0001", kept + HOUR)
    questions.meet([Error(kept + HOUR)])
    questions.receive([Event("a", "ann", kept + HOUR)])
    found = await questions.run("deploy-impact", {"deploy_id": "dep_1", "hours": 2})
    assert cells(found) == [("before", None, None, None, None), ("after", 1, 1, 1, 1000.0)]
    assert not found.evidence.complete


async def test_recurrence_counts_as_verification_does(questions: Questions) -> None:
    """After the second of the deploy, in its environment, of its version or of none; traffic of the whole project."""
    at = three_days(questions)
    questions.deploy("dep_1", "2.0", at)
    questions.open_case("c1", at - 9)
    questions.meet(
        [
            Error(at, "2.0", case="c1"),
            Error(at + 1, "2.0", case="c1"),
            Error(at + 2, None, case="c1", level="fatal"),
            Error(at + 3, "1.0", case="c1"),
            Error(at + 4, "2.0", case="c1", environment="staging"),
            Error(at + 5, "2.0", case="c2"),
        ]
    )
    questions.receive([Event(event, "ann", at + after) for after, event in enumerate("abcd")])
    found = await questions.run("deploy-recurrence", {"case_id": "c1", "deploy_id": "dep_1"})
    assert cells(found) == [(2, 3, at, found.freshness.as_of)]
    assert (found.evidence.since, found.evidence.until) == (at + 1, found.freshness.as_of + 1)
    assert found.evidence.complete
    just_now = await questions.run("deploy-recurrence", {"case_id": "c1", "deploy_id": "dep_1"}, at=at)
    assert cells(just_now) == [(0, 0, at, at)]


@pytest.mark.parametrize(
    ("blueprint", "params", "member"),
    [
        ("deploy-impact", {"deploy_id": "dep_none"}, "params.deploy_id"),
        ("deploy-impact", {"deploy_id": "dep_theirs"}, "params.deploy_id"),
        ("deploy-recurrence", {"case_id": "c1", "deploy_id": "dep_theirs"}, "params.deploy_id"),
        ("deploy-recurrence", {"case_id": "c_none", "deploy_id": "dep_1"}, "params.case_id"),
        ("deploy-recurrence", {"case_id": "c_theirs", "deploy_id": "dep_1"}, "params.case_id"),
    ],
)
async def test_what_the_project_does_not_have_is_named(
    questions: Questions, blueprint: str, params: dict[str, Any], member: str
) -> None:
    """What another project has looks like what nobody has."""
    questions.deploy("dep_1", "2.0", questions.now)
    questions.deploy("dep_theirs", "2.0", questions.now, OTHER)
    questions.open_case("c1", questions.now)
    questions.open_case("c_theirs", questions.now, project=OTHER)
    with pytest.raises(InvalidPayload) as refused:
        await questions.run(blueprint, params)
    assert [found["field"] for found in refused.value.details["invalid_fields"]] == [member]


@pytest.mark.parametrize("blueprint", ["deploy-impact", "deploy-recurrence"])
async def test_a_deploy_says_its_own_window(questions: Questions, blueprint: str) -> None:
    with pytest.raises(InvalidPayload) as refused:
        await questions.run(blueprint, {"case_id": "c1", "deploy_id": "dep_1"}, since=1, until=2)
    assert [found["field"] for found in refused.value.details["invalid_fields"]] == ["from", "to"]


@pytest.mark.parametrize(
    ("blueprint", "params", "member"),
    [
        ("deploy-impact", {"deploy_id": "d", "hours": 169}, "params.hours"),
        ("deploy-impact", {}, "params.deploy_id"),
        ("deploy-recurrence", {"deploy_id": "d"}, "params.case_id"),
        ("release-comparison", {"release": "1"}, "params.base_release"),
        ("top-errors", {"environment": ""}, "params.environment"),
    ],
)
def test_a_bad_parameter_is_named(blueprint: str, params: dict[str, Any], member: str) -> None:
    with pytest.raises(InvalidPayload) as refused:
        ask_for(blueprint, params)
    details = refused.value.details
    assert [*details["missing_fields"], *(found["field"] for found in details["invalid_fields"])] == [member]
