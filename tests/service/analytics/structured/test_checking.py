"""What a structured query may ask: every rule, and a reason at every member that breaks one (G-066, G-154)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.analytics import QueryInput
from service.analytics.structured.checking import Structured, check_form
from service.auth.refusals import InvalidPayload

FIELD = [{"field": "event"}]


def check(**body: Any) -> Structured | str:
    return check_form(msgspec.convert(body, QueryInput))


def faults(**body: Any) -> list[str]:
    """The members that are refused, in their order."""
    try:
        check(**body)
    except InvalidPayload as refused:
        return [*refused.details["missing_fields"], *(one["field"] for one in refused.details["invalid_fields"])]
    return []


@pytest.mark.parametrize(
    ("body", "members"),
    [
        ({}, ["source", "select"]),
        ({"source": "events"}, ["select"]),
        ({"select": FIELD}, ["source"]),
        ({"query": "select 1", "source": "events"}, ["query"]),
        ({"query": "select 1", "select": FIELD}, ["query"]),
        ({"query": "select 1", "limit": 1}, ["query"]),
        ({"query": "select 1", "from": 1}, ["query"]),
    ],
)
def test_a_body_has_exactly_one_of_two_forms(body: dict[str, Any], members: list[str]) -> None:
    assert faults(**body) == members
    assert check(query="select 1") == "select 1"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("events", ["id", "event", "distinct_id", "received_at", "properties.x", "properties.a.b", "properties. "]),
        ("events", ["properties.'; drop table events; --", 'properties."', "properties." + "k" * 160]),
        ("errors", ["id", "case_id", "fingerprint", "level", "environment", "release", "user_id", "received_at"]),
        ("errors", ["tags.x", "tags.a.b"]),
        ("deploys", ["id", "version", "environment", "sha", "branch", "source", "trusted", "automation_run_id"]),
        ("deploys", ["recorded_at"]),
    ],
)
def test_fields_have_their_names(source: str, names: list[str]) -> None:
    found = check(source=source, select=[{"field": name} for name in names])
    assert isinstance(found, Structured)
    assert [column.name for column in found.columns] == names


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("events", "project_id"),
        ("events", "properties"),
        ("events", "properties."),
        ("events", "Properties.x"),
        ("events", "tags.x"),
        ("events", "marker_hash"),
        ("events", "event; drop table events"),
        ("events", "properties." + "k" * 161),
        ("errors", "message"),
        ("errors", "extra"),
        ("errors", "extra.x"),
        ("errors", "user_data"),
        ("errors", "properties.x"),
        ("deploys", "message"),
        ("deploys", "credential_id"),
        ("deploys", "properties.x"),
        ("deploys", ""),
    ],
)
def test_nothing_else_is_a_field_anywhere(source: str, name: str) -> None:
    """Least of all the text of an error, or a project."""
    body = {
        "source": source,
        "select": [{"field": name}, {"fn": "unique", "field": name, "as": "n"}, {"fn": "count", "as": "m"}],
        "filters": [{"field": name, "op": "eq", "value": "x"}],
        "group_by": [name],
        "order_by": [{"field": name, "direction": "asc"}],
    }
    if not name or len(name) > 171:
        with pytest.raises(msgspec.ValidationError):
            check(**body)
        return
    assert faults(**body) == [
        "select[0].field", "select[1].field", "group_by[0]", "filters[0].field", "order_by[0].field",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "more",
    [
        {"select": []},
        {"select": FIELD * 21},
        {"filters": [{"field": "event", "op": "eq", "value": "x"}] * 21},
        {"group_by": ["id"] * 6},
        {"order_by": [{"field": "id", "direction": "asc"}] * 6},
        {"limit": 0},
        {"limit": 10_001},
        {"join": "events"},
        {"select": [{"field": "event", "having": 1}]},
        {"select": [{"fn": "sum", "field": "event", "as": "n"}]},
        {"select": [{"fn": "count", "as": "N"}]},
        {"select": [{"fn": "count", "as": "1n"}]},
        {"select": [{"fn": "count", "as": 'n"; drop table events'}]},
        {"select": [{"fn": "count", "as": "n" * 61}]},
        {"filters": [{"field": "event", "op": "like", "value": "x"}]},
        {"filters": [{"field": "event", "op": "eq"}]},
        {"filters": [{"field": "event", "op": "eq", "value": "x", "not": True}]},
        {"order_by": [{"field": "event", "direction": "up"}]},
        {"order_by": [{"field": "event"}]},
        {"source": "persons"},
        {"from": -1},
        {"query": ""},
        {"query": "x" * 20_001},
    ],
)
def test_the_shape_is_closed_and_bounded(more: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        check(**{"source": "events", "select": FIELD, **more})


def test_as_many_as_the_bounds_allow() -> None:
    found = check(
        source="events",
        select=[{"fn": "count", "as": f"n{number}"} for number in range(20)],
        filters=[{"field": "event", "op": "in", "value": ["x"] * 100}] * 20,
        group_by=["id", "event", "distinct_id", "received_at", "properties.x"],
        order_by=[{"field": f"n{number}", "direction": "desc"} for number in range(5)],
        limit=10_000,
    )
    assert isinstance(found, Structured)


@pytest.mark.parametrize(
    ("select", "members"),
    [
        ([{}], ["select[0]"]),
        ([{"field": "event", "as": "e"}], ["select[0].as"]),
        ([{"fn": "count"}], ["select[0].as"]),
        ([{"fn": "unique", "as": "n"}], ["select[0].field"]),
        ([{"fn": "count", "as": "results"}], ["select[0].as"]),
        ([{"field": "event"}, {"field": "event"}], ["select[1]"]),
        ([{"fn": "count", "as": "n"}, {"fn": "unique", "field": "event", "as": "n"}], ["select[1]"]),
        ([{"field": "event"}, {"fn": "count", "as": "event"}], ["select[1]", "select[0].field"]),
        ([{"field": "event"}, {"fn": "count", "as": "n"}], ["select[0].field"]),
    ],
)
def test_a_column_is_a_field_or_has_a_function_and_a_name_of_its_own(
    select: list[dict[str, Any]], members: list[str]
) -> None:
    assert faults(source="events", select=select) == members


def test_a_plain_field_of_groups_is_one_of_them() -> None:
    assert faults(source="events", select=[{"field": "event"}], group_by=["distinct_id"]) == ["select[0].field"]
    assert faults(source="events", select=[{"field": "event"}], group_by=["event"]) == []
    assert faults(source="events", select=[{"fn": "count", "as": "n"}], group_by=["event", "event"]) == ["group_by[1]"]
    same = [{"field": "properties.x"}, {"fn": "count", "as": "n"}]
    assert faults(source="events", select=same, group_by=["properties.x"]) == []
    assert faults(source="events", select=same, group_by=["properties.y"]) == ["select[0].field"]


def test_rows_are_ordered_by_what_a_row_has() -> None:
    counted = [{"field": "event"}, {"fn": "count", "as": "n"}]
    group = {"source": "events", "select": counted, "group_by": ["event", "distinct_id"]}
    for name in ("n", "event", "distinct_id"):
        assert faults(**group, order_by=[{"field": name, "direction": "asc"}]) == []
    assert faults(**group, order_by=[{"field": "received_at", "direction": "asc"}]) == ["order_by[0].field"]
    twice = [{"field": "n", "direction": "asc"}, {"field": "n", "direction": "desc"}]
    assert faults(**group, order_by=twice) == ["order_by[1]"]
    raw = {"source": "events", "select": FIELD}
    assert faults(**raw, order_by=[{"field": "properties.x", "direction": "asc"}]) == []
    assert faults(**raw, order_by=[{"field": "n", "direction": "asc"}]) == ["order_by[0].field"]


@pytest.mark.parametrize(
    ("field", "op", "value", "member"),
    [
        ("event", "eq", "x", None),
        ("event", "eq", None, "value"),
        ("event", "neq", None, "value"),
        ("event", "eq", 1, "value"),
        ("event", "eq", ["x"], "value"),
        ("event", "eq", {"x": 1}, "value"),
        ("event", "eq", "x" * 2001, "value"),
        ("event", "in", ["x"], None),
        ("event", "in", [], "value"),
        ("event", "in", ["x"] * 101, "value"),
        ("event", "in", "x", "value"),
        ("event", "in", ["x", 1], "value"),
        ("event", "in", ["x", None], "value"),
        ("event", "in", [["x"]], "value"),
        ("event", "gt", 1, "op"),
        ("event", "contains", "x", None),
        ("event", "contains", "", "value"),
        ("event", "contains", 1, "value"),
        ("event", "contains", "x" * 2001, "value"),
        ("event", "exists", True, None),
        ("event", "exists", "true", "value"),
        ("event", "exists", 1, "value"),
        ("received_at", "eq", 1, None),
        ("received_at", "eq", "1", "value"),
        ("received_at", "eq", True, "value"),
        ("received_at", "lte", 1.5, None),
        ("received_at", "lte", "1", "value"),
        ("received_at", "contains", "1", "op"),
        ("properties.x", "eq", "x", None),
        ("properties.x", "eq", 1.5, None),
        ("properties.x", "eq", False, None),
        ("properties.x", "eq", None, "value"),
        ("properties.x", "eq", [1], "value"),
        ("properties.x", "in", [1, "x", True], None),
        ("properties.x", "gt", 1, None),
        ("properties.x", "gt", "1", "value"),
        ("properties.x", "gt", True, "value"),
        ("properties.x", "gt", None, "value"),
        ("properties.x", "contains", "%", None),
        ("properties.x", "contains", 1, "value"),
        ("properties.x", "exists", None, "value"),
    ],
)
def test_an_operator_has_its_kind_of_value(field: str, op: str, value: Any, member: str | None) -> None:
    found = faults(source="events", select=FIELD, filters=[{"field": field, "op": op, "value": value}])
    assert found == ([] if member is None else [f"filters[0].{member}"])


def test_a_boolean_field_has_boolean_values() -> None:
    def of(op: str, value: Any) -> list[str]:
        return faults(
            source="deploys", select=[{"field": "id"}], filters=[{"field": "trusted", "op": op, "value": value}]
        )

    assert of("eq", True) == of("in", [True, False]) == of("exists", True) == []
    assert of("eq", "true") == of("eq", 1) == of("in", [1]) == ["filters[0].value"]
    assert of("gt", 1) == of("contains", "t") == ["filters[0].op"]
