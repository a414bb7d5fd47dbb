"""A text with lone surrogates is decoded as one with NUL in their place, and any other as it is (G-175)."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.ingest.foreign.common import FAULTS, decode_any, without_lone

pieces = st.sampled_from(
    ["\ud83c", "\udf89", "\ud83c\udf89", "\\", '"', "u0000", "\\ud83c", "a", "é", "\n", "\ud7ff", "\ue000"]
)


def expected(text: str) -> str:
    """The text with NUL for what is no half of a pair, by Python's own reading of UTF-16."""
    paired = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return "".join("\0" if "\ud800" <= sign <= "\udfff" else sign for sign in paired)


@given(st.lists(pieces).map("".join))
@example("\ud83c\ud83c\udf89")
@example("\\\ud83c")
def test_lone_ones_become_nul_and_nothing_else_changes(text: str) -> None:
    for written in (json.dumps(text), json.dumps(text).replace("\\ud", "\\uD")):
        raw = written.encode()
        assert json.loads(without_lone(raw)) == expected(json.loads(written))
        assert len(without_lone(raw)) == len(raw)
        assert decode_any(msgspec.json.decode, raw) == expected(json.loads(written))


@given(st.binary(max_size=40), st.lists(st.sampled_from([b"\\", b"u", b"\\ud8", b"\\ud83c", b"\\udc00", b'"'])))
def test_what_is_no_json_stays_that(noise: bytes, parts: list[bytes]) -> None:
    """No other error is raised, and nothing that was no JSON is decoded but for its surrogates."""
    raw = noise + b"".join(parts)
    assert len(without_lone(raw)) == len(raw)
    try:
        json.loads(raw)
    except ValueError:
        with pytest.raises(FAULTS):
            decode_any(msgspec.json.decode, raw)
