"""From rows as read to rows as shown: values of JSON, and columns named by a provider."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from schemas.analytics import Column as AnswerColumn
from schemas.analytics import ColumnType, QueryAnswer
from schemas.kernel.shape import SAFE_INTEGER, shape_from
from service.analytics.blueprints.declared import by_days
from service.analytics.bounded import DEFAULT_ROWS, REACH, Bounded, Question, Rows, Table, Window, table_of
from service.analytics.connecting.http import QueryRefused
from service.analytics.copied import TABLES
from service.analytics.queries import LARGE_ROWS, BoundedQueries, ProviderRefusedQuery
from service.analytics.structured.checking import Column, Order, Structured, check_text
from service.analytics.structured.checking import Column as Asked
from service.analytics.structured.dialects import Copied, Dialect, Own, Places, Provider
from service.analytics.structured.fields import TIME, Field, UnfitText, find_field
from service.auth.refusals import InvalidPayload
from statemachines.kernel.machine import ReadFailed

Row = tuple[Any, ...]

RESERVED: Final = "results"
"""No column has this name: an answer has no such member, at any depth."""
_OF_KIND: Final[Mapping[str, ColumnType]] = {"text": "string", "epoch": "epoch", "boolean": "boolean", "json": "json"}


def columns_of(query: Structured) -> tuple[AnswerColumn, ...]:
    """The columns of a structured query."""
    return tuple(_column(column) for column in query.columns)


def _column(column: Asked) -> AnswerColumn:
    if column.fn is None:
        assert column.field is not None
        kind = _OF_KIND[column.field.kind]
        said = "The value under the key; objects and arrays as JSON texts." if kind == "json" else "The field."
        return AnswerColumn(column.name, kind, "seconds" if kind == "epoch" else None, said)
    if column.fn == "unique":
        assert column.field is not None
        return AnswerColumn(column.name, "integer", "values", f"Different values of {column.field.name}.")
    said = "Rows." if column.field is None else f"Rows that have {column.field.name}."
    return AnswerColumn(column.name, "integer", "rows", said)


def row_type(query: Structured) -> Any:
    """The type of a row as read: its columns, and whether it is within the bound of bytes."""
    kinds: list[Any] = []
    for column in query.columns:
        kind = "epoch" if column.fn is not None or column.field is None else column.field.kind
        kinds.append({"epoch": int, "boolean": bool}.get(kind, str | None))
    return tuple[(*kinds, int | bool)]  # type: ignore[valid-type] # a type made of several


def structured_rows(query: Structured, found: Sequence[Row]) -> tuple[list[Row], bool]:
    """The rows to show, and whether the bound of bytes has cut some off."""
    cut = bool(found) and not found[-1][-1]
    at_json = [at for at, column in enumerate(columns_of(query)) if column.type == "json"]
    rows = []
    for row in found[:-1] if cut else found:
        cells = list(row[:-1])
        for at in at_json:
            cells[at] = _read(cells[at])
        rows.append(tuple(cells))
    return rows, cut


def _read(text: str | None) -> Any:
    """A value by its JSON text. An object or array stays a text."""
    if text is None or text[:1] in {"{", "["}:
        return text
    try:
        return _plain(msgspec.json.decode(text))
    except (msgspec.DecodeError, ValueError):
        return text  # a number beyond all that a double holds


def _plain(value: Any) -> Any:
    """A scalar as a double holds it, exactly or as near as it gets. An object or array becomes its JSON text."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) <= SAFE_INTEGER else float(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool):
        return value
    return json.dumps(value, ensure_ascii=False)


def text_rows(names: Sequence[str], found: Iterable[Row]) -> tuple[tuple[AnswerColumn, ...], list[Row]]:
    """The columns and rows of a text as a provider answered it, a value a name.

    The types are those of the values, for a provider has names of its own for them.
    """
    rows = [tuple(map(_plain, row)) for row in found]
    shown = _different(names)
    kinds = [_kind({type(row[at]) for row in rows if row[at] is not None}) for at in range(len(shown))]
    columns = tuple(
        AnswerColumn(name, kind, None, "As the provider answered.") for name, kind in zip(shown, kinds, strict=True)
    )
    return columns, rows


def _kind(types: set[type]) -> ColumnType:
    if types == {int}:
        return "integer"
    if types and types <= {int, float}:
        return "number"
    return "string" if types == {str} else "boolean" if types == {bool} else "json"


