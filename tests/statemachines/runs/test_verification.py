"""Verification: traffic without recurrence alone succeeds, and silence never does (G-111, R-AUT-44, R-AUT-45)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines.contracts.documents import Document
from statemachines.contracts.policy import Authority, VerificationTerms
from statemachines.runs import run as runs
from statemachines.runs.events import Terms
from statemachines.runs.statistics import Before, compare
from statemachines.runs.steps.book import Book
from statemachines.runs.steps.results import Counts, decide_verification, observation_end, verify_run
from statemachines.runs.verdict import BoundDeploy
from tests.support.loop.bodies import HEAD
from tests.support.loop.contracts import READY, make
from tests.support.loop.scene import CASE_ID, Scene

T0 = 1000

TERMS = VerificationTerms(
    observation_window_seconds=100, max_wait_seconds=500, min_sample_size=3, traffic_sample_event="checkout"
)


@pytest.mark.parametrize(
    ("sample", "recurrences", "after", "outcome"),
    [
        (0, 0, 0, "pending"),
        (3, 0, 99, "pending"),
        (3, 0, 100, "no_recurrence"),
        (2, 0, 100, "pending"),
        (2, 0, 499, "pending"),
        (2, 0, 500, "insufficient_traffic"),
        (0, 0, 499, "pending"),
        (0, 0, 500, "insufficient_traffic"),
        (3, 0, 500, "no_recurrence"),
        (0, 1, 0, "recurred"),
        (9, 1, 100, "recurred"),
        (9, 1, 500, "recurred"),
    ],
)
def test_every_row_of_the_table(sample, recurrences, after, outcome):
    verdict = decide_verification(TERMS, T0, Counts(sample, recurrences, T0 + after))
    assert (verdict.outcome, verdict.passed) == (outcome, outcome == "no_recurrence")
    assert (verdict.sample.count, verdict.sample.minimum, verdict.sample.recurrence_count) == (sample, 3, recurrences)
    assert (verdict.sample.observed_from, verdict.sample.observed_to) == (T0, T0 + after)


@pytest.mark.parametrize(
    ("maximum", "errors", "exposure", "after", "outcome"),
    [
        (None, 1, 3, 100, "no_recurrence"),
        ("0.5", 1, 3, 100, "no_recurrence"),
        ("0.4", 1, 3, 100, "pending"),
        ("0.4", 1, 3, 499, "pending"),
        ("0.4", 1, 3, 500, "insufficient_traffic"),
        ("0.5", 1, 0, 100, "pending"),
        ("0.5", 1, 0, 500, "insufficient_traffic"),
    ],
)
def test_a_project_may_ask_for_an_error_probability(maximum, errors, exposure, after, outcome):
    """It is pending until then or the deadline. What nobody can say is never reached (G-173, G-202)."""
    counts = Counts(3, 0, T0 + after, statistics=compare(Before(errors, exposure, 7), 0, 3))
    verdict = decide_verification(TERMS, T0, counts, maximum)
    assert (verdict.outcome, verdict.passed) == (outcome, outcome == "no_recurrence")
    assert verdict.statistics == counts.statistics
    assert verdict.maximum_error_probability == (msgspec.UNSET if maximum is None else maximum)
    if maximum is not None:
        unread = msgspec.structs.replace(counts, statistics=None)
        assert not decide_verification(TERMS, T0, unread, maximum).passed


@given(
    st.builds(VerificationTerms, st.integers(0, 200), st.integers(0, 600), st.integers(0, 5), st.just("checkout")),
    st.integers(0, 5),
    st.integers(0, 2),
    st.integers(0, 2000),
)
def test_zero_traffic_and_recurrence_never_verify(terms, sample, recurrences, after):
    verdict = decide_verification(terms, T0, Counts(sample, recurrences, T0 + after))
    if sample == 0 or recurrences:
        assert not verdict.passed
    if after >= terms.max_wait_seconds:
        assert verdict.outcome != "pending" or after < terms.observation_window_seconds


@pytest.mark.parametrize(
    ("sample", "recurrences", "read", "now", "outcome"),
    [
        (3, 0, 99, 200, "pending"),
        (3, 0, 100, 200, "no_recurrence"),
        (0, 0, 499, 1099, "pending"),
        (3, 0, 99, 1099, "pending"),
        (3, 0, 99, 1100, "insufficient_traffic"),
        (3, 0, 100, 1100, "no_recurrence"),
        (0, 1, 0, 200, "recurred"),
    ],
)
def test_exceptions_of_the_provider_are_waited_for(sample, recurrences, read, now, outcome):
    """Until ten minutes after the deadline."""
    counts = Counts(sample, recurrences, T0 + read, waiting_at=T0 + now)
    assert decide_verification(TERMS, T0, counts).outcome == outcome


def test_what_happens_after_the_deadline_is_not_counted():
    assert observation_end(TERMS, T0, T0 + 100) == T0 + 100
    assert observation_end(TERMS, T0, T0 + 9999) == T0 + 500


def test_nothing_is_counted_before_the_deploy():
    """What has settled may lie before it for a moment."""
    assert observation_end(TERMS, T0, T0 - 2) == T0


REVIEW = make("review_required")


def scene(document: Document = REVIEW) -> Scene:
    return Scene(document, READY)


def test_traffic_without_recurrence_succeeds_and_closes_the_case():
    at = scene().opened()
    assert at.verify().code == "deploy_not_bound"
    assert at.deploy() == at.run_id
    assert at.verify().status == 202
    at.wait(60)
    at.must("traffic", {"count": 2}, who="telemetry")
    assert at.verify().status == 202, "the window is not over"
    at.wait(61)
    assert at.verify().status == 202, "the window is judged by what has settled"
    at.wait(1)
    done = at.verify()
    assert (done.status, done.body["verification"]["outcome"]) == (200, "no_recurrence")
    assert at.standing() == ("verified_or_reported", "succeeded")
    output = at.run()["output"]
    assert output["deploy"]["sha"] == HEAD
    assert output["verification"] == {
        "outcome": "no_recurrence", "passed": True, "sample": {"event": "checkout_completed", "count": 2, "minimum": 2},
    }  # fmt: skip
    again = at.verify()
    assert (again.status, again.body) == (200, done.body)
    case = next(w.state for w in at.store.streams.values() if w.stream.id == CASE_ID)
    assert (case.status.value, case.revision) == ("resolved", 2)


@pytest.mark.parametrize(
    ("errors", "traffic", "wait", "outcome"),
    [
        (1, 9, 2, "recurred"),
        (1, 9, 122, "recurred"),
        (0, 0, 902, "insufficient_traffic"),
        (0, 1, 902, "insufficient_traffic"),
    ],
)
def test_recurrence_and_silence_fail(errors, traffic, wait, outcome):
    at = scene().deployed()
    at.wait(1)
    if traffic:
        at.must("traffic", {"count": traffic}, who="telemetry")
    at.error(errors)
    at.wait(wait)
    assert at.verify().body["verification"]["outcome"] == outcome
    assert at.standing() == ("stopped", "failed")
    assert at.run()["output"]["verification"]["passed"] is False


def test_silence_is_pending_to_the_last_second_and_the_sweep_ends_it():
    at = scene().deployed()
    at.wait(901)
    assert at.verify().status == 202
    at.wait(1)
    at.must("sweep", who="sweep")
    assert at.standing() == ("stopped", "failed")


def test_traffic_after_the_deadline_comes_too_late():
    at = scene().deployed()
    at.wait(901)
    at.must("traffic", {"count": 9}, who="telemetry")
    at.wait(2)
    assert at.verify().body["verification"]["outcome"] == "insufficient_traffic"


def test_the_window_is_judged_by_what_was_counted_and_not_by_the_commit():
    """An error between the count and the commit was never looked at, so nothing is proven yet (G-134)."""
    deploy = BoundDeploy(deploy_id="dep_1", version="v1", environment="production", sha=HEAD, recorded_at=T0)
    run = runs.Run(status=runs.Status.VERIFYING, deploy=deploy, terms=Terms(verification=TERMS))
    book = Book(project_id="proj_1", run_id="run_1", run=run, authority=Authority(automation_id="heal"))
    verdict, effects = verify_run(book, Counts(5, 0, T0 + 99), T0 + 101)
    assert (verdict.outcome, effects) == ("pending", {})
    verdict, effects = verify_run(book, Counts(0, 0, T0 + 499), T0 + 501)
    assert (verdict.outcome, effects) == ("pending", {})
    verdict, effects = verify_run(book, Counts(5, 0, T0 + 100), T0 + 101)
    assert (verdict.passed, list(effects)) == (True, ["run_1"])
