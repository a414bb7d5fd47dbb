"""What a large record says is kept whole, and taken apart within bounds."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.packing import LARGEST, PACKED_FROM, pack, unpack, unpacked_size, zstd
from tests.support.ingest import analytics_item, log_item, prepared

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
)


@given(st.dictionaries(st.text(max_size=9), VALUES, max_size=4))
def test_what_was_packed_is_all_there(value):
    padded = value | {"padding": "x" * PACKED_FROM}
    packed = pack(padded)
    assert packed is not None
    assert unpack(packed) == padded
    assert unpacked_size(packed) == len(msgspec.json.encode(padded))
    assert pack({"a": 1}) is None


def test_what_is_small_or_marked_stays_as_it_is():
    """A record with a proof marker is looked into by the database (G-085)."""
    large = {"text": "x" * 2000}
    assert prepared(log_item(extra={"text": "x" * 100})).row.packed is None
    assert prepared(log_item("m" * 2000, extra={"a": 1})).row.extra == {"a": 1}
    marked = prepared(log_item(extra=large, tags={"service_onboarding_proof": "sop"}))
    assert marked.row.packed is None
    assert marked.row.marker_hash is not None
    row = prepared(log_item(extra=large)).row
    assert (row.extra, unpack(row.packed)) == ({}, large)
    assert prepared(analytics_item(**large)).row.properties == large


@pytest.mark.parametrize(
    "packed",
    [
        b"",
        b"{}",
        zstd.compress(b"x" * (LARGEST + 1)),
        zstd.compress(b"{}", options={zstd.CompressionParameter.content_size_flag: 0}),
        zstd.compress(b"{"),
        zstd.compress(b"{}")[:-1],
    ],
)
def test_nothing_else_is_unpacked(packed):
    with pytest.raises((zstd.ZstdError, msgspec.DecodeError)):
        unpack(packed)
