"""The body gate agrees with a slow tokenizer on every text, and takes long over none."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.auth.refusals import InvalidPayload
from service.http.body import gate as body_gate
from service.http.body.gate import check_body, check_written
from tests.service.http.edge import slow_json
from tests.support import few_or_many

NAMES = st.text(alphabet='ab:\\"u0d{[é\U0001f600', max_size=4)
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53) - 2, 2**53 + 2),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    NAMES,
)


class Pairs(list[tuple[str, Any]]):
    """An object whose members may repeat a name."""


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.lists(st.tuples(NAMES, inner), max_size=4).map(Pairs)


VALUES = st.recursive(LEAVES, containers, max_leaves=20)


def write(value: Any, draw: Callable[[st.SearchStrategy[Any]], Any]) -> str:
    """Spell a value as JSON, choosing escapes and white space at random."""
    if isinstance(value, Pairs):
        space = draw(st.sampled_from(["", " ", "\n"]))
        return "{" + ",".join(f"{spell(k, draw)}{space}:{space}{write(v, draw)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(write(item, draw) for item in value) + "]"
    return spell(value, draw) if isinstance(value, str) else json.dumps(value)


def spell(text: str, draw: Callable[[st.SearchStrategy[Any]], Any]) -> str:
    style = draw(st.integers(0, 2))
    if style == 0:
        return json.dumps(text, ensure_ascii=False)
    if style == 1:
        return json.dumps(text)
    return '"' + "".join(json.dumps(char)[1:-1] if ord(char) > 0xFFFF else f"\\u{ord(char):04x}" for char in text) + '"'


@st.composite
def texts(draw: Any) -> bytes:
    """JSON texts, some of them damaged by an inserted, changed or dropped byte."""
    raw = bytearray(write(draw(VALUES), draw).encode())
    for _ in range(draw(st.integers(0, 2))):
        where = draw(st.integers(0, len(raw)))
        how = draw(st.sampled_from(["drop", "insert"]))
        if how == "drop":
            del raw[where : where + 1]
        else:
            raw[where:where] = draw(st.sampled_from(NASTY))
    return bytes(raw)


NASTY = [
    b"\x00",
    b'"',
    b"\\",
    b"\\u0000",
    b"\\\\u0000",
    b"\\u003a",
    b"\\\\u003a",
    b"\\ud800",
    b"\\udc00",
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"{",
    b"]",
    b",",
    b":",
    b"9007199254740992",
    b"0",
    b"1e400",
    b"NaN",
    b"-",
    b".",
    b"/",
    b"\n",
    b"\x7f",
]


def judge(raw: bytes) -> tuple[bool, Any]:
    try:
        return True, slow_json.read(raw)
    except slow_json.Unacceptable:
        return False, None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a":1,"\\u0061":2}', "a"),
        ('{"x":{"y":[0,{"n":1,"n":{}}]},"z":{}}', "x.y[1].n"),
        ('[[{"a":{"b":1,"b":2}}]]', "[0][0].a.b"),
        ('{"a":{"b":1,"b":2},"c":1,"c":2}', "c"),
        ('{"a":{"b":1,"b":2},"a":1}', "a"),
        ('{"' + "n" * 1000 + '":1,"' + "n" * 1000 + '":1}', "n" * 200),
    ],
)
def test_a_member_that_is_there_twice_is_named(text: str, place: str) -> None:
    with pytest.raises(InvalidPayload) as refused:
        check_body(text.encode())
    assert refused.value.details["invalid_fields"] == [
        {"field": place, "reason": "must not be named twice in one object"}
    ]


@few_or_many(100, 1500)
@given(texts() | st.binary(max_size=60) | st.text(alphabet='{}[]":,\\u0031eE+-. tfn', max_size=30).map(str.encode))
@example(b'{"a":1,"\\u0061":2}')
@example(b'{"a:":1,"b":2}')
@example(b'{"\\u003a":1,"\\u003a":2}')
@example(b'{"\\\\u003a":1}')
@example(b'{"a":"\\\\u0000"}')
@example(b'{"a":"\\\\\\u0000"}')
@example(b"[9007199254740991,-9007199254740991]")
@example(b"[9007199254740992]")
@example(b"[-9007199254740992]")
@example(b'["9007199254740992"]')
@example(b"[9007199254740992.0]")
@example(b"[1e400]")
@example(b"1" * 5000)
@example(b"[1." + b"1" * 5000 + b"]")
@example(b"[" * 64 + b"]" * 64)
@example(b"[" * 65 + b"]" * 65)
@example(b'{"a":' * 64 + b"1" + b"}" * 64)
@example(b'{"a":[' * 33 + b"1" + b"]}" * 33)
@example(b"[" * 100_000)
@example(b'{"a":' * 50_000)
@example(b'["' + b"[" * 1000 + b'"]')
@example(b"[" + b"[]," * 1000 + b"[]]")
def test_gate_agrees_with_the_slow_reader(raw: bytes) -> None:
    """A text passes exactly when the slow reader accepts it, and has the same value."""
    accepted, value = judge(raw)
    if accepted:
        passed = check_body(raw)
        assert passed == value
        assert json.dumps(passed) == json.dumps(value)
    else:
        with pytest.raises(InvalidPayload):
            check_body(raw)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"[" * 65 + b"]" * 65, "nested"),
        (b"[9007199254740992]", "integers"),
        (b'"\\u0000"', "NUL"),
        (b'"\xff"', "UTF-8"),
        (b"{", "well-formed"),
        (b'{"a":1,"a":1}', "twice"),
    ],
)
def test_refusal_says_what_is_wrong(raw: bytes, reason: str) -> None:
    """Each fault has its own reason, made of no value of the body."""
    with pytest.raises(InvalidPayload) as refused:
        check_body(raw)
    [fault] = refused.value.details["invalid_fields"]
    assert reason in fault["reason"]


@pytest.mark.parametrize(
    "raw",
    [
        b"[" * 1_048_576,
        b"[]" * 524_288,
        b'"' * 1_048_576,
        b'"' + b"\\" * 1_048_574 + b'"',
        b'["' + b'\\"' * 500_000 + b'"]',
        b"[" + b"9" * 1_000_000 + b"]",
        b"[" + b"-" * 1_000_000 + b"]",
        b"[" + b"1e" * 500_000 + b"]",
        b'{"a":"' + b"\\\\" * 500_000 + b'\\u0000"}',
        b"[" + b"[" * 60 + b"]" * 60 + (b",[" + b"[" * 60 + b"]" * 60 + b"]") * 8000 + b"]",
    ],
)
@pytest.mark.timeout(30)
def test_no_text_takes_long(raw: bytes) -> None:
    """The largest hostile bodies are judged in a fraction of a second; beyond linear time they would take hours."""
    with contextlib.suppress(InvalidPayload):
        check_body(raw)


WRITTEN = st.recursive(
    LEAVES | st.text(st.sampled_from('0:,["\\x00é'), max_size=20) | st.integers(10**14, 10**17).map(str),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)


@given(WRITTEN, st.integers(0, 70))
@example(2**53, 0)
@example([-(2**53)], 0)
@example({"a": 2**53 - 1}, 0)
@example("\x00", 0)
def test_what_was_written_here_is_judged_alike(value: Any, depth: int) -> None:
    """The shorter look says what the long one says of every text of our own encoder."""
    for _ in range(depth):
        value = [value]
    try:
        raw = msgspec.json.encode({"a": value})  # A record is an object.
    except OverflowError:
        return
    verdicts = []
    for check in (check_body, check_written):
        try:
            check(raw)
            verdicts.append(None)
        except InvalidPayload as refusal:
            verdicts.append(refusal.details["invalid_fields"])
    assert verdicts[0] == verdicts[1]


@given(raw=st.binary(max_size=30) | st.text(alphabet='"[a', max_size=30).map(str.encode), block=st.integers(1, 9))
def test_what_is_outside_of_quotes_is_the_same_a_block_at_a_time(raw: bytes, block: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(body_gate, "_BLOCK", block)
        assert body_gate._outside_quotes(raw) == b"".join(raw.split(b'"')[::2])