def _different(names: Iterable[str]) -> list[str]:
    """The names of columns, each once: a row has its values by them."""
    taken = {RESERVED}
    shown = []
    for name in names:
        free = name
        number = 2
        while free in taken:
            free = f"{name}_{number}"
            number += 1
        taken.add(free)
        shown.append(free)
    return shown


# From a structured query to one statement with places, for our own records and for a provider alike (G-154). The
# columns of the statement are c0, c1, …, in their order: no name of a caller's stands in it.

OWN: Final[Dialect] = Own()
PROVIDER: Final[Dialect] = Provider()


class Compiled(msgspec.Struct, frozen=True):
    """A statement, and the values of its places beside since, until and most."""

    text: str
    values: dict[str, Any]


def compile_query(query: Structured, dialect: Dialect) -> Compiled:
    """Compile a query. Whoever runs it gives since, until and most."""
    return _Compiling(query, dialect).compiled()


class _Compiling:
    def __init__(self, query: Structured, dialect: Dialect) -> None:
        self._query = query
        self._dialect = dialect
        self._places = Places(dialect.prefix)
        self._keys: dict[str, str] = {}  # column of a key: the key

    def compiled(self) -> Compiled:
        query, dialect = self._query, self._dialect
        columns = [f"c{at}" for at in range(len(query.columns))]
        shown = ", ".join(
            f"{self._value(column)} as {name}" for column, name in zip(query.columns, columns, strict=True)
        )
        conditions = [
            dialect.condition(self._name(condition.field), condition, self._places) for condition in query.conditions
        ]
        groups = [f"e.{self._name(group)}" for group in query.groups]
        order = list(self._order())
        records = dialect.records(query.source, self._keys, self._places)
        rows = f"select {shown} from (\n{records}\n) e"  # noqa: S608 - made of names declared here
        if conditions:
            rows += "\nwhere " + "\n  and ".join(conditions)
        if groups:
            rows += f"\ngroup by {', '.join(groups)}"
        if order:
            rows += f"\norder by {', '.join(order)}"
        return Compiled(dialect.bounded(rows, columns), self._places.values)

    def _name(self, field: Field) -> str:
        """The column of a field among the records."""
        if field.key is None:
            return field.name
        for column, key in self._keys.items():
            if key == field.key:
                return column
        column = f"k{len(self._keys)}"
        self._keys[column] = field.key
        return column

    def _value(self, column: Column) -> str:
        name = None if column.field is None else self._name(column.field)
        if column.fn is None:
            assert column.field is not None
            assert name is not None
            return self._dialect.shown(name, column.field)
        if column.fn == "count":
            return self._dialect.counted(name)
        assert name is not None, "different values are those of a field"
        return self._dialect.different(name)

    def _order(self) -> Iterator[str]:
        """The wanted order, then one to decide ties: groups by their values, records newest first."""
        query = self._query
        ordered = {order.by.field for order in query.order if order.by.fn is None}
        for order in query.order:
            yield self._ordered(order)
        if query.aggregates:
            last = [Order(Column(group.name, group), descending=False) for group in query.groups]
        else:
            fields = (find_field(query.source, name) for name in (TIME[query.source], "id"))
            last = [Order(Column(field.name, field), descending=True) for field in fields if field is not None]
        for order in last:
            if order.by.field not in ordered:
                yield self._ordered(order)

    def _ordered(self, order: Order) -> str:
        direction = "desc" if order.descending else "asc"
        if order.by.fn is not None:
            return f"{self._value(order.by)} {direction}"
        assert order.by.field is not None
        return self._dialect.sorted(self._name(order.by.field), order.by.field, direction)


# An analytics query from its checked form to its table (G-066, G-151, G-152, G-154).

_OUTER: Final = "select * from (\n{text}\n) limit {{most}}"


