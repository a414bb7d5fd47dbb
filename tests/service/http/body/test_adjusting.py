"""What is odd in telemetry is adjusted, the rest stays, and what cannot be adjusted is refused by its field (G-133)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.auth.refusals import InvalidPayload
from service.http.body.adjusting import CUT, MAX_NAMED, adjust
from service.http.body.gate import MAX_VALUES, Odd, check_body, check_values


def adjusted(text: str | bytes) -> tuple[Any, int, tuple[str, ...]]:
    raw, (count, places) = adjust(text.encode() if isinstance(text, str) else text)
    check_values(raw)
    return check_body(raw), count, places


def nested(depth: int, value: Any = 1) -> Any:
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("number", "stored"),
    [
        ("9007199254740992", "9007199254740992"),
        ("-9007199254740992", "-9007199254740992"),
        ("1e400", "1e400"),
        ("-1e999", "-1e999"),
        ("9" * 5000, "9" * 100),
        ("1" * 400 + ".5", "1" * 100),
        ("9007199254740991", 9007199254740991),
        ("1e308", 1e308),
        ("0.1", 0.1),
    ],
)
def test_numbers_that_are_not_taken_become_strings(number: str, stored: Any) -> None:
    odd = isinstance(stored, str)
    expected = {"a": {"b": [stored, 1]}}
    assert adjusted(f'{{"a": {{"b": [{number}, 1]}}}}') == (expected, int(odd), ("a.b[0]",) * odd)


def test_characters_that_are_not_taken_become_the_replacement_character() -> None:
    text = r'{"a\u0000": "x\ud800y\u0000", "b": "\ud83d\ude00 \\u0000", "c": ["\udc00\udc00"]}'
    value, count, places = adjusted(text)
    assert value == {"a�": "x�y�", "b": "\U0001f600 \\u0000", "c": ["��"]}
    assert (count, sorted(places)) == (3, ["a�", "a�", "c[0]"])


@pytest.mark.parametrize("depth", [64, 65, 66, 128, 129, 50_000])
def test_what_nests_too_deep_is_cut(depth: int) -> None:
    """The body's own object is the first level."""
    text = '{"a": ' + "[" * (depth - 1) + "1" + "]" * (depth - 1) + ', "b": "[{"}'
    value, count, places = adjusted(text)
    deep = depth > 64
    assert value == {"a": nested(63, CUT if deep else 1), "b": "[{"}
    assert (count, places) == (int(deep), ("a" + "[0]" * 63,) * deep)


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ({"m": "x", "extra": {str(n): n for n in range(26_000)}}, lambda found: found["extra"]),
        ({"m": "x", "extra": {"rows": [[n] for n in range(4_000)], "z": 1}}, lambda found: found["extra"]["rows"]),
        ({"m": "x", "extra": {"rows": list(range(100_000))}}, lambda found: found["extra"]["rows"]),
    ],
)
def test_of_too_many_values_those_nearest_to_the_top_stay(body: Any, kept: Any) -> None:
    raw = json.dumps(body).encode()
    with pytest.raises(Odd):
        check_values(raw)
    value, count, places = adjusted(raw)
    assert value["m"] == "x"
    assert count > 0
    assert len(places) == min(count, MAX_NAMED)
    sent, stayed = kept(body), kept(value)
    if isinstance(sent, dict):
        assert list(stayed.items()) == list(sent.items())[: len(stayed)]
    else:
        whole = [found for found in stayed if found != CUT]
        assert whole == sent[: len(whole)]
    assert 1_000 < count_values(value) <= MAX_VALUES


@pytest.mark.parametrize("many", [900, 2_000])
def test_of_what_lists_the_latest_last_the_end_stays(many: int) -> None:
    """The innermost frames of a deep recursion are whole, and in their order."""
    frames = [{"function": f"f{n}", "lineno": n, "in_app": True, "filename": "a.py", "x": 1} for n in range(many)]
    raw = json.dumps({"frames": frames, "rows": list(range(9))}).encode()
    found = json.loads(adjust(raw, "frames").raw)
    assert found["rows"] == list(range(9))
    whole = [frame for frame in found["frames"] if isinstance(frame, dict) and len(frame) == len(frames[0])]
    assert len(whole) > 400
    assert whole == frames[-len(whole) :]
    assert json.loads(adjust(raw).raw)["frames"][:9] == frames[:9]
    assert count_values(found) <= MAX_VALUES


