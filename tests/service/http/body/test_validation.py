"""A refused body is explained completely and repeats nothing of what was sent."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Meta, inspect

from schemas.kernel.patterns import form, words_for
from service.http.body import validation
from service.http.body.validation import MAX_FAULTS, MAX_LOOKED_AT, explain_body
from service.http.edge.routes import all_endpoints, bind
from tests.service.http.edge.toy_api import THING, Toy
from tests.support import few_or_many


class Cat(msgspec.Struct, tag_field="kind", tag="cat", forbid_unknown_fields=True):
    lives: Annotated[int, Meta(ge=1, le=9)]


class Dog(msgspec.Struct, tag_field="kind", tag="dog", forbid_unknown_fields=True):
    name: Annotated[str, Meta(min_length=1, max_length=5, pattern=form("[a-z]+", "of lower-case letters"))]


class Inner(msgspec.Struct, forbid_unknown_fields=True):
    flag: bool
    ratio: Annotated[float, Meta(gt=0, lt=1)] = 0.5


class Loose(msgspec.Struct):
    id: str


class Wide(msgspec.Struct, forbid_unknown_fields=True):
    pet: Cat | Dog
    inner: Inner | None
    tags: Annotated[dict[str, Annotated[str, Meta(max_length=3)]], Meta(max_length=2)] = {}
    numbers: Annotated[list[int], Meta(min_length=1, max_length=3)] | None = None
    mode: Literal["a", "b"] = "a"
    either: int | str | None = None
    loose: Loose | None = None
    anything: Any = None
    renamed: int = msgspec.field(name="re-named", default=1)


WIDE = inspect.type_info(Wide)


def faults(value: Any) -> dict[str, Any] | None:
    """The details for a value, or None when it is acceptable."""
    raw = msgspec.json.encode(value)
    try:
        msgspec.json.decode(raw, type=Wide)
    except msgspec.ValidationError as error:
        details = explain_body(msgspec.json.decode(raw), WIDE, error, {"a": "schema"}).details
        return {
            "missing": details["missing_fields"],
            "invalid": {fault["field"]: fault["reason"] for fault in details["invalid_fields"]},
            "unknown": details["unknown_fields"],
        }
    return None


GOOD: dict[str, Any] = {"pet": {"kind": "cat", "lives": 9}, "inner": None}


@pytest.mark.parametrize(
    ("change", "missing", "invalid", "unknown"),
    [
        ({"pet": {"kind": "cat"}, "inner": {}}, ["pet.lives", "inner.flag"], {}, []),
        ({"extra": 1, "pet": {"kind": "dog", "name": "rex", "tail": 1}}, [], {}, ["extra", "pet.tail"]),
        ({"pet": {"kind": "cow"}}, [], {"pet.kind": "must be one of cat, dog"}, []),
        ({"pet": {"kind": ["cow"]}}, [], {"pet.kind": "must be one of cat, dog"}, []),
        ({"pet": {"lives": 1}}, ["pet.kind"], {}, []),
        ({"pet": 3}, [], {"pet": "must be an object or an object"}, []),
        ({"pet": {"kind": "cat", "lives": 10}}, [], {"pet.lives": "must be an integer at least 1 and at most 9"}, []),
        (
            {"pet": {"kind": "dog", "name": "REX"}},
            [],
            {"pet.name": "must be a string of 1 to 5 characters, of lower-case letters"},
            [],
        ),
        (
            {"inner": {"flag": 1, "ratio": 1}},
            [],
            {"inner.flag": "must be true or false", "inner.ratio": "must be a number above 0 and below 1"},
            [],
        ),
        (
            {"tags": {"a": "long!", "b": 1}},
            [],
            {
                "tags.a": "must be a string of at most 3 characters",
                "tags.b": "must be a string of at most 3 characters",
            },
            [],
        ),
        ({"tags": {"a": "", "b": "", "c": ""}}, [], {"tags": "must be an object of at most 2 members"}, []),
        ({"numbers": []}, [], {"numbers": "must be an array of 1 to 3 items"}, []),
        ({"numbers": [1, True, "2"]}, [], {"numbers[1]": "must be an integer", "numbers[2]": "must be an integer"}, []),
        ({"mode": "c"}, [], {"mode": "must be one of a, b"}, []),
        ({"either": 1.5}, [], {"either": "must be an integer or a string or null"}, []),
        ({"re-named": "x"}, [], {"re-named": "must be an integer"}, []),
        ({"loose": {"id": "a", "more": 1}, "mode": 1}, [], {"mode": "must be one of a, b"}, []),
    ],
)
def test_every_fault_is_named(
    change: dict[str, Any], missing: list[str], invalid: dict[str, str], unknown: list[str]
) -> None:
    """All missing, unacceptable and unknown members at every level, by path (R-ERR-06, R-ERR-16)."""
    assert faults({**GOOD, **change}) == {"missing": missing, "invalid": invalid, "unknown": unknown}


def test_faults_come_together() -> None:
    """One refusal names faults of every sort at once."""
    found = faults({"inner": {"ratio": "x"}, "mode": "z", "x": 1, "y": 2})
    assert found == {
        "missing": ["pet", "inner.flag"],
        "invalid": {"inner.ratio": "must be a number above 0 and below 1", "mode": "must be one of a, b"},
        "unknown": ["x", "y"],
    }


def test_the_number_of_faults_is_bounded() -> None:
    """A thousand unknown members do not make a thousand lines."""
    found = faults({**GOOD, **{f"u{number}": 1 for number in range(1000)}})
    assert found is not None
    assert len(found["unknown"]) == MAX_FAULTS


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 15) | st.floats(0, 2) | st.text("abXcatdog", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["kind", "lives", "name", "flag", "ratio", "id", "x"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@few_or_many(80, 1000)
@given(st.dictionaries(st.sampled_from([*Wide.__struct_encode_fields__, "x"]), JSON, max_size=6))
def test_what_the_decoder_refuses_is_explained(value: dict[str, Any]) -> None:
    """Every refusal names at least one fault, and never by the decoder's own words."""
    found = faults(value)
    if found is not None:
        assert found["missing"] or found["invalid"] or found["unknown"]
        assert all(reason.startswith("must ") for reason in found["invalid"].values())


