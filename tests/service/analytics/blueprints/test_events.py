"""Blueprints over events, by hand: days, cohorts, values and funnels (G-152, G-153)."""

from __future__ import annotations

from typing import Any

import pytest

from service.analytics.blueprints.asking import ask_for
from service.analytics.bounded import Table
from service.auth.refusals import InvalidPayload
from service.eventstore.connect.facts import DAY
from tests.support.questions import OTHER, Event, Questions
from tests.support.questions import questions as questions  # noqa: PLC0414 (a fixture is found by name)


def cells(found: Table) -> list[tuple[Any, ...]]:
    """The rows of an answer without the names of their columns, which have an order of their own."""
    names = [column.name for column in found.columns]
    assert all(list(row) == names for row in found.rows)
    return [tuple(row.values()) for row in found.rows]


def three_days(questions: Questions) -> int:
    """The midnight with which the last three whole days begin."""
    now = questions.now
    return now - now % DAY - 3 * DAY


async def test_people_are_counted_once_a_day_and_empty_days_are_rows(questions: Questions) -> None:
    begin = three_days(questions)
    questions.receive(
        [
            Event("a", "ann", begin),
            Event("b", "ann", begin + 1),
            Event("a", "bob", begin + DAY - 1),
            Event("a", "ann", begin + 2 * DAY),
            Event("a", "cid", begin - 1),
            Event("a", "dan", begin + 3 * DAY),
        ]
    )
    questions.receive([Event("a", "eve", begin + DAY)], OTHER)
    found = await questions.run("active-users", {}, since=begin, until=begin + 3 * DAY)
    assert cells(found) == [(begin, 2), (begin + DAY, 0), (begin + 2 * DAY, 1)]


async def test_a_trend_has_the_days_that_its_window_touches(questions: Questions) -> None:
    """The first and the last are cut where the window is; of other events nothing counts."""
    begin = three_days(questions)
    questions.receive(
        [
            Event("paid", "ann", begin + 99),
            Event("paid", "ann", begin + 100),
            Event("paid", "ann", begin + 200),
            Event("paid", "bob", begin + 200),
            Event("seen", "cid", begin + 200),
            Event("paid", "bob", begin + 2 * DAY + 4),
            Event("paid", "bob", begin + 2 * DAY + 5),
        ]
    )
    found = await questions.run("event-trend", {"event": "paid"}, since=begin + 100, until=begin + 2 * DAY + 5)
    assert cells(found) == [(begin, 3, 2), (begin + DAY, 0, 0), (begin + 2 * DAY, 1, 1)]
    days = await questions.run("event-trend", {"event": "paid", "days": 2}, at=begin + 2 * DAY + 5)
    assert [row["day"] for row in days.rows] == [begin, begin + DAY, begin + 2 * DAY]


async def test_a_day_that_has_not_begun_is_no_row(questions: Questions) -> None:
    begin = three_days(questions)
    found = await questions.run("active-users", {}, since=begin, until=begin + 90 * DAY, at=begin + DAY)
    assert [row["day"] for row in found.rows] == [begin, begin + DAY]


async def test_who_came_back_is_counted_by_cohort_and_day(questions: Questions) -> None:
    """A person is in the cohort of each day with the start event; the same day is no return, and nobody is no share."""
    begin = three_days(questions)
    questions.receive(
        [
            Event("signed_up", "ann", begin + 5),
            Event("signed_up", "ann", begin + 6),
            Event("signed_up", "bob", begin + 7),
            Event("opened", "ann", begin + 8),
            Event("opened", "ann", begin + DAY),
            Event("opened", "ann", begin + 2 * DAY),
            Event("opened", "bob", begin + 2 * DAY),
            Event("opened", "cid", begin + DAY),
            Event("signed_up", "cid", begin + 2 * DAY),
        ]
    )
    params = {"start_event": "signed_up", "return_event": "opened"}
    found = await questions.run("retention", params, since=begin, until=begin + 3 * DAY)
    assert cells(found) == [
        (begin, 2, begin + DAY, 1, 0.5),
        (begin, 2, begin + 2 * DAY, 2, 1.0),
        (begin + DAY, 0, begin + 2 * DAY, 0, None),
    ]


