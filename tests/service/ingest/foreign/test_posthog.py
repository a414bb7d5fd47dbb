"""Bodies and events of PostHog's SDKs, whatever is in them (G-142)."""

from __future__ import annotations

import json
from contextlib import nullcontext, suppress
from copy import deepcopy
from typing import Any
from urllib.parse import unquote_to_bytes

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.analytics import AnalyticsEvent
from schemas.cases.log import MAX_INGEST_BYTES, LogEvent
from service.ingest.foreign import posthog
from service.ingest.foreign.posthog import LEFT_OUT, MalformedEvents, Sent, cut, key_of, to_record
from tests.service.ingest.foreign.test_otlp_cut import memory_of
from tests.support.posthog import CAPTURED, EXCEPTION, form

ALONE = Sent("k", (), alone=True, each=True)
NAMES = ["$exception_list", "type", "value", "stacktrace", "frames", "lineno", "token", "$lib", "distinct_id", "x"]
JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**53) + 1, 2**53 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from(NAMES), inner, max_size=5)),
    max_leaves=12,
)
MEMBERS = st.sampled_from(["event", "distinct_id", "properties", "uuid", "timestamp", "api_key", "token", "$set"])


@given(members=st.dictionaries(MEMBERS, JSON, max_size=8), like=st.sampled_from([EXCEPTION, CAPTURED]))
def test_any_object_is_an_event_or_malformed(members: dict[str, Any], like: dict[str, Any]) -> None:
    """Members of other types than the documented ones are as if absent; what comes out is a record by its form."""
    try:
        record = to_record({**like, **members}, ALONE)
    except MalformedEvents:
        return
    if record is not None:
        decoded = msgspec.json.decode(record.raw, type=LogEvent if record.kind == "logs" else AnalyticsEvent)
        assert decoded == record.body


@given(
    properties=st.dictionaries(st.text(max_size=3), st.one_of(st.integers(0, 9), st.text(max_size=8)), max_size=30),
    room=st.integers(1, 300),
    most=st.integers(2, 25),
)
def test_what_fits_is_the_same_measured_at_once_or_one_by_one(properties: dict[str, Any], room: int, most: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(posthog, "MAX_INGEST_BYTES", posthog.ROOM_BESIDE + room)
        patched.setattr(posthog, "MAX_PROPERTIES", most)
        patched.setattr(posthog, "MAX_NAMED", 3)
        found = posthog._fitting(properties)
        assert list(found.items()) == list(posthog._one_by_one(properties, room).items())


@given(raw=st.one_of(st.binary(max_size=200), JSON.map(lambda value: json.dumps(value).encode())))
def test_any_bytes_are_a_body_or_malformed(raw: bytes) -> None:
    """No other error comes out, and the key is that of the body."""
    try:
        sent = cut(raw, 3)
    except MalformedEvents:
        return
    assert sent.key == key_of(raw)


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ({"api_key": "a", "batch": []}, "a"),
        ({"api_key": "a", "token": "a"}, "a"),
        ({"api_key": "a", "token": "b"}, None),
        ({"api_key": "a", "properties": {"token": "b"}}, "a"),
        ({"event": "e", "properties": {"token": "b"}}, "b"),
        ([{"properties": {"token": "b"}}, {"properties": {"token": "c"}}], "b"),
        ([], None),
        ({"api_key": 7}, None),
    ],
)
def test_where_the_key_is(body: Any, key: str | None) -> None:
    """As JSON, and in the forms that browsers send."""
    assert key_of(json.dumps(body).encode()) == key_of(form(body)) == key
    assert key_of(b"data=" + json.dumps(body).replace(" ", "+").encode()) == key


def test_what_does_not_fit_is_left_out() -> None:
    """An event is not lost to its size: it says what is missing."""
    record = to_record({**CAPTURED, "properties": {"small": 1, "large": "x" * 300_000, "last": 2}}, ALONE)
    assert record is not None
    assert isinstance(record.body, AnalyticsEvent)
    assert record.body.properties == {
        "small": 1,
        "last": 2,
        "$timestamp": CAPTURED["timestamp"],
        LEFT_OUT: ["large"],
    }
    assert len(record.raw) <= MAX_INGEST_BYTES


@pytest.mark.parametrize(("aside", "user"), [({}, None), ({"$device_id": "d"}, "u1")])
def test_a_name_made_up_for_one_event_is_nobody(aside: dict[str, str], user: str | None) -> None:
    """Else every exception of a process without persons would affect another one; a browser's is somebody."""
    properties = {**EXCEPTION["properties"], "$process_person_profile": False, **aside}
    record = to_record({**EXCEPTION, "properties": properties}, ALONE)
    assert record is not None
    assert isinstance(record.body, LogEvent)
    assert (record.body.user and record.body.user.id) == user


def test_an_old_form_of_exceptions() -> None:
    """One exception, by its type and message alone."""
    properties = {"$exception_type": "E", "$exception_message": "m"}
    record = to_record({"event": "$exception", "properties": properties}, ALONE)
    assert record is not None
    assert isinstance(record.body, LogEvent)
    assert record.body.extra is not None
    assert (record.body.message, record.body.extra["exception"]["type"]) == ("m", "E")


@pytest.mark.parametrize(
    ("raw", "is_json"),
    [
        (b"[" + b"0," * 2_000_000 + b"0]", True),
        (b'{"batch":[' + b"0," * 2_000_000 + b"0]}", True),
        (b"[" + b"0," * 2_000_000, False),
        (b"data=[" + b"%30," * 250_000, False),
        (b"data=" + b"%" * 500_000, False),
        (b'{"batch":["' + b"\\ud83c" * 600_000 + b'"' + b",0" * 1_000_000 + b"]}", True),
    ],
    ids=["list", "batch", "open", "escapes", "percents", "surrogates"],
)
def test_events_are_counted_before_they_are_cut_apart(raw: bytes, is_json: bool) -> None:
    """Who has shown no key yet has the body looked at for it, and for nothing else: here it took 260 to 780 MB."""

    def attempt() -> None:
        with nullcontext() if is_json else pytest.raises(MalformedEvents):
            assert key_of(raw) is None
        with suppress(MalformedEvents):
            assert len(cut(raw, 1000).events) == 1000

    _, most = memory_of(attempt)
    assert most < 3 * len(raw) + 8_000_000


@given(value=st.text(alphabet="%4aA+ ", max_size=40).map(str.encode), block=st.integers(3, 9))
def test_escapes_are_read_the_same_a_block_at_a_time(value: bytes, block: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(posthog, "_BLOCK", block)
        assert posthog._unescaped(value) == unquote_to_bytes(value)


def test_frames_keep_the_lines_around_theirs() -> None:
    """As posthog-python and posthog-node send them."""
    around = {"pre_context": ["def charge(card):"], "context_line": "    raise E", "post_context": ["", "x = 1"]}
    properties = deepcopy(EXCEPTION["properties"])
    properties["$exception_list"][0]["stacktrace"]["frames"][-1] |= around
    record = to_record({**EXCEPTION, "properties": properties}, ALONE)
    assert record is not None
    assert isinstance(record.body, LogEvent)
    assert record.body.extra is not None
    assert record.body.extra["exception"]["frames"][0].items() >= around.items()