async def test_the_whole_answer(toy: Toy) -> None:
    """Details have their four members, the schema is the operation's, and no value of the caller's is repeated."""
    body = {
        "name": "hunter2" * 9,
        "items": [{"count": 0, "label": "hunter2"}, {"size": 1}],
        "mode": "hunter2",
        "odd": 1,
    }
    answer = await toy.send_as("owner", "POST", "/v1/things", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["retryable"]) == (400, "invalid_payload", False)
    details = error["details"]
    assert details["missing_fields"] == ["items[1].count"]
    assert details["unknown_fields"] == ["odd", "items[1].size"]
    assert {fault["field"] for fault in details["invalid_fields"]} == {
        "name",
        "items[0].count",
        "items[0].label",
        "mode",
    }
    schema = details["request_body_schema"]
    assert schema["required"] == ["name", "items"]
    items = schema["properties"]["items"]["items"]
    assert items["properties"]["count"] == {"type": "integer", "minimum": 1, "maximum": 10}
    assert "$ref" not in answer.text
    assert "hunter2" not in answer.text


@pytest.mark.parametrize("body", [b"[]", b"1", b'"x"', b"null", b"{", b"\xff"])
async def test_bodies_that_are_no_object(toy: Toy, body: bytes) -> None:
    """Also then the schema is shown."""
    headers = {"content-type": "application/json"}
    answer = await toy.send_as("owner", "POST", "/v1/things", content=body, headers=headers)
    details = answer.json()["error"]["details"]
    assert answer.status_code == 400
    assert details["invalid_fields"][0]["field"] == ""
    assert details["request_body_schema"]


async def test_absent_body_misses_what_is_required(toy: Toy) -> None:
    """An absent body equals `{}`, whose missing members are named (G-003)."""
    answer = await toy.send_as("owner", "POST", "/v1/things")
    assert answer.json()["error"]["details"]["missing_fields"] == list(THING)


async def test_whole_numbers_are_integers(toy: Toy) -> None:
    """7.0 and 7e0 are 7, as JSON Schema has it; 7.5 is not."""
    headers = {"content-type": "application/json"}
    for number, status in ((b"7.0", 201), (b"7e0", 201), (b"70e-1", 201), (b"7.5", 400), (b"1e300", 400)):
        body = b'{"name": "one", "items": [{"count": ' + number + b"}]}"
        answer = await toy.send_as("owner", "POST", "/v1/things", content=body, headers=headers)
        assert answer.status_code == status, answer.text
        if status == 201:
            assert answer.json()["items"] == [{"count": 7, "label": "x"}]


def patterns_in(part: Any) -> set[str]:
    """Every pattern of a JSON Schema."""
    if isinstance(part, dict):
        own = {part["pattern"]} if isinstance(part.get("pattern"), str) else set()
        return own.union(*map(patterns_in, part.values()))
    return set().union(*map(patterns_in, part)) if isinstance(part, list) else set()


def test_every_pattern_of_a_request_has_words() -> None:
    """No refusal shows a regular expression, and none has to fall back on the schema."""
    bound = bind(all_endpoints())
    types = [b.body_type for b in bound if b.takes_body and not b.raw_body]
    types += [b.operation.query for b in bound if b.operation.query is not None]
    found = patterns_in(msgspec.json.schema_components(types)[1])
    assert len(found) > 10
    assert [pattern for pattern in found if words_for(pattern).endswith("the schema shows")] == []


def test_of_very_many_faults_the_first_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body may be wrong in a hundred thousand places: the look for more ends, and the refusal stays short (P25)."""
    looked = 0
    find = validation.find_faults

    def counted(*args: Any) -> Any:
        nonlocal looked
        for fault in find(*args):
            looked += 1
            yield fault

    monkeypatch.setattr(validation, "find_faults", counted)
    found = faults({**GOOD, "tags": {f"{number}": "too long" for number in range(100_000)}})
    assert found is not None
    assert len(found["invalid"]) == MAX_FAULTS
    assert looked == MAX_LOOKED_AT