async def test_of_one_event_who_comes_again_is_retained(questions: Questions) -> None:
    begin = three_days(questions)
    questions.receive([Event("opened", who, begin + day * DAY) for who, day in (("ann", 0), ("ann", 2), ("bob", 0))])
    params = {"start_event": "opened", "return_event": "opened"}
    found = await questions.run("retention", params, since=begin, until=begin + 3 * DAY)
    assert [row["users"] for row in found.rows] == [0, 1, 0]


async def test_rows_of_retention_are_cut_by_the_limit_alone(questions: Questions) -> None:
    """A year has more pairs of days than an answer has rows: the first of them are all there."""
    begin = three_days(questions) - 360 * DAY
    questions.receive([Event("a", "ann", begin + day * DAY) for day in range(363)])
    params = {"start_event": "a", "return_event": "a"}
    found = await questions.run("retention", params, since=begin, until=begin + 363 * DAY, limit=10_000)
    assert (len(found.rows), found.truncated) == (10_000, True)
    assert {row["users"] for row in found.rows} == {1}


async def test_values_are_texts_and_what_is_none_is_null(questions: Questions) -> None:
    """Numbers, truth and texts; a list, an object, null and nothing are one row, which comes last among equals."""
    begin = three_days(questions)
    values: list[Any] = ["pro", "pro", 7, 7.5, True, "true", "", None, [1], {"a": 1}, "x" * 300, "x" * 201]
    questions.receive(
        [Event("paid", f"p{place % 2}", begin, {"plan": value}) for place, value in enumerate(values)]
        + [Event("paid", "ann", begin, {"other": "pro"}), Event("seen", "ann", begin, {"plan": "pro"})]
    )
    found = await questions.run("breakdown", {"event": "paid", "property": "plan"}, since=begin, until=begin + 1)
    assert cells(found) == [
        (None, 4, 3, 0.307692, 13),
        ("pro", 2, 2, 0.153846, 13),
        ("true", 2, 2, 0.153846, 13),
        ("x" * 200, 2, 2, 0.153846, 13),
        ("", 1, 1, 0.076923, 13),
        ("7", 1, 1, 0.076923, 13),
        ("7.5", 1, 1, 0.076923, 13),
    ]
    top = await questions.run(
        "breakdown", {"event": "paid", "property": "plan", "limit": 1}, since=begin, until=begin + 1
    )
    assert (cells(top), top.truncated) == ([(None, 4, 3, 0.307692, 13)], True)


@pytest.mark.parametrize(
    "name",
    ["a.b", "$x", "it's", 'say "hi"', "a\\b", "{}", "%s", "%(event)s", "x" * 160, "'; drop table cases; --", "✓"],
)
async def test_a_property_may_be_called_anything(questions: Questions, name: str) -> None:
    """The name is a value of the query and no part of it, nor a path."""
    begin = three_days(questions)
    questions.receive([Event(name, name, begin, {name: name, "a": {"b": "inner"}})])
    found = await questions.run("breakdown", {"event": name, "property": name}, since=begin, until=begin + 1)
    assert cells(found) == [(name, 1, 1, 1.0, 1)]


async def test_a_funnel_counts_who_came_in_order(questions: Questions) -> None:
    """With the share of the first step, and of the step before."""
    begin = three_days(questions)
    order = {"ann": "abc", "bob": "acb", "cid": "ab", "dan": "ba", "eve": "bc", "fay": "a"}
    questions.receive(
        Event(event, person, begin + place) for person, word in order.items() for place, event in enumerate(word)
    )
    found = await questions.run("ordered-funnel", {"events": ["a", "b", "c"]}, since=begin, until=begin + 9)
    assert cells(found) == [(1, "a", 5, 1.0, None, 5), (2, "b", 3, 0.6, 0.6, 5), (3, "c", 1, 0.2, 0.333333, 5)]


async def test_events_of_one_second_count_as_in_order(questions: Questions) -> None:
    begin = three_days(questions)
    questions.receive([Event(event, "ann", begin) for event in "cba"])
    found = await questions.run("ordered-funnel", {"events": ["a", "b", "c"]}, since=begin, until=begin + 1)
    assert [row["users"] for row in found.rows] == [1, 1, 1]