def count_values(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count_values, inside))


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"a": {"b": 1, "c": [{"d": 1, "d": 2}]}, "n": 1e400}', "a.c[0].d"),
        (r'{"a": {"x\u0000": 1, "x�": 2}}', "a.x�"),
        ('{"a": 1e400, "a": 1}', "a"),
        ("{", ""),
        ("[1e400", ""),
        ("[1e400]]", ""),
        ("[NaN]", ""),
        ("[" * 70 + "}" + "]" * 69, ""),
        ("[" * 70 + "x" + "]" * 70, ""),
        ("[" * 70 + "{]" + "}" + "]" * 69, ""),
        ('["\n", 1e400]', ""),
        (b'["\xff", 1e400]', ""),
        (b"\xff\xfe[\x001\x00]\x00", ""),
    ],
)
def test_what_cannot_be_adjusted_is_refused_by_its_field(text: str | bytes, field: str) -> None:
    with pytest.raises(InvalidPayload) as refused:
        adjust(text.encode() if isinstance(text, str) else text)
    assert [fault["field"] for fault in refused.value.details["invalid_fields"]] == [field]


ODD_TEXT = st.text(alphabet='a�\x00\ud800\udc00\U0001f600"\\[', max_size=4)


class Number:
    """A number as it is written."""

    def __init__(self, text: str) -> None:
        self.text = text


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    ODD_TEXT,
    st.integers(-(2**60), 2**60).map(lambda number: Number(str(number))),
    st.sampled_from(["1e400", "-1e400", "1.5", "0", "-0.0", "1e-400"]).map(Number),
)
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ODD_TEXT, inner, max_size=4),
    max_leaves=20,
)


def spelt(value: Any) -> str:
    match value:
        case Number():
            return value.text
        case dict():
            return "{" + ",".join(f"{json.dumps(name)}: {spelt(item)}" for name, item in value.items()) + "}"
        case list():
            return "[ " + " ,".join(map(spelt, value)) + "]"
        case _:
            return json.dumps(value)


def expected(value: Any, levels: int = 64) -> Any:
    """The adjusted value by the plainest means. Raises KeyError when a member would be lost.

    What is cut has no members any more that could be equal.
    """
    match value:
        case dict() | list() if levels == 0:
            return CUT
        case Number():
            read = json.loads(value.text)
            fits = abs(read) <= 2**53 - 1 if isinstance(read, int) else abs(read) < float("inf")
            return read if fits else value.text
        case dict():
            members = {clean(name): expected(item, levels - 1) for name, item in value.items()}
            if len(members) < len(value):
                raise KeyError
            return members
        case list():
            return [expected(item, levels - 1) for item in value]
        case str():
            return clean(value)
        case _:
            return value


def clean(text: str) -> str:
    return "".join("�" if char == "\x00" or "\ud800" <= char <= "\udfff" else char for char in as_read(text))


def as_read(text: str) -> str:
    """A text as any JSON reader reads it: surrogates that stand beside each other are one character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@given(TREES, st.integers(0, 70))
@example([[{"\x00": None, "\ud800": None}]], 61)
@example([[{"\x00": None, "\ud800": None}]], 62)
@example([], 64)
def test_every_tree_is_adjusted_and_nothing_else(tree: Any, depth: int) -> None:
    """The plain model and the service agree, and a second time finds nothing to adjust."""
    whole = nested(depth, tree)
    text = spelt(whole)
    try:
        wanted = expected(whole)
    except KeyError:
        with pytest.raises(InvalidPayload):
            adjust(text.encode())
        return
    value, count, _ = adjusted(text)
    again, none, places = adjusted(json.dumps(value))
    assert (again, none, places) == (value, 0, ())
    assert value == wanted
    assert (count > 0) is (json.dumps(wanted) != json.dumps(plain(whole)))


def plain(value: Any) -> Any:
    """The value as a lenient reader has it."""
    return json.loads(spelt(value))
