"""Wire contract of analytics queries: fields and aggregates by name, or one select for a provider (G-066, G-154)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.analytics.answer import Column, Evidence, Freshness
from schemas.analytics.blueprint import Limit
from schemas.kernel import patterns
from schemas.kernel.shape import Closed, SafeEpoch

MAX_KEY = 160
"""Characters of the key of a property or tag."""
MAX_IN = 100
MAX_SELECT, MAX_FILTERS, MAX_BY = 20, 20, 5
MAX_VALUE = 2000
MAX_QUERY = 20_000

FieldName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_KEY + len("properties."),
        description=(
            "Events: id, event, distinct_id, received_at, occurred_at, properties.<key>. Errors: id, case_id, "
            "fingerprint, level, environment, release, user_id, received_at, occurred_at, tags.<key>. Deploys: id, "
            "version, environment, sha, branch, source, trusted, automation_run_id, recorded_at. A key is whatever "
            "follows the first dot."
        ),
    ),
]
Alias = Annotated[str, Meta(pattern=patterns.COLUMN_NAME, description="Name of the column.")]
_SCALAR = {"anyOf": [{"type": "string", "maxLength": MAX_VALUE}, {"type": "number"}, {"type": "boolean"}]}
Value = Annotated[
    Any,
    Meta(
        description="A text, number or boolean. An array of them for `in`, a boolean for `exists`.",
        extra_json_schema={
            "anyOf": [*_SCALAR["anyOf"], {"type": "array", "items": _SCALAR, "minItems": 1, "maxItems": MAX_IN}]
        },
    ),
]
Operator = Literal["eq", "neq", "in", "gt", "gte", "lt", "lte", "exists", "contains"]


class SelectItem(Closed, frozen=True, kw_only=True, rename={"as_": "as"}):
    """A column: `field` alone, or `fn` with `as`. Without a field `count` counts rows, with one those that have it."""

    field: FieldName | UnsetType = UNSET
    fn: Literal["count", "unique"] | UnsetType = UNSET
    as_: Alias | UnsetType = UNSET


class Filter(Closed, frozen=True, kw_only=True):
    """A condition on one field. All conditions have to hold."""

    field: FieldName
    op: Operator
    value: Value


class Ordering(Closed, frozen=True, kw_only=True):
    """An order of the rows: by a column or a field. Rows that lack the value come last."""

    field: FieldName
    direction: Literal["asc", "desc"]


class QueryInput(Closed, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """Either `source` and `select` with all that belongs to them, or `query` alone: one select for the provider.

    The window is half-open: 30 days that end now unless `from` or `to` says otherwise, at most 366 days. It goes by
    `occurred_at`, of deploys by `recorded_at`, and of a provider's events by `received_at`.
    """

    source: Literal["events", "errors", "deploys"] | UnsetType = UNSET
    select: Annotated[list[SelectItem], Meta(min_length=1, max_length=MAX_SELECT)] | UnsetType = UNSET
    filters: Annotated[list[Filter], Meta(max_length=MAX_FILTERS)] | UnsetType = UNSET
    group_by: Annotated[list[FieldName], Meta(max_length=MAX_BY)] | UnsetType = UNSET
    order_by: Annotated[list[Ordering], Meta(max_length=MAX_BY)] | UnsetType = UNSET
    since: SafeEpoch | UnsetType = UNSET
    until: SafeEpoch | UnsetType = UNSET
    limit: Limit | UnsetType = UNSET
    query: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=MAX_QUERY,
                description=(
                    "One select over events, persons or sessions of the connected provider, in its dialect of SQL. At "
                    "most 1,000 rows come back."
                ),
            ),
        ]
        | UnsetType
    ) = UNSET


class QueryAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of a query and their basis. The window of a text is all time up to the read."""

    project_id: str
    rows: list[dict[str, Any]]
    columns: tuple[Column, ...]
    row_count: Annotated[int, Meta(ge=0)]
    truncated: bool
    evidence: Evidence
    freshness: Freshness
    next_action: str
