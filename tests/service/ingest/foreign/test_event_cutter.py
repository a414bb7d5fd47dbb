"""A body of events that arrives in pieces is cut as one that is there whole (G-206)."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from typing import Any
from urllib.parse import quote_plus

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.ingest.foreign.event_cutter import EventCutter, FormText
from service.ingest.foreign.posthog import MalformedEvents, Sent, cut
from tests.support.posthog import CAPTURED, EXCEPTION

LARGEST = 4000
TEXTS = st.text(st.sampled_from('a"\\{}[],: \u00e9\u0000'), max_size=8)
VALUES: Any = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(-9, 9), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=6,
)
EVENTS = st.one_of(
    st.sampled_from([CAPTURED, EXCEPTION]), st.builds(lambda text: {"event": text, "properties": {"x": text}}, TEXTS)
)
BESIDE = st.dictionaries(st.sampled_from(["sentAt", "historical_migration", "x", "properties"]), VALUES, max_size=3)
SIZES = st.lists(st.integers(1, 40), max_size=30)


@st.composite
def bodies(draw: st.DrawFn) -> Any:
    """Bodies as SDKs write them: the key before the events, behind them, or in each."""
    events = draw(st.lists(EVENTS, max_size=4))
    kind = draw(st.sampled_from(["batch", "list", "alone"]))
    if kind == "list":
        return [{**event, "token": "k"} for event in events]
    key = draw(st.sampled_from([{"api_key": "k"}, {"token": "k"}, {"api_key": "k", "token": "other"}, {}]))
    beside = draw(BESIDE)
    if kind == "alone":
        return {**beside, **draw(EVENTS), **key}
    members = draw(st.permutations([*key.items(), *beside.items(), ("batch", events)]))
    return dict(members)


def read(raw: bytes, sizes: list[int], most: int = 100, largest: int = LARGEST) -> Sent:
    """Cut a body that comes in pieces of so many bytes, and the rest in one."""
    form, cutter, at = FormText(), EventCutter(most, largest), 0
    events: list[bytes | None] = []
    for size in sizes:
        cutter.feed(form.feed(raw[at : at + size]))
        events += cutter.take()
        at += size
    cutter.feed(form.feed(raw[at:]))
    cutter.feed(form.feed(b"", last=True))
    cutter.end()
    assert cutter.sent is not None
    events += cutter.take()
    assert cutter.count == len(events)
    return cutter.sent._replace(events=events, more=cutter.more)  # type: ignore[arg-type]


def plain(sent: Sent) -> tuple[Any, ...]:
    return sent.key, sent.alone, sent.each, sent.more, [msgspec.json.decode(event) for event in sent.events]


@given(body=bodies(), sizes=SIZES, indent=st.sampled_from([None, 1]), form=st.sampled_from(["", "base64", "text"]))
def test_pieces_are_cut_as_the_whole(body: Any, sizes: list[int], indent: int | None, form: str) -> None:
    """Wherever the pieces end: in an escape, in a number, in a quartet of base64."""
    raw = json.dumps(body, indent=indent).encode()
    if form:
        raw = b"data=" + quote_plus(base64.b64encode(raw) if form == "base64" else raw).encode() + b"&x=1"
    assert plain(read(raw, sizes)) == plain(cut(raw, 100))


@given(body=bodies(), sizes=SIZES, data=st.data())
def test_what_is_no_body_is_refused_or_cut(body: Any, sizes: list[int], data: st.DataObject) -> None:
    """Cut short or changed anywhere: no other error ever comes out, and what was cut stays within its bounds."""
    raw = json.dumps(body).encode()
    at = data.draw(st.integers(0, len(raw)))
    for broken in (raw[:at], raw[:at] + data.draw(st.binary(max_size=4)) + raw[at + 1 :]):
        with suppress(MalformedEvents):
            assert all(event is None or len(event) <= 60 for event in read(broken, sizes, most=3, largest=60).events)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"7",
        b"nonsense",
        b'{"batch": 7}',
        b'{"batch": [], "batch": []}',
        b'{"batch": [{}] "x": 1}',
        b'{"batch": [{} {}]}',
        b'{"batch": [{},]}',
        b'{"batch": [{}',
        b'{"batch": [{}]} {}',
        b'[{"a": "b}]',
        b"[{}",
        b'{"a" 1}',
        b"{1: 2}",
        b"data=%25%25",
        b"data=eyJhIjoxfQ==eyJh",
    ],
)
def test_what_is_no_body_of_events(raw: bytes) -> None:
    """Whole and in pieces."""
    for sizes in ([], [1] * len(raw), [7] * 3):
        with pytest.raises(MalformedEvents):
            read(raw, sizes)


def test_events_too_many_and_too_large() -> None:
    """The first so many are cut and no other, whose end is found all the same; a large one costs no other."""
    raw = json.dumps({"batch": [{"n": 1}, {"x": "y" * 5000}, {"n": 2}, *[[0, "]"]] * 9], "api_key": "k"}).encode()
    for sizes in ([], [100] * 60):
        sent = read(raw, sizes, most=3)
        assert (sent.key, sent.more, list(sent.events)) == ("k", True, [b'{"n": 1}', None, b'{"n": 2}'])


def test_nothing_is_kept_that_was_cut() -> None:
    """However large a body is, and whatever stands beside its events: a piece, and what an event may have."""
    cutter = EventCutter(10_000, LARGEST, counts=True)
    body = {"x": "y" * 300_000, "batch": [{"a": "b" * 300_000}] * 9, "deep": "[" * 300_000, "token": "k"}
    raw = json.dumps(body).encode()
    for at in range(0, len(raw), 1000):
        cutter.feed(raw[at : at + 1000])
        assert len(cutter._pieces.text) <= LARGEST + 2000
        assert sum(map(len, cutter._whole or ())) <= 2 * LARGEST
    cutter.end()
    assert (cutter.sent, cutter.count) == (Sent("k", ()), 9)
