"""The yardstick of the grouping: the events, their twins, the stored reference, and how they are judged (G-174)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from scripts.foreign.judging import Agreement, Assigned, judge, report
from scripts.foreign.reference import Reference, digest, joined, load
from scripts.foreign.samples import alone, events
from scripts.foreign.twins import LIBRARY_FRAME, with_twins

EVENTS = 190
TWINS = {
    "line": 175,
    "number": 180,
    "uuid": 180,
    "path": 69,
    "library": 175,
    "text": 180,
    "type": 179,
    "fingerprint": 190,
}

FRAME = {"function": "charge", "filename": "shop/pay.py", "lineno": 17, "in_app": True}
EVENT: dict[str, Any] = {
    "platform": "python",
    "exception": {
        "values": [
            {"type": "KeyError", "value": "'card' of 3", "stacktrace": {"frames": [{**FRAME}]}},
            {"type": "PaymentError", "value": "Card 17 refused", "stacktrace": {"frames": [FRAME]}},
        ]
    },
}


def test_the_reference_is_of_these_events_and_twins() -> None:
    """What was hashed is what is compared: after a change of either, `make yardstick` has to run."""
    found, reference = events(), load()
    labelled = with_twins(found)
    assert reference.hashed == digest(labelled)
    assert (set(reference.events), set(reference.alone)) == (set(found), set(labelled))
    assert len(found) == EVENTS
    assert Counter(label.partition(" after ")[2] for label in labelled if " after " in label) == TWINS


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        ("line", {"stacktrace": {"frames": [{**FRAME, "lineno": 24}]}}),
        ("number", {"value": "Card 48 refused (815)"}),
        ("uuid", {"value": "Card 17 refused 7c9e6679-7425-40de-944b-e07fc1f90ae7"}),
        ("path", {"stacktrace": {"frames": [{**FRAME, "filename": "shop/moved/pay.py"}]}}),
        ("library", {"stacktrace": {"frames": [FRAME, LIBRARY_FRAME]}}),
        ("text", {"value": "Something else entirely went wrong here"}),
        ("type", {"type": "PaymentErrorTwin"}),
    ],
)
def test_a_twin_differs_in_one_respect(kind: str, changed: dict[str, Any]) -> None:
    """The main exception changes, its causes stay."""
    cause, main = EVENT["exception"]["values"]
    twin = with_twins({"it": EVENT})[f"it after {kind}"]
    assert twin == {**EVENT, "exception": {"values": [cause, {**main, **changed}]}}


def test_a_change_without_effect_makes_no_twin() -> None:
    """An event without frames has no other lines, files or library; a message of formats keeps its formats."""
    bare = {"logentry": {"message": "%2$s of %1$s failed 3 times"}, "message": {"formatted": "it failed"}}
    labelled = with_twins({"it": bare})
    assert [label for label in labelled if " after " in label] == [
        f"it after {kind}" for kind in ("number", "uuid", "text", "fingerprint")
    ]
    assert labelled["it after number"] == {
        "logentry": {"message": "%2$s of %1$s failed 34 times (815)"},
        "message": {"formatted": "it failed (815)"},
    }
    assert labelled["it before number"]["message"] == {"formatted": "it failed (4711)"}


def test_causes_are_left_out_of_a_twin_s_reference() -> None:
    """The main exception is the last one, in whichever form a list of exceptions comes."""
    main = EVENT["exception"]["values"][1]
    assert alone(EVENT)["exception"] == {"values": [main]}
    assert alone({"exception": [{"type": "A"}, main]})["exception"] == {"values": [main]}
    single = {"exception": main}
    assert alone(single) is single


def test_pairs_and_twins_are_counted_as_documented() -> None:
    """Of six pairs one is joined by both, one by us alone, one by Sentry alone; of two twins one agrees."""
    groups = {"a": ["1", "2"], "b": ["2"], "c": ["3"], "d": ["3"]}
    cases = {"a": "x", "b": "x", "c": "x", "d": "y", "a after line": "x", "b after line": "z"}
    alone_there = {**groups, "a after line": ["2"], "b after line": ["2"]}
    told = {label: Assigned(case, "frame") for label, case in cases.items()}
    judged = judge(told, Reference("", groups, alone_there), dict.fromkeys(groups, "go"))
    pairs = judged.pairs
    assert (pairs.both, pairs.ours, pairs.theirs) == (1, 2, 1)
    assert (pairs.precision, pairs.recall, pairs.f1) == (pytest.approx(1 / 3), 0.5, pytest.approx(2 / 5))
    line = judged.twins["line"]
    assert (line.twins, line.agreed, judged.all_twins) == (2, 1, Agreement(2, 1, {}))
    assert report(judged).splitlines()[:4] == [
        "F1 0.400, precision 0.333, recall 0.500",
        "pairs joined by both 1, by us alone 2, by Sentry alone 1",
        "     2 joined by us alone, go, frame: a with c, b with c",
        "     1 joined by Sentry alone, go, frame: c with d",
    ]


def test_an_event_without_a_case_is_with_no_other() -> None:
    """Two events below error level are in no common case."""
    judged = judge(
        {"a": Assigned(None, "message"), "b": Assigned(None, "message")},
        Reference("", {"a": ["1"], "b": ["1"]}, {}),
        {"a": "go", "b": "go"},
    )
    assert (judged.pairs.both, judged.pairs.theirs) == (0, 1)
    assert joined(["1", "2"], ["2"]) is True
    assert joined(["1"], []) is False