async def test_a_funnel_that_nobody_began_has_rows_and_no_shares(questions: Questions) -> None:
    found = await questions.run("ordered-funnel", {"events": ["a", "b"]})
    assert cells(found) == [(1, "a", 0, None, None, 0), (2, "b", 0, None, None, 0)]


async def test_two_periods_are_compared(questions: Questions) -> None:
    """A person is in the period of each step; the second begins where the first ends (G-112)."""
    end = three_days(questions)
    middle = end - 2 * DAY
    questions.receive(
        [
            Event("a", "ann", middle - 2 * DAY),
            Event("b", "ann", middle - 1),
            Event("a", "bob", middle - 1),
            Event("b", "bob", middle),
            Event("a", "cid", middle),
            Event("b", "cid", end - 1),
            Event("a", "dan", end),
            Event("a", "eve", middle - 2 * DAY - 1),
        ]
    )
    params = {"events": ["a", "b"], "period_days": 2}
    found = await questions.run("ordered-funnel-period-compare", params, until=end)
    assert cells(found) == [(1, "a", 2, 1, 1.0, 1.0), (2, "b", 1, 1, 0.5, 1.0)]
    assert (found.evidence.since, found.evidence.until, found.evidence.complete) == (middle - 2 * DAY, end, True)
    assert found.evidence.params == params
    now = await questions.run("ordered-funnel-period-compare", params)
    assert now.evidence.until == now.freshness.as_of + 1


async def test_a_period_that_is_not_kept_has_no_numbers(questions: Questions) -> None:
    """A zero would say that nobody came (G-152)."""
    end = questions.now
    questions.receive([Event("a", "ann", end - 1)])
    params = {"events": ["a", "b"], "period_days": 20}
    found = await questions.run("ordered-funnel-period-compare", params, until=end)
    assert cells(found) == [(1, "a", None, 1, None, 1.0), (2, "b", None, 0, None, 0.0)]
    assert not found.evidence.complete


async def test_a_period_that_is_not_over_has_no_numbers(questions: Questions) -> None:
    now = questions.now
    questions.receive([Event("a", "ann", now)])
    params = {"events": ["a", "b"], "period_days": 1}
    begun = await questions.run("ordered-funnel-period-compare", params, until=now + 100)
    assert [row["current_users"] for row in begun.rows] == [None, None]
    assert [row["prior_users"] for row in begun.rows] == [0, 0]
    ahead = await questions.run("ordered-funnel-period-compare", params, until=now + 2 * DAY)
    assert [row["prior_users"] for row in ahead.rows] == [None, None]


@pytest.mark.parametrize(
    ("blueprint", "params", "member"),
    [
        ("ordered-funnel", {}, "params.events"),
        ("ordered-funnel", {"events": ["a"]}, "params.events"),
        ("ordered-funnel", {"events": [str(n) for n in range(21)]}, "params.events"),
        ("ordered-funnel", {"events": ["a", "b", "a"]}, "params.events[2]"),
        ("ordered-funnel", {"events": ["a", ""]}, "params.events[1]"),
        ("ordered-funnel-period-compare", {"events": ["a", "b"]}, "params.period_days"),
        ("ordered-funnel-period-compare", {"events": ["a", "b"], "period_days": 91}, "params.period_days"),
        ("ordered-funnel-period-compare", {"events": ["a", "a"], "period_days": 1}, "params.events[1]"),
        ("retention", {"start_event": "a"}, "params.return_event"),
        ("breakdown", {"event": "a", "property": "x" * 161}, "params.property"),
        ("breakdown", {"event": "a", "property": "p", "limit": 201}, "params.limit"),
    ],
)
def test_a_bad_parameter_is_named(blueprint: str, params: dict[str, Any], member: str) -> None:
    with pytest.raises(InvalidPayload) as refused:
        ask_for(blueprint, params)
    details = refused.value.details
    assert [*details["missing_fields"], *(found["field"] for found in details["invalid_fields"])] == [member]


async def test_a_comparison_takes_no_begin(questions: Questions) -> None:
    params = {"events": ["a", "b"], "period_days": 1}
    with pytest.raises(InvalidPayload) as refused:
        await questions.run("ordered-funnel-period-compare", params, since=1, until=2)
    assert refused.value.details["invalid_fields"][0]["field"] == "from"