async def ask_structured(
    queries: BoundedQueries, project_id: str, tenant: str, query: Structured, asked: dict[str, Any]
) -> Table | ReadFailed:
    """Answer a structured query in the name of a tenant. The receipt names `asked`, its body.

    Raises InvalidPayload for an impossible window and for a query the provider refuses, and as BoundedQueries.ask.
    """
    as_of = now = await queries.now()
    window = by_days(None, query.since, query.until, as_of)
    sources = {query.source} & TABLES.keys()
    watermark = await queries.watermark(project_id, sources, _events_of(query), window, now)
    if isinstance(watermark, ReadFailed):
        return watermark
    values: dict[str, Any] = {}
    copied = None
    if watermark is not None:
        as_of = watermark - 1
        window = by_days(None, query.since, query.until, as_of)
        copied = compile_query(query, Copied(aggregates=query.aggregates))
        values = copied.values
    own = compile_query(query, OWN)
    provided = compile_query(query, PROVIDER) if query.source == "events" else None
    bounded = Bounded(
        source=query.source,
        local=own.text,
        connected=None if provided is None else provided.text,
        row=row_type(query),
        single=query.aggregates and not query.groups,
        copied=None if copied is None else copied.text,
        watermark=watermark,
        values={**own.values, **values, **({} if provided is None else provided.values)},
        window=window,
        as_of=as_of,
        now=now,
        most=query.limit,
        confined=True,
        reach=REACH,
    )
    found = await queries.ask(project_id, tenant, bounded)
    if isinstance(found, QueryRefused):
        raise ProviderRefusedQuery("select")
    if isinstance(found, ReadFailed):
        return found
    named = {name: value for name, value in asked.items() if name not in {"from", "to", "limit"}}
    question = Question(asked={"query": named}, params={}, window=window, limit=query.limit)
    return await queries.apart(tenant, len(found.rows), partial(_lay_out, question, query, found))


def _events_of(query: Structured) -> list[str] | None:
    """The names of the events that a query is about. None: all may be."""
    for condition in query.conditions:
        if condition.field.name == "event" and condition.op in {"eq", "in"}:
            return [str(name) for name in (condition.value if isinstance(condition.value, list) else [condition.value])]
    return None


def _lay_out(question: Question, query: Structured, found: Rows) -> Table:
    rows, cut = structured_rows(query, found.rows)
    return table_of(question, columns_of(query), rows, found, [found], cut=cut)


async def ask_text(queries: BoundedQueries, project_id: str, tenant: str, text: str) -> Table | ReadFailed:
    """Answer a text in the name of a tenant: of a connected provider, and inside a limit.

    Raises InvalidPayload for a text other than one bounded select and for one the provider refuses, NoProvider, and as
    BoundedQueries.ask.
    """
    await queries.need_provider(project_id)
    try:
        # A short text may be as dear as a long one, and the first one loads the grammar.
        select = await queries.apart(tenant, LARGE_ROWS + 1, partial(check_text, text))
    except UnfitText as unfit:
        raise InvalidPayload("The query text is not acceptable.", invalid=[("query", str(unfit))]) from None
    as_of = await queries.now()
    window = Window(0, as_of + 1)
    bounded = Bounded(
        source="events",
        local=None,
        connected=_OUTER.format(text=select),
        row=None,
        values={},
        window=window,
        as_of=as_of,
        most=DEFAULT_ROWS,
    )
    found = await queries.ask(project_id, tenant, bounded)
    if isinstance(found, QueryRefused):
        raise ProviderRefusedQuery("query")
    if isinstance(found, ReadFailed):
        return found
    question = Question(asked={"query": text}, params={}, window=window, limit=DEFAULT_ROWS)
    return await queries.apart(tenant, len(found.rows), partial(_lay_out_text, question, found))


def _lay_out_text(question: Question, found: Rows) -> Table:
    columns, rows = text_rows(found.names, found.rows)
    return table_of(question, columns, rows, found, [found])


# How an answered query is shown (G-066). Every `next_action` is a fixed sentence.

_ANSWER = "Answer with the rows, and say how fresh they are and what they rest on."
_INCOMPLETE = "Say that the window is not whole: it begins before evidence.kept_from."
_TRUNCATED = "Raise limit, or ask for less: there are more rows than these."
_NOTHING = "Nothing was found. Check the filters, the window and the names of events and properties."


def answer(project_id: str, table: Table) -> QueryAnswer:
    """An answered query."""
    return shape_from(QueryAnswer, table, project_id=project_id, row_count=len(table.rows), next_action=_advice(table))


def _advice(table: Table) -> str:
    if table.truncated:
        return _TRUNCATED
    if not table.rows:
        return _NOTHING
    return _ANSWER if table.evidence.complete else _INCOMPLETE
