"""Materiality: every check alone, edges to the second, decisions that can be made again (R-AUT-22, R-AUT-23)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET

from statemachines.contracts.policy import Thresholds
from statemachines.runs.materiality import CaseFacts, MaterialityDecision, decide_materiality

NOW, LIMITS = 10_000, Thresholds(5, 600)
FACTS = CaseFacts(
    case_id="case_1", revision=2, status="open", trust="customer_provider", event_count=5, first_seen_at=1,
    last_seen_at=NOW - 600,
)  # fmt: skip


def test_everything_just_in_bounds_passes():
    decision = decide_materiality(FACTS, LIMITS, NOW)
    assert decision.passed
    assert all(check.passed for check in decision.checks)
    assert decision.age_seconds == 600


def test_errors_of_the_provider_pass_while_they_were_read_lately():
    """A case without any is judged, and stored, without this check."""
    assert "provider_exceptions_current" not in str(decide_materiality(FACTS, LIMITS, NOW))
    assert b"provider_read_to" not in msgspec.json.encode(FACTS)
    for read_to in (NOW - 600, NOW, NOW + 5):
        decision = decide_materiality(msgspec.structs.replace(FACTS, provider_read_to=read_to), LIMITS, NOW)
        assert decision.passed
        assert decision.checks[-1].check == "provider_exceptions_current"


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({"status": "resolved"}, {"lifecycle_active"}),
        ({"status": "ignored"}, {"lifecycle_active"}),
        ({"status": "absent"}, {"lifecycle_active"}),
        ({"trust": "synthetic"}, {"trusted_source"}),
        ({"trust": ""}, {"trusted_source"}),
        ({"event_count": 4}, {"event_count"}),
        ({"last_seen_at": NOW - 601}, {"last_seen_age"}),
        ({"last_seen_at": NOW + 1}, {"last_seen_not_future"}),
        ({"provider_read_to": NOW - 601}, {"provider_exceptions_current"}),
        ({"provider_read_to": 0}, {"provider_exceptions_current"}),
        ({"last_seen_at": None}, {"last_seen_present", "last_seen_not_future", "last_seen_age"}),
    ],
)
def test_anything_missing_stale_or_untrusted_fails_closed(change, failing):
    decision = decide_materiality(msgspec.structs.replace(FACTS, **change), LIMITS, NOW)
    assert not decision.passed
    assert {check.check for check in decision.checks if not check.passed} == failing


facts = st.builds(
    CaseFacts,
    case_id=st.just("case_1"),
    revision=st.integers(1, 9),
    status=st.sampled_from(["open", "resolved", "ignored", "absent"]),
    trust=st.sampled_from(["customer_provider", "synthetic", ""]),
    event_count=st.integers(0, 10),
    first_seen_at=st.none() | st.integers(0, 20_000),
    last_seen_at=st.none() | st.integers(0, 20_000),
    provider_read_to=st.just(UNSET) | st.integers(0, 20_000),
)


def replays(decision: MaterialityDecision) -> bool:
    """Whether deciding again from what a decision records gives exactly the recorded answer."""
    return decide_materiality(decision.inputs, decision.thresholds, decision.decided_at) == decision


@given(facts, st.builds(Thresholds, st.integers(1, 10), st.integers(60, 9000)), st.integers(0, 20_000))
def test_a_recorded_decision_is_made_again_with_the_same_answer(inputs, thresholds, now):
    decision = decide_materiality(inputs, thresholds, now)
    stored = msgspec.json.decode(msgspec.json.encode(decision), type=type(decision))
    assert replays(stored)
    assert stored.passed == all(check.passed for check in stored.checks)
    forged = msgspec.structs.replace(stored, passed=not stored.passed)
    assert not replays(forged)


def test_no_input_is_a_text_of_telemetry():
    """The facts have room for ids, counts, times and two closed words, and for nothing else."""
    assert set(CaseFacts.__struct_fields__) == {
        "case_id", "revision", "status", "trust", "event_count", "first_seen_at", "last_seen_at",
        "provider_read_to",
    }  # fmt: skip
