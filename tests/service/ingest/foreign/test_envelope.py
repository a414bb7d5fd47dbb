"""Envelopes are taken apart as Sentry documents them, and whatever else comes is refused (G-142)."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.ingest.foreign.envelope import (
    MAX_HEADER,
    MAX_ITEMS,
    EnvelopeItem,
    EnvelopeReader,
    Header,
    MalformedEnvelope,
    TooManyEnvelopeItems,
)
from tests.support.sentry import parse

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
PAYLOADS = st.binary(max_size=60)
# An item without a length ends with its line.
LINES = PAYLOADS.map(lambda payload: payload.replace(b"\n", b" "))
ITEMS = st.one_of(st.tuples(NAMES, PAYLOADS, st.just(True)), st.tuples(NAMES, LINES, st.just(False)))


def write(items: list[tuple[str, bytes, bool]]) -> bytes:
    """Items that say their length, and items that do not."""
    lines = [b'{"event_id":"e"}']
    for name, payload, sized in items:
        lines += [json.dumps({"type": name, **({"length": len(payload)} if sized else {})}).encode(), payload]
    return b"\n".join(lines)


SIZES = st.lists(st.integers(0, 20), max_size=20)


@given(items=st.lists(ITEMS, max_size=6), end=st.sampled_from([b"\n", b"\n\n\n"]), sizes=SIZES)
def test_what_was_written_is_read(items: list[tuple[str, bytes, bool]], end: bytes, sizes: list[int]) -> None:
    """Lengths that are said and lengths that are not, payloads with and without line ends, empty lines at the end.

    However the text is cut into pieces on its way.
    """
    read = parse(write(items) + end, sizes)
    assert read.header == Header(event_id="e")
    assert read.items == [EnvelopeItem(name, len(payload), payload) for name, payload, _ in items]


def test_what_is_not_wanted_is_passed_over() -> None:
    """Of an envelope of any size no more is kept than what is wanted, and of that no more than is said."""
    attachment, event = b"x" * 3_000_000, b"{" + b" " * 100_000 + b"}"
    raw = write([("attachment", attachment, True), ("event", event, True), ("log", attachment, False)])
    for most, kept in ((len(event), event), (len(event) - 1, None)):
        reader = EnvelopeReader({"event": most}.get)
        for at in range(0, len(raw), 65_536):
            reader.feed(raw[at : at + 65_536])
            assert len(reader._pieces.text) <= 65_536 + most
        reader.end()
        assert [(item.type, item.size, item.payload) for item in reader.items] == [
            ("attachment", len(attachment), None),
            ("event", len(event), kept),
            ("log", len(attachment), None),
        ]


@given(items=st.lists(ITEMS, min_size=1, max_size=4), data=st.data())
def test_whatever_comes_is_read_or_refused(items: list[tuple[str, bytes, bool]], data: st.DataObject) -> None:
    """Envelopes that are cut short, and envelopes with a piece replaced: no other error ever comes out."""
    raw = write(items)
    at = data.draw(st.integers(0, len(raw)))
    for broken in (raw[:at], raw[:at] + data.draw(PAYLOADS) + raw[at + 1 :], data.draw(PAYLOADS)):
        with suppress(MalformedEnvelope, TooManyEnvelopeItems):
            parse(broken, data.draw(SIZES))


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        (b"", "the envelope"),
        (b"[]", "the envelope"),
        (b"{", "the envelope"),
        (b'{"dsn":1}', "the envelope"),
        (b"{" + b" " * MAX_HEADER + b"}", "the envelope"),
        (b'{}\n{"type":"event"}\n{}\nnonsense\n', "item 1"),
        (b'{}\n{"length":3}\n{}\n', "item 0"),
        (b'{}\n{"type":"event","length":-1}\n{}', "item 0"),
        (b'{}\n{"type":"event","length":3}\n{}', "item 0"),
        (b'{}\n{"type":"event","length":1}\n{}', "item 0"),
        (b'{}\n{"type":"event","length":99999999999999999999}\n{}', "item 0"),
        (b"{}\n" + b"[" * 9000, "item 0"),
    ],
)
def test_what_is_no_envelope(raw: bytes, names: str) -> None:
    """Is refused with the item at fault."""
    with pytest.raises(MalformedEnvelope, match=names):
        parse(raw)


def test_a_million_items() -> None:
    """Are given up at the first one too many."""
    item = b'{"type":"session"}\n{}\n'
    assert len(parse(b"{}\n" + item * MAX_ITEMS).items) == MAX_ITEMS
    with pytest.raises(TooManyEnvelopeItems):
        parse(b"{}\n" + item * 1_000_000)
    with pytest.raises(TooManyEnvelopeItems):
        parse(b"{}\n" + item * 1_000_000, [100] * 1000)
