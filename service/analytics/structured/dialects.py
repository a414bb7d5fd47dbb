"""How the parts of a structured query are written: in SQL over our own views, and in the provider's dialect (G-032).

Both say the same. Callers' texts never stand in a statement: they are values of its places. Null counts as absent. A
JSON value is compared with its type, so "1" and 1 differ. `gt` … `lte` compare numbers alone.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Literal, Protocol

import msgspec

from schemas.analytics import Operator
from service.analytics.bounded import REACH, Source
from service.analytics.structured.checking import Condition, Scalar
from service.analytics.structured.fields import FIELDS, KEYED, TIME, Field
from service.sql import load_query

COMPARED: Final[Mapping[Operator, str]] = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
MOST_BYTES: Final = 4 * 1024 * 1024
"""Bytes of the values of all rows, as PostgreSQL writes them. Rows beyond are cut off."""


class Places:
    """The values of a statement by the names of their places. Equal values of one cast share a place."""

    def __init__(self, prefix: str) -> None:
        self.values: dict[str, Any] = {}
        self._prefix = prefix
        self._names: dict[tuple[str, str, str], str] = {}

    def name(self, value: Any, cast: str = "") -> str:
        """Name the place of a value. A place has one type, that of its first cast."""
        known = (type(value).__name__, repr(value), cast)
        name = self._names.setdefault(known, f"{self._prefix}{len(self._names)}")
        self.values[name] = value
        return name


class Dialect(Protocol):
    """One way of writing. The records have the alias e. `name` is the column of a field there."""

    prefix: str

    def records(self, source: Source, keys: Mapping[str, str], places: Places) -> str:
        """The records of the window, with a column for each key (column: key)."""

    def condition(self, name: str, condition: Condition, places: Places) -> str:
        """A condition, true or not."""

    def shown(self, name: str, field: Field) -> str:
        """The value of a field as shown: JSON as its text."""

    def sorted(self, name: str, field: Field, direction: str) -> str:
        """The order by a field: numbers before texts where it may be both, absent values last."""

    def counted(self, name: str | None) -> str:
        """The number of records, or of those with a field."""

    def different(self, name: str) -> str:
        """The number of different values of a field."""

    def bounded(self, rows: str, columns: Sequence[str]) -> str:
        """The rows up to the bounds, each with whether it is within that of bytes."""


class Own:
    """SQL over the views of our own records (migration 0846)."""

    prefix = "v"

    def records(self, source: Source, keys: Mapping[str, str], places: Places) -> str:
        """Read a view. It shows the project of the connection alone. A record may be received some time later."""
        columns = [
            *FIELDS[source],
            *(["person"] if _NAMES & FIELDS[source].keys() else []),
            *(
                f"nullif({KEYED[source]} -> %({places.name(key)})s::text, 'null'::jsonb) as {column}"
                for column, key in keys.items()
            ),
        ]
        time = TIME[source]
        within = f"{time} >= %(since)s and {time} < %(until)s"
        if time == "occurred_at":
            within += " and received_at >= %(since)s and received_at < %(until)s + %(reach)s::bigint"
        return f"select {', '.join(columns)} from queried_{source} where {within}"  # noqa: S608 - made of names declared here

    def condition(self, name: str, condition: Condition, places: Places) -> str:
        """Write a condition. A cast stands behind a test of the type."""
        kind, op, value = condition.field.kind, condition.op, condition.value
        column = f"e.{name}"
        if op == "exists":
            return f"{column} is {'not ' if value else ''}null"
        if op == "contains":
            part = f"%({places.name(value)})s::text"
            return _of_type(kind, column, "string", lambda text: f"strpos({text}, {part}) > 0")
        if op in COMPARED:
            than = f"{COMPARED[op]} %({places.name(repr(value), 'numeric')})s::numeric"
            return _of_type(kind, column, "number", lambda number: f"{number} {than}")
        if isinstance(value, list):
            held = [_held(kind, item) for item in value]
            return f"{column} = any(%({places.name(held, _CASTS[kind])})s::{_CASTS[kind]}[])"
        place = f"%({places.name(_held(kind, value), _CASTS[kind])})s::{_CASTS[kind]}"
        return f"{column} {'=' if op == 'eq' else 'is distinct from'} {place}"

    def shown(self, name: str, field: Field) -> str:
        """Show a column."""
        return f"e.{name}::text" if field.kind == "json" else f"e.{name}"

    def sorted(self, name: str, field: Field, direction: str) -> str:
        """Order by code points, whatever the collation of the database is."""
        column = f"e.{name}"
        if field.kind == "text":
            return f'{column} collate "C" {direction} nulls last'
        if field.kind != "json":
            return f"{column} {direction} nulls last"
        parts = (
            f"case when jsonb_typeof({column}) = 'number' then {column}::numeric end",
            f"({column} #>> '{{}}') collate \"C\"",
            f'jsonb_typeof({column}) collate "C"',
        )
        return ", ".join(f"{part} {direction} nulls last" for part in parts)

    def counted(self, name: str | None) -> str:
        """Count records."""
        return "count(*)" if name is None else f"count(e.{name})"

    def different(self, name: str) -> str:
        """Count values; of names the people whose they are. Only where somebody has two is looked whose."""
        if name not in _NAMES:
            return f"count(distinct e.{name})"
        return f"count(distinct case when %(linked)s then e.person else e.{name} end)"

    def bounded(self, rows: str, columns: Sequence[str]) -> str:
        """Add up the bytes as the rows come. The first row beyond the bound is the last one."""
        shown = ", ".join(columns)
        size = " + ".join(f"coalesce(octet_length({column}::text), 4)" for column in columns)
        return (
            f"select {shown}, total <= {MOST_BYTES} from (\n"  # noqa: S608 - made of names declared here
            f"select {shown}, size, sum(size) over (rows unbounded preceding) as total from (\n"
            f"select {shown}, {size} as size from (\n{rows}\nlimit %(most)s\n) found) sized) summed\n"
            f"where total - size <= {MOST_BYTES}"
        )


class Provider:
    """The provider's dialect, over its events. The window goes by their arrival there, as that of blueprints does.

    The adapter bounds the bytes of the answer.
    """

    prefix = "h"

    def records(self, source: Source, keys: Mapping[str, str], places: Places) -> str:
        """Read events. Each key has a column of raw JSON and one of its type."""
        assert source == "events", "a provider is asked for events alone"
        columns = [
            "toString(uuid) as id",
            "event as event",
            "distinct_id as distinct_id",
            f"{_CAME} as received_at",
            f"least(greatest(toUnixTimestamp(timestamp), {_CAME} - {REACH}), {_CAME}) as occurred_at",
        ]
        for column, key in keys.items():
            place = f"{{{places.name(key)}}}"
            columns += [
                f"toString(JSONType(properties, {place})) as {column}_type",
                f"if({column}_type = 'Null', null, JSONExtractRaw(properties, {place})) as {column}",
            ]
        return (
            f"select {', '.join(columns)} from events "  # noqa: S608 - made of names declared here
            "where timestamp >= toDateTime({earliest}) "
            "and created_at >= toDateTime({since}) and created_at < toDateTime({until})"
        )

    def condition(self, name: str, condition: Condition, places: Places) -> str:
        """Write a condition. A JSON value is extracted by the type of the comparison."""
        field, op, value = condition.field, condition.op, condition.value
        column = f"e.{name}"
        if op == "exists":
            return f"{'isNotNull' if value else 'isNull'}({column})"
        if op == "contains":
            part = f"{{{places.name(value)}}}"
            if field.kind == "text":
                return f"position({column}, {part}) > 0"
            return f"({column}_type = 'String' and position({_text(column)}, {part}) > 0)"
        if op in COMPARED:
            number = f"{{{places.name(value)}}}"
            if field.kind == "epoch":
                return f"{column} {COMPARED[op]} {number}"
            return f"({column}_type in {_NUMBER_TYPES} and {_value(column)} {COMPARED[op]} {number})"
        values = value if isinstance(value, list) else [value]
        equal = " or ".join(self._equal(column, field, item, places) for item in values)
        return f"not ({equal})" if op == "neq" else f"({equal})"

    def _equal(self, column: str, field: Field, value: Scalar, places: Places) -> str:
        if field.kind != "json":
            return f"{column} = {{{places.name(value)}}}"
        if isinstance(value, bool):
            return f"({column}_type = 'Bool' and {_raw(column)} = '{str(value).lower()}')"
        if isinstance(value, str):
            return f"({column}_type = 'String' and {_text(column)} = {{{places.name(value)}}})"
        return f"({column}_type in {_NUMBER_TYPES} and {_value(column)} = {{{places.name(value)}}})"

    def shown(self, name: str, field: Field) -> str:  # noqa: ARG002 - as our own
        """Show a column."""
        return f"e.{name}"

    def sorted(self, name: str, field: Field, direction: str) -> str:
        """Order. Absent values come last by themselves."""
        column = f"e.{name}"
        if field.kind != "json":
            return f"{column} {direction}"
        number = f"if(toString(JSONType({_raw(column)})) in {_NUMBER_TYPES}, {_value(column)}, null)"
        return f"{number} {direction}, {column} {direction}"

    def counted(self, name: str | None) -> str:
        """Count records."""
        return "count()" if name is None else f"count(e.{name})"

    def different(self, name: str) -> str:
        """Count values."""
        return f"uniqExact(e.{name})"

    def bounded(self, rows: str, columns: Sequence[str]) -> str:
        """Bound the rows."""
        return f"select {', '.join(columns)}, 1 from (\n{rows}\nlimit {{most}}\n)"  # noqa: S608 - made of names declared here


class Copied:
    """SQL of ClickHouse over the copy of our own records, to the same rows as Own (G-200).

    The copy has a JSON value as PostgreSQL writes it, where equal numbers may be written unlike: 1.0 and 1. For a query
    that `aggregates`, they are written alike.
    """

    prefix = "w"

    def __init__(self, *, aggregates: bool) -> None:
        self._aggregates = aggregates

    def records(self, source: Source, keys: Mapping[str, str], places: Places) -> str:
        """Read the records of the project, received before the watermark."""
        columns = [*(_RENAMED.get(field, f"r.{field} as {field}") for field in FIELDS[source]), "r.person as person"]
        for column, key in keys.items():
            held = f"r.{KEYED[source]}[{{{places.name(key, 'String')}:String}}]"
            value = _plain_number(held) if self._aggregates else held
            columns.append(f"if({held} in ('', 'null'), null, {value}) as {column}")
        return RECORDS[source].replace("{columns}", ", ".join(columns))

    def condition(self, name: str, condition: Condition, places: Places) -> str:
        """Write a condition. An absent value fails all but `neq` and `exists`."""
        field, op, value = condition.field, condition.op, condition.value
        column = f"e.{name}"
        if op == "exists":
            return f"{'isNotNull' if value else 'isNull'}({column})"
        if op == "contains":
            part = f"{{{places.name(value, 'String')}:String}}"
            if field.kind == "text":
                return f"position({column}, {part}) > 0"
            return f"(startsWith({column}, '\"') and position({_text(column)}, {part}) > 0)"
        if op in COMPARED:
            than = f"{{{places.name(_decimal(value), 'String')}:String}}"
            if field.kind == "epoch":
                return f"{column} {COMPARED[op]} toFloat64({than})"
            return f"({_is_number(column)} and {_ordered_number(column)} {COMPARED[op]} {_ordered_number(than)})"
        values = value if isinstance(value, list) else [value]
        equal = " or ".join(self._equal(column, field, item, places) for item in values)
        return f"not ifNull({equal}, false)" if op == "neq" else f"({equal})"

    def _equal(self, column: str, field: Field, value: Scalar, places: Places) -> str:
        if field.kind == "text":
            return f"{column} = {{{places.name(value, 'String')}:String}}"
        if field.kind == "epoch":
            return f"{column} = toFloat64({{{places.name(_decimal(value), 'String')}:String}})"
        if isinstance(value, bool):
            return f"{column} = '{str(value).lower()}'"
        if isinstance(value, str):
            return f"(startsWith({column}, '\"') and {_text(column)} = {{{places.name(value, 'String')}:String}})"
        number = f"{{{places.name(_decimal(value), 'String')}:String}}"
        return f"({_is_number(column)} and {_plain_number(column)} = {_plain_number(number)})"

    def shown(self, name: str, field: Field) -> str:  # noqa: ARG002 - as our own
        """Show a column."""
        return f"e.{name}"

    def sorted(self, name: str, field: Field, direction: str) -> str:
        """Order as Own does."""
        column = f"e.{name}"
        if field.kind != "json":
            return f"{column} {direction} nulls last"
        kind = (
            f"multiIf(startsWith({column}, '\"'), 'string', startsWith({column}, '['), 'array', "
            f"startsWith({column}, '{{'), 'object', {column} in ('true', 'false'), 'boolean', 'number')"
        )
        text = f"if(startsWith({column}, '\"'), {_text(column)}, {column})"
        numbers_first = f"not ifNull({_is_number(column)}, false)"
        number = f"{_ordered_number(column)} {direction}"
        return f"{numbers_first}, {number}, isNull({column}), {text} {direction}, {kind} {direction}"

    def counted(self, name: str | None) -> str:
        """Count records."""
        return "count()" if name is None else f"count(e.{name})"

    def different(self, name: str) -> str:
        """Count values; of names the people whose they are."""
        return f"uniqExact(e.{'person' if name in _NAMES else name})"

    def bounded(self, rows: str, columns: Sequence[str]) -> str:
        """Add up the bytes in the order of the rows. The first row beyond the bound is the last one."""
        shown = ", ".join(columns)
        size = " + ".join(f"ifNull(length(toString({column})), 4)" for column in columns)
        filled = _BOUNDED.replace("{shown}", shown).replace("{size}", size).replace("{bytes}", str(MOST_BYTES))
        return filled.replace("{rows}", rows)


RECORDS: Final[Mapping[Source, str]] = {
    "events": load_query("analytics/copied", "structured_events").text,
    "errors": load_query("analytics/copied", "structured_errors").text,
}
_BOUNDED: Final = load_query("analytics/copied", "structured_bounds").text
_RENAMED: Final = {
    "received_at": "toInt64(toUnixTimestamp(r.came)) as received_at",
    "occurred_at": "r.at as occurred_at",
}


def _is_number(column: str) -> str:
    """Whether a JSON text is a number."""
    return f"match({column}, '^[-0-9]')"


def _plain_number(column: str) -> str:
    """A JSON text, without the zeros that a number may end in behind its point."""
    ends = f"replaceRegexpOne({column}, '\\\\.?0+$', '')"
    return f"if({_is_number(column)} and position({column}, '.') > 0, {ends}, {column})"


def _ordered_number(text: str) -> str:
    """What orders numbers: to the digit as far as a decimal of 76 digits reaches, beyond it as doubles."""
    return f"(toFloat64OrZero({text}), toDecimal256OrZero({text}, 20))"


def _decimal(value: Any) -> str:
    """A number in digits, without an exponent, as PostgreSQL writes it."""
    return f"{Decimal(repr(value)):f}"


_NAMES: Final = frozenset({"distinct_id", "user_id"})
"""Fields that name a person."""
_CASTS: Final[Mapping[str, str]] = {"text": "text", "epoch": "numeric", "boolean": "boolean", "json": "jsonb"}
_CAME: Final = "toUnixTimestamp(created_at)"
_NUMBER_TYPES: Final = "('Int64', 'UInt64', 'Double')"


def _raw(column: str) -> str:
    """The JSON text of a column, also where it is absent."""
    return f"ifNull({column}, 'null')"


def _text(column: str) -> str:
    return f"JSONExtractString({_raw(column)})"


def _value(column: str) -> str:
    return f"JSONExtractFloat({_raw(column)})"


def _of_type(kind: str, column: str, wanted: Literal["string", "number"], test: Callable[[str], str]) -> str:
    """A test of a value of the wanted type. A JSON value of another type fails it."""
    if kind != "json":
        return test(column)
    taken = f"({column} #>> '{{}}')" if wanted == "string" else f"{column}::numeric"
    return f"case when jsonb_typeof({column}) = '{wanted}' then {test(taken)} end"


def _held(kind: str, value: Any) -> Any:
    """The value for the driver: JSON and numbers as their texts."""
    if kind == "json":
        return msgspec.json.encode(value).decode()
    return repr(value) if kind == "epoch" else value
