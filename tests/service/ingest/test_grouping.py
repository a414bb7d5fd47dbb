"""Grouping: the same error groups the same whatever varies in it, and an upgrade tears no case apart (G-031)."""

from __future__ import annotations

import hashlib
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.ingest.grouping.fingerprint import GROUPINGS, GroupingEvidence, gather, group, message_template, title


@pytest.mark.parametrize(
    ("message", "template"),
    [
        ("Payment 17 failed", "payment # failed"),
        ("took 1.5 s, not 1,000", "took # s, not #"),
        ("order 3fa85f64-5717-4562-b3fc-2c963f66afa6 lost", "order # lost"),
        ("object deadbeef01 at 0x1f", "object # at #"),
        ('no such file "/tmp/a b"', "no such file #"),
        ("key 'a' and `b`", "key # and #"),
        ("can't open what isn't there", "can't open what isn't there"),
        ("  a\t b\n\nc ", "a b c"),
        ("feed the cab", "feed the cab"),
        ('one " alone', 'one " alone'),
        ("", ""),
    ],
)
def test_variable_parts_become_one_sign(message, template):
    assert message_template(message) == template


@given(st.text(max_size=2000))
def test_a_template_is_bounded_and_stable(message):
    template = message_template(message)
    assert len(template) <= 500
    assert template == template.strip()
    assert "  " not in template


@given(st.integers(0, 10**12), st.uuids(), st.text(st.characters(exclude_characters='"'), max_size=40))
def test_numbers_ids_and_quoted_text_do_not_matter(number, identifier, quoted):
    def fingerprint(n: int, u: uuid.UUID, q: str) -> str:
        return group(GroupingEvidence("E", "f:g", f'Order {n} of {u} failed: "{q}"'))[0].fingerprint

    assert fingerprint(number, identifier, quoted) == fingerprint(1, uuid.UUID(int=1), "x")


def test_the_fingerprint_is_that_of_the_specification():
    [grouping] = group(GroupingEvidence("TypeError", "app/pay.py:charge", "Payment 17 failed"))
    text = "TypeError|app/pay.py:charge|payment # failed"
    assert grouping.fingerprint == hashlib.sha256(text.encode()).hexdigest()[:32]
    assert (grouping.version, grouping.why) == (1, "v1:type+frame+message")


@pytest.mark.parametrize(
    ("evidence", "why"),
    [
        (GroupingEvidence(None, None, "m"), "v1:message"),
        (GroupingEvidence("T", None, "m"), "v1:type+message"),
        (GroupingEvidence(None, "f", "m"), "v1:frame+message"),
    ],
)
def test_every_assignment_says_why(evidence, why):
    [grouping] = group(evidence)
    assert grouping.why == why


def test_type_frame_and_message_all_count():
    groups = {
        group(GroupingEvidence(kind, frame, message))[0].fingerprint
        for kind in ("A", "B", None)
        for frame in ("f", None)
        for message in ("x", "y")
    }
    assert len(groups) == 12


def test_a_new_version_is_offered_beside_the_old_ones():
    """The old fingerprint stays what it was and comes first: an old case keeps its errors."""
    upgraded = {**GROUPINGS, 2: lambda evidence: f"2|{evidence.exception_type}"}
    evidence = GroupingEvidence("T", None, "m 1")
    old, new = group(evidence, upgraded)
    assert [old] == list(group(evidence))
    assert (new.version, new.why) == (2, "v2:type+message")
    assert new.fingerprint != old.fingerprint


FRAME = {"file": "a.py", "function": "f", "in_app": True}


@pytest.mark.parametrize(
    ("exception", "expected"),
    [
        ({"type": "T", "frames": [{"file": "lib.py", "function": "g", "in_app": False}, FRAME]}, ("T", "a.py:f")),
        ({"type": "T", "frames": [{"file": "lib.py"}]}, ("T", None)),
        ({"type": "T", "frames": [{"file": "a.py", "in_app": True}]}, ("T", "a.py:")),
        ({"type": "T", "frames": [{"function": "f", "in_app": True}]}, ("T", ":f")),
        ({"type": "T", "frames": [{"in_app": True}, FRAME]}, ("T", "a.py:f")),
        ({"frames": [FRAME]}, (None, "a.py:f")),
        ({"type": "", "frames": None}, (None, None)),
        ({"type": 7, "frames": "x"}, (None, None)),
        ({"type": ["T"], "frames": [1, None, "f", {"file": 1, "function": [], "in_app": True}]}, (None, None)),
        ("T", (None, None)),
        (None, (None, None)),
    ],
)
def test_evidence_is_found_in_free_form(exception, expected):
    assert gather("m", {"exception": exception}) == GroupingEvidence(*expected, "m")
    assert gather("m", None) == gather("m", {}) == GroupingEvidence(None, None, "m")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_no_form_of_extra_stops_the_grouping(exception):
    evidence = gather("m", {"exception": exception})
    assert group(evidence)
    assert title(evidence)


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        (GroupingEvidence("TypeError", None, "first\nsecond"), "TypeError: first"),
        (GroupingEvidence(None, None, "\n\n  only \n"), "only"),
        (GroupingEvidence(None, None, " "), ""),
        (GroupingEvidence(None, None, "x" * 300), "x" * 200),
    ],
)
def test_a_title_is_the_type_and_the_first_line(evidence, expected):
    assert title(evidence) == expected
