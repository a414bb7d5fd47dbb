"""Grouping: the same error groups the same whatever varies in it, and an upgrade tears no case apart (G-031)."""

from __future__ import annotations

import hashlib
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.ingest.grouping.fingerprint import (
    GROUPINGS,
    DecidingFrame,
    Grouping,
    GroupingEvidence,
    Seen,
    gather,
    group,
    title,
)
from service.ingest.grouping.first import template_1 as message_template
from service.ingest.grouping.first import template_2


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


def first(evidence: GroupingEvidence) -> Grouping:
    """The assignment of version 1."""
    return group(evidence)[0]


def second(evidence: GroupingEvidence) -> Grouping:
    """The assignment of version 2."""
    return group(evidence)[1]


def test_the_fingerprint_is_that_of_the_specification():
    """Version 1 never changes: its cases keep their errors (G-031)."""
    grouping = first(
        GroupingEvidence("TypeError", "app/pay.py:charge", "Payment 17 failed", DecidingFrame("pay.py", "charge"))
    )
    text = "TypeError|app/pay.py:charge|payment # failed"
    assert grouping.fingerprint == hashlib.sha256(text.encode()).hexdigest()[:32]
    assert (grouping.version, grouping.why) == (1, "v1:type+frame+message")


PLACE = DecidingFrame("f.py", "g")


@pytest.mark.parametrize(
    ("evidence", "texts", "why"),
    [
        (GroupingEvidence(None, None, "m 1"), "v2t||m #", "v2:message"),
        (GroupingEvidence("T", None, "m 1"), "v2t|T|m #", "v2:type+message"),
        (GroupingEvidence("T", "f", "m 1"), "v2t|T|m #", "v2:type+message"),
        (GroupingEvidence(None, "f", "m", PLACE), "v2f||f.py|g", "v2:frame"),
        (GroupingEvidence("T", "f", "m", PLACE), "v2f|T|f.py|g", "v2:type+frame"),
        (GroupingEvidence("T", "f", "m", PLACE, late=True), "v2f|T|f.py|g", "v2:type+frame+map_late"),
        (GroupingEvidence("T", None, "m 1", late=True), "v2t|T|m #", "v2:type+message+map_late"),
        (GroupingEvidence("T", "f", "m", PLACE, ("a", "b")), 'v2c|["a","b"]', "v2:client"),
        (GroupingEvidence("T", "f", "m", PLACE, ("{{ default }}",)), "v2f|T|f.py|g", "v2:type+frame"),
        (
            GroupingEvidence("T", "f", "m", PLACE, ("{{default}}", "a")),
            'v2c|["{{ default }}","a"]|v2f|T|f.py|g',
            "v2:client+type+frame",
        ),
    ],
)
def test_every_assignment_says_why(evidence, texts, why):
    grouping = second(evidence)
    assert grouping.fingerprint == hashlib.sha256(texts.encode()).hexdigest()[:32]
    assert (grouping.version, grouping.why) == (2, why)


def test_type_frame_and_message_all_count_in_version_1():
    groups = {
        first(GroupingEvidence(kind, frame, message)).fingerprint
        for kind in ("A", "B", None)
        for frame in ("f", None)
        for message in ("x", "y")
    }
    assert len(groups) == 12


def test_the_message_counts_in_version_2_only_without_a_frame():
    groups = {
        second(GroupingEvidence(kind, None, message, place)).fingerprint
        for kind in ("A", "B", None)
        for place in (PLACE, None)
        for message in ("x", "y")
    }
    assert len(groups) == 9


def test_a_new_version_is_offered_beside_the_old_ones():
    """The old fingerprint stays what it was and comes first: an old case keeps its errors."""
    upgraded = {**GROUPINGS, 4: lambda evidence: Seen(f"4|{evidence.exception_type}", "type")}
    evidence = GroupingEvidence("T", None, "m 1")
    *old, new = group(evidence, upgraded)
    assert old == list(group(evidence))
    assert (new.version, new.why) == (4, "v4:type")
    assert new.fingerprint not in {one.fingerprint for one in old}


