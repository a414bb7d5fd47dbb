"""Every received record has exactly one outcome, and they add up (design §6)."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from service.ingest.outcomes import KINDS, IngestOutcomes, outcome_of

STATUSES = [202, 400, 401, 403, 409, 413, 415, 422, 429, 500, 503]


@given(
    st.lists(st.tuples(st.sampled_from([*KINDS, "read_case"]), st.sampled_from(STATUSES))),
    st.integers(0, 5),
)
def test_outcomes_add_up(answers, suppressed):
    outcomes = IngestOutcomes()
    for operation, status in answers:
        outcomes.answered(operation, status)
    found = outcomes.counts(suppressed)
    received = Counter(KINDS[operation] for operation, _ in answers if operation in KINDS)
    for kind, count in received.items():
        assert sum(value for (of, _), value in found.items() if of == kind) == count
    logs = sum(KINDS.get(operation) == "logs" and status == 202 for operation, status in answers)
    assert found.get(("logs", "suppressed"), 0) == min(suppressed, logs)
    assert all(value >= 0 for value in found.values())


def test_an_answer_is_sorted_by_its_status():
    assert Counter(map(outcome_of, STATUSES)) == {"accepted": 1, "malformed": 3, "refused": 7}
