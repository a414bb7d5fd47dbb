"""Runs of blueprints over our own records: rows by hand, windows, evidence, freshness and receipts (G-151 to G-153)."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from service.analytics import bounded
from service.analytics.blueprints.asking import CATALOGUE, ask_for
from service.analytics.blueprints.declared import Blueprint
from service.auth.refusals import InvalidPayload
from service.eventstore.connect.facts import DAY
from service.ingest import outcomes
from tests.support.questions import OTHER, Error, Event, Questions
from tests.support.questions import questions as questions  # noqa: PLC0414 (a fixture is found by name)


async def test_an_event_is_counted_within_its_window(questions: Questions) -> None:
    """Its second of the read included; another event, another project and what came before are not."""
    now = questions.now
    began = now + 1 - 2 * DAY
    questions.receive(
        [
            Event("paid", "ann", now),
            Event("paid", "ann", began),
            Event("paid", "bob", began + 5),
            Event("paid", "cid", began - 1),
            Event("seen", "dan", now),
        ]
    )
    questions.receive([Event("paid", "eve", now)], OTHER)
    found = await questions.run("event-count", {"event": "paid", "days": 2}, at=now)
    assert found.rows == [{"row_count": 3, "unique_users": 2}]
    assert not found.truncated
    assert (found.evidence.since, found.evidence.until) == (began, now + 1)
    assert found.evidence.params == {"days": 2, "event": "paid"}
    assert (found.evidence.source, found.evidence.complete) == ("local", True)
    assert (found.freshness.as_of, found.freshness.last_event_at, found.freshness.lag_seconds) == (now, now, 0)


async def test_a_late_event_counts_when_it_happened_and_for_an_alert_when_it_came(questions: Questions) -> None:
    """Up to thirty days later. What an alert looks at is the time of receipt (G-193)."""
    now = questions.now
    questions.receive([Event("paid", "ann", now), Event("paid", "bob", now - 9 * DAY)])
    happened = now - 20 * DAY
    questions.connection.execute("update analytics_events set occurred_at = %s", (happened,))
    window = {"since": happened, "until": happened + 1}
    found = await questions.run("event-count", {"event": "paid"}, **window)
    assert found.rows == [{"row_count": 2, "unique_users": 2}]
    for at, expected in ((None, 0), (now, 2)):
        recent = await questions.run("event-count", {"event": "paid", "days": 10}, at=at)
        assert recent.rows[0]["row_count"] == expected
    assert (await questions.run("event-count", {"event": "paid"}, **window, at=now)).rows[0]["row_count"] == 0
    top = await questions.run("top-events", {})
    assert top.rows[0]["last_seen_at"] == happened


def test_an_event_reaches_as_far_back_for_questions_as_for_the_intake() -> None:
    """A row that a question passes over would be lost."""
    assert bounded.REACH == outcomes.REACH


async def test_without_any_event_there_is_a_zero_and_no_newest(questions: Questions) -> None:
    found = await questions.run("event-count", {"event": "paid"})
    assert found.rows == [{"row_count": 0, "unique_users": 0}]
    assert (found.freshness.last_event_at, found.freshness.lag_seconds) == (None, None)


async def test_the_most_frequent_events_come_first_and_then_by_name(questions: Questions) -> None:
    now = questions.now
    questions.receive([Event("b", "ann", now - 9), Event("b", "ann", now - 5), Event("b", "bob", now - 7)])
    questions.receive([Event("c", "ann", now - 1), Event("a", "ann", now - 2)])
    found = await questions.run("top-events", {})
    assert [tuple(row.values()) for row in found.rows] == [
        ("b", 3, 2, now - 5),
        ("a", 1, 1, now - 2),
        ("c", 1, 1, now - 1),
    ]
    assert [column.name for column in found.columns] == ["event", "row_count", "unique_users", "last_seen_at"]
    assert found.evidence.params == {"days": 30, "limit": 20}


@pytest.mark.parametrize(
    ("params", "limit", "shown", "truncated"), [({}, 2, 2, True), ({"limit": 1}, 9, 1, True), ({}, 3, 3, False)]
)
async def test_rows_beyond_a_limit_are_left_out_and_that_is_said(
    questions: Questions, params: dict[str, int], limit: int, shown: int, truncated: bool
) -> None:
    questions.receive([Event(name, "ann", questions.now) for name in "abc"])
    found = await questions.run("top-events", params, limit=limit)
    assert (len(found.rows), found.truncated) == (shown, truncated)


async def test_errors_are_counted_by_release(questions: Questions) -> None:
    """Those without a release have a row of their own; what is no error has no case, and is not counted."""
    now = questions.now
    questions.meet(
        [
            Error(now - 9, "1.0", "ann"),
            Error(now - 7, "1.0", "ann", level="fatal"),
            Error(now - 8, "1.0", None),
            Error(now - 5, None, "bob"),
            Error(now - 4, "2.0", "bob", environment="staging"),
        ]
    )
    questions.meet([Error(now, "1.0", "eve")], OTHER)
    found = await questions.run("errors-by-release", {})
    assert [tuple(row.values()) for row in found.rows] == [
        ("1.0", 3, 1, now - 9, now - 7),
        ("2.0", 1, 1, now - 4, now - 4),
        (None, 1, 1, now - 5, now - 5),
    ]
    assert found.freshness.last_event_at == now - 4
    staged = await questions.run("errors-by-release", {"environment": "staging"})
    assert [row["release"] for row in staged.rows] == ["2.0"]
    assert staged.evidence.params == {"days": 30, "environment": "staging"}


async def test_a_window_may_be_named_by_its_ends(questions: Questions) -> None:
    """Half-open; then days are no parameter of the run."""
    begin = questions.now - 1000
    questions.receive([Event("paid", "ann", begin + after) for after in (-1, 0, 99, 100)])
    found = await questions.run("event-count", {"event": "paid"}, since=begin, until=begin + 100)
    assert found.rows[0]["row_count"] == 2
    assert found.evidence.params == {"event": "paid"}
    assert (found.evidence.since, found.evidence.until) == (begin, begin + 100)


async def test_what_the_plan_has_let_go_is_said(questions: Questions) -> None:
    """The free plan keeps 30 whole days: a window that begins before is not whole (G-152)."""
    now = questions.now
    kept_from = now - now % DAY - 30 * DAY
    whole = await questions.run("event-count", {"event": "paid"}, since=kept_from, until=now)
    older = await questions.run("event-count", {"event": "paid"}, since=kept_from - 1, until=now)
    assert (whole.evidence.complete, whole.evidence.kept_from) == (True, kept_from)
    assert (older.evidence.complete, older.evidence.kept_from) == (False, kept_from)


async def test_the_receipt_is_the_hash_of_question_and_answer(questions: Questions) -> None:
    """Anybody who has both can make it again: canonical JSON, its members in order (G-152)."""
    questions.receive([Event("paid", "ann", questions.now)])
    found = await questions.run("event-count", {"event": "paid"})
    said = {
        "blueprint_id": "event-count",
        "columns": msgspec.to_builtins(found.columns),
        "from": found.evidence.since,
        "limit": 1000,
        "params": {"days": 30, "event": "paid"},
        "rows": [{"row_count": 1, "unique_users": 1}],
        "source": "local",
        "to": found.evidence.until,
    }
    text = msgspec.json.encode(said, order="sorted")
    assert found.evidence.query_receipt_sha256 == hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize(
    ("params", "more", "member"),
    [
        ({}, {}, "params.event"),
        ({"event": 7}, {}, "params.event"),
        ({"event": "a", "days": 0}, {}, "params.days"),
        ({"event": "a", "days": 91}, {}, "params.days"),
        ({"event": "a", "days": True}, {}, "params.days"),
        ({"event": "a", "days": 7}, {"since": 1}, "params.days"),
    ],
)
def test_a_bad_parameter_is_named(params: dict[str, object], more: dict[str, int], member: str) -> None:
    with pytest.raises(InvalidPayload) as refused:
        ask_for("event-count", params, **more)
    details = refused.value.details
    assert [*details["missing_fields"], *(found["field"] for found in details["invalid_fields"])] == [member]


def test_what_is_no_parameter_is_ignored_and_a_whole_number_is_one() -> None:
    """G-003; JSON knows one kind of numbers."""
    asked = ask_for("event-count", {"event": "a", "days": 7.0, "join": "x"})
    assert asked.effective == {"event": "a", "days": 7}


@pytest.mark.parametrize(("since", "until"), [(2000, 2000), (2001, 2000), (0, 367 * DAY)])
async def test_a_window_that_cannot_be_is_refused(questions: Questions, since: int, until: int) -> None:
    with pytest.raises(InvalidPayload):
        await questions.run("event-count", {"event": "a"}, since=since, until=until)


@pytest.mark.parametrize("blueprint", CATALOGUE.values(), ids=CATALOGUE)
def test_a_blueprint_is_whole(blueprint: Blueprint) -> None:
    """Its columns have names of their own, and its parameters defaults but for those that it needs."""
    columns = [column.name for column in blueprint.columns]
    assert len(set(columns)) == len(columns)
    assert set(blueprint.event_params) <= set(blueprint.params.__struct_fields__)