@pytest.mark.parametrize(
    ("message", "template"),
    [
        ("took -3.5e-10 s, not +2 s", "took # s, not # s"),
        ("foo-1 and 1-2", "foo-# and #-#"),
        ("at 2023-01-02T03:04:05.123Z and 2023-01-02 03:04:05+01:00", "at # and #"),
        ("on Mon, 02 Jan 2006 15:04:05 GMT or Jan 2, 2006", "on # or #"),
        ("Tue Feb 13 12:00:01 2024: march on", "#: march on"),
        ("commit a1b2c3d broke order 3fa85f64-5717-4562-b3fc-2c963f66afa6", "commit # broke order #"),
        ("from 10.0.0.1:80 and fe80::1 in std::vector", "from #:# and # in std::vector"),
        ("mail to joe.doe+x@example.co.uk failed", "mail to # failed"),
        ("GET https://api.shop.com/v1/orders/17?x=1 failed", "get https://api.shop.com/# failed"),
        ("can’t open ‘a b’, “x”, «y» or 「z」", "can’t open #, #, # or #"),
        ("key 'a' and `b` isn't \"c\"", "key # and # isn't #"),
        ("12345678.50 of 0x1f", "# of #"),
    ],
)
def test_a_template_of_version_2_leaves_out_more(message, template):
    assert template_2(message) == template


@given(st.text(max_size=2000))
def test_a_template_of_version_2_is_bounded(message):
    template = template_2(message)
    assert len(template) <= 500
    assert "  " not in template


FRAME = {"file": "a.py", "function": "f", "in_app": True}


LIBRARY = {"file": "lib.py", "function": "g", "in_app": False}


@pytest.mark.parametrize(
    ("exception", "expected"),
    [
        ({"type": "T", "frames": [LIBRARY, FRAME]}, ("T", "a.py:f", DecidingFrame("a.py", "f"))),
        (
            {"type": "T", "frames": [LIBRARY, {"function": "h", "file": "x/lib.py"}]},
            ("T", None, DecidingFrame("lib.py", "g")),
        ),
        ({"type": "T", "frames": [{"file": "lib.py"}]}, ("T", None, None)),
        ({"type": "T", "frames": [{"file": "a.py", "in_app": True}]}, ("T", "a.py:", None)),
        (
            {"type": "T", "frames": [{"file": "a.py", "in_app": True}, LIBRARY]},
            ("T", "a.py:", DecidingFrame("lib.py", "g")),
        ),
        ({"type": "T", "frames": [{"function": "f", "in_app": True}]}, ("T", ":f", DecidingFrame("", "f"))),
        ({"type": "T", "frames": [{"in_app": True}, FRAME]}, ("T", "a.py:f", DecidingFrame("a.py", "f"))),
        (
            {"frames": [{"file": "src/a.min-0a1b2c3d.js?x", "function": "new A.f", "in_app": True}]},
            (None, "src/a.min-0a1b2c3d.js?x:new A.f", DecidingFrame("a.min.js", "f")),
        ),
        (
            {"frames": [{"function": "cold", "symbol": "shop::pay(int).cold.1"}]},
            (None, None, DecidingFrame("", "shop::pay")),
        ),
        ({"frames": [{"module": "shop.pay", "function": "f"}]}, (None, None, DecidingFrame("shop.pay", "f"))),
        (
            {"frames": [{"function": "__GI_raise"}, {"function": "abort"}, LIBRARY]},
            (None, None, DecidingFrame("lib.py", "g")),
        ),
        ({"frames": [{"function": "abort", "in_app": True}]}, (None, ":abort", DecidingFrame("", "abort"))),
        ({"type": "", "frames": None}, (None, None, None)),
        ({"type": 7, "frames": "x"}, (None, None, None)),
        ({"type": ["T"], "frames": [1, None, "f", {"file": 1, "function": [], "in_app": True}]}, (None, None, None)),
        ("T", (None, None, None)),
        (None, (None, None, None)),
    ],
)
def test_evidence_is_found_in_free_form(exception, expected):
    kind, frame, place = expected
    assert gather("m", {"exception": exception})._replace(third=None) == GroupingEvidence(kind, frame, "m", place)
    assert gather("m", None)._replace(third=None) == GroupingEvidence(None, None, "m")
    assert gather("m", None) == gather("m", {})


def test_a_client_s_fingerprint_is_bounded_and_seen_as_other_texts():
    evidence = gather("m", None, str.upper, ["x" * 300, *map(str, range(30))])
    assert evidence.client[0] == "X" * 200
    assert len(evidence.client) == 20


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
