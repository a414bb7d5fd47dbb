"""From the body of a query to its checked form, by every rule beyond the schema (G-066, G-154)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from schemas.analytics import MAX_IN, MAX_VALUE, Operator, QueryInput, SelectItem
from service.analytics.bounded import DEFAULT_ROWS, Source
from service.analytics.structured.fields import Field, Kind, UnfitText, find_field, known_fields
from service.auth.refusals import InvalidPayload

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokenizer_core import Token

    from service.analytics.structured.grammar import Grammar


T = TypeVar("T")
Scalar = str | int | float | bool
Function = Literal["count", "unique"]

_NUMBERS = "a number"
_WORDS: dict[Kind, str] = {"text": "a text", "epoch": _NUMBERS, "boolean": "a boolean"}
_TYPES: dict[Kind, tuple[type, ...]] = {"text": (str,), "epoch": (int, float), "boolean": (bool,)}
_COMPARING = frozenset({"gt", "gte", "lt", "lte"})
_STRUCTURED = ("select", "filters", "group_by", "order_by", "since", "until", "limit")


class Column(msgspec.Struct, frozen=True):
    """A column of the rows: a field, or a function of it. `field` None: rows are counted."""

    name: str
    field: Field | None
    fn: Function | None = None


class Condition(msgspec.Struct, frozen=True):
    """A condition on a field. `value` is a list where the operator is `in`."""

    field: Field
    op: Operator
    value: Scalar | list[Scalar]


class Order(msgspec.Struct, frozen=True):
    """An order of the rows, by one of the columns or by a field."""

    by: Column
    descending: bool


class Structured(msgspec.Struct, frozen=True, kw_only=True):
    """A well-formed structured query."""

    source: Source
    columns: tuple[Column, ...]
    conditions: tuple[Condition, ...] = ()
    groups: tuple[Field, ...] = ()
    order: tuple[Order, ...] = ()
    since: int | None = None
    until: int | None = None
    limit: int = DEFAULT_ROWS

    @property
    def aggregates(self) -> bool:
        """Whether a row stands for several records."""
        return bool(self.groups) or any(column.fn for column in self.columns)


def check_form(body: QueryInput) -> Structured | str:
    """Return the structured query of a body, or its text. Raises InvalidPayload naming every bad member."""
    given = [name for name in _STRUCTURED if not isinstance(getattr(body, name), UnsetType)]
    if not isinstance(body.query, UnsetType):
        if given or not isinstance(body.source, UnsetType):
            raise _refused([("query", "must stand alone, or be left out where source and select are given")])
        return body.query
    if isinstance(body.source, UnsetType) or isinstance(body.select, UnsetType):
        missing = [name for name in ("source", "select") if getattr(body, name) is UNSET]
        raise _refused([], missing)
    return _Checking(body.source).structured(body, body.select)


class _Checking:
    """One body on its way: every fault is kept, and all are told at once."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._faults: list[tuple[str, str]] = []

    def structured(self, body: QueryInput, select: Sequence[SelectItem]) -> Structured:
        columns = [self._column(f"select[{at}]", item) for at, item in enumerate(select)]
        groups = [self._field(f"group_by[{at}]", name) for at, name in enumerate(_or_none(body.group_by))]
        conditions = [
            self._condition(f"filters[{at}]", item.field, item.op, item.value)
            for at, item in enumerate(_or_none(body.filters))
        ]
        self._once("select", "name", [None if column is None else column.name for column in columns])
        self._once("group_by", "field", [None if group is None else group.name for group in groups])
        found = Structured(
            source=self._source,
            columns=tuple(filter(None, columns)),
            conditions=tuple(filter(None, conditions)),
            groups=tuple(filter(None, groups)),
        )
        self._grouped(found, columns)
        order = [
            self._order(f"order_by[{at}].field", item.field, found, descending=item.direction == "desc")
            for at, item in enumerate(_or_none(body.order_by))
        ]
        self._once("order_by", "field", [None if item is None else item.by.name for item in order])
        if self._faults:
            raise _refused(self._faults)
        return msgspec.structs.replace(
            found,
            order=tuple(filter(None, order)),
            since=None if isinstance(body.since, UnsetType) else body.since,
            until=None if isinstance(body.until, UnsetType) else body.until,
            limit=DEFAULT_ROWS if isinstance(body.limit, UnsetType) else body.limit,
        )

    def _fault(self, path: str, reason: str) -> None:
        self._faults.append((path, reason))

    def _field(self, path: str, name: str) -> Field | None:
        found = find_field(self._source, name)
        if found is None:
            self._fault(path, f"must be a field of {self._source}: {known_fields(self._source)}")
        return found

    def _column(self, path: str, item: SelectItem) -> Column | None:
        field = None
        if not isinstance(item.field, UnsetType):
            field = self._field(f"{path}.field", item.field)
            if field is None:
                return None
        if isinstance(item.fn, UnsetType):
            if not isinstance(item.as_, UnsetType):
                self._fault(f"{path}.as", "must be left out beside a field alone, which keeps its name")
            if field is None:
                self._fault(path, "must have a field, or fn with as")
                return None
            return Column(field.name, field)
        if isinstance(item.as_, UnsetType):
            self._fault(f"{path}.as", "must name the column beside fn")
            return None
        if item.as_ == "results":
            self._fault(f"{path}.as", "must be another name: results is kept for the service")
        if item.fn == "unique" and field is None:
            self._fault(f"{path}.field", "must say of which field different values are counted")
        return Column(item.as_, field, item.fn)

    def _once(self, path: str, what: str, names: Sequence[str | None]) -> None:
        seen: set[str] = set()
        for at, name in enumerate(names):
            if name is not None and name in seen:
                self._fault(f"{path}[{at}]", f"must not have the {what} of an earlier one")
            seen.add(name or "")

    def _grouped(self, query: Structured, columns: Sequence[Column | None]) -> None:
        if not query.aggregates:
            return
        for at, column in enumerate(columns):
            if column and column.fn is None and column.field not in query.groups:
                self._fault(f"select[{at}].field", "must be in group_by too, for a row stands for several records")

    def _condition(self, path: str, name: str, op: Operator, value: Any) -> Condition | None:
        field = self._field(f"{path}.field", name)
        if field is None:
            return None
        reason = _unfit(field, op, value)
        if reason is not None:
            self._fault(f"{path}.{'op' if reason.startswith(_NO_OPERATOR) else 'value'}", reason)
        return Condition(field, op, value)

    def _order(self, path: str, name: str, query: Structured, *, descending: bool) -> Order | None:
        for column in query.columns:
            if column.name == name:
                return Order(column, descending)
        field = self._field(path, name)
        if field is None:
            return None
        if query.aggregates and field not in query.groups:
            self._fault(path, "must be a column, or a field of group_by")
        return Order(Column(name, field), descending)


_NO_OPERATOR = "must be another one"


def _unfit(field: Field, op: Operator, value: Any) -> str | None:
    """Why an operator and its value do not go with a field. None if they do."""
    if op in _COMPARING and field.kind in {"text", "boolean"}:
        return f"{_NO_OPERATOR}: {op} compares numbers, and {field.name} is {_WORDS[field.kind]}"
    if op == "contains" and field.kind in {"epoch", "boolean"}:
        return f"{_NO_OPERATOR}: contains looks into texts, and {field.name} is {_WORDS[field.kind]}"
    if op == "in":
        if not isinstance(value, list) or not 0 < len(value) <= MAX_IN:
            return f"must be an array of 1 to {MAX_IN} values beside in"
        return next((reason for item in value if (reason := _no_scalar(field, item))), None)
    if op in {"eq", "neq"}:
        return _no_scalar(field, value)
    if op == "exists":
        fits, wanted = isinstance(value, bool), "a boolean"
    elif op == "contains":
        fits = isinstance(value, str) and 0 < len(value) <= MAX_VALUE
        wanted = f"a text of 1 to {MAX_VALUE} characters"
    else:
        fits, wanted = _is(value, (int, float)), _NUMBERS
    return None if fits else f"must be {wanted} beside {op}"


def _no_scalar(field: Field, value: Any) -> str | None:
    wanted = _TYPES.get(field.kind, (str, int, float, bool))
    if not _is(value, wanted):
        return f"must be {_WORDS.get(field.kind, 'a text, number or boolean')}"
    if isinstance(value, str) and len(value) > MAX_VALUE:
        return f"must have at most {MAX_VALUE} characters"
    return None


def _is(value: Any, kinds: tuple[type, ...]) -> bool:
    """Whether a value is of these types. A boolean is no number."""
    return isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds)


def _or_none(given: list[T] | UnsetType) -> Iterable[T]:
    return () if isinstance(given, UnsetType) else given


def _refused(faults: Sequence[tuple[str, str]], missing: Sequence[str] = ()) -> InvalidPayload:
    return InvalidPayload(
        "A query has source and select with what belongs to them, or a query text alone.",
        missing=missing,
        invalid=faults,
    )


# Whether a text is one bounded select over a provider's events, persons or sessions, and nothing else (G-066, G-154).
# Only constructs known to be harmless pass. The text to send is written anew from the judged words: comments are gone,
# and every string and quoted name has one spelling, so the next reader splits it into the same words. The parser is
# large: `load_grammar` alone loads it, with the first text.

TABLES: Final = frozenset({"events", "persons", "sessions"})
MOST_TOKENS: Final = 8_000
_SELECT: Final = frozenset(
    {"distinct", "expressions", "from_", "group", "having", "joins", "limit", "offset", "order", "where", "windows"}
)  # fmt: skip
_TABLE: Final = frozenset({"this", "alias", "joins"})
_CTE: Final = frozenset({"this", "alias", "scalar"})
_REACHING: Final = frozenset(
    {"azureblobstorage", "cluster", "clusterallreplicas", "deltalake", "dictionary", "executable", "file",
     "filecluster", "format", "gcs", "generaterandom", "hdfs", "hdfscluster", "hudi", "iceberg", "input", "jdbc",
     "loop", "merge", "mongodb", "mysql", "numbers", "odbc", "postgresql", "redis", "remote", "remotesecure", "s3",
     "s3cluster", "sleep", "sleepeachrow", "sqlite", "url", "urlcluster", "values", "view", "zeros"}
)  # fmt: skip
"""Functions with a reach beyond the tables, and those that only cost time."""
_REACHING_PREFIXES: Final = ("dict", "joinget")


@cache
def load_grammar() -> Grammar:
    """Load the parser: a third of a second and 16 MB."""
    from service.analytics.structured.grammar import Grammar  # noqa: PLC0415 - see the module's docstring

    return Grammar()


def check_text(text: str) -> str:
    """Return the select in the spelling to send, inside a limit. Pure, and long: run it apart from the event loop.

    Raises UnfitText.
    """
    grammar = load_grammar()
    try:
        tokens = grammar.tokens(text)
        _check_tokens(grammar, tokens)
        statement = grammar.parse(tokens)
        _Judge(grammar).judge(statement)
    except RecursionError:
        raise UnfitText("must nest less deeply") from None
    return " ".join(grammar.spelled(text, token) for token in tokens)


def _check_tokens(grammar: Grammar, tokens: list[Token]) -> None:
    if len(tokens) > MOST_TOKENS:
        raise UnfitText(f"must have at most {MOST_TOKENS} words and signs")
    for token in tokens:
        reason = grammar.refused.get(token.token_type)
        if reason is not None:
            raise UnfitText(reason)
    if any(token.text == "." and before.token_type in grammar.no_name for before, token in pairwise(tokens)):
        raise UnfitText("must have a name before each dot")


class _Judge:
    """Goes through a statement, and refuses every unknown construct."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._exp = grammar.exp
        self._read = False

    def judge(self, statement: exp.Expr) -> None:
        exp = self._exp
        if not isinstance(statement, exp.Select):
            raise UnfitText("must be one select, not a union or another statement")
        named: set[str] = set()
        for part in self._named_before(statement):
            self._judge_part(part.this, frozenset(named))
            if not part.args.get("scalar"):  # The name of a value is none of a table.
                named.add(part.alias)
        self._judge_part(statement, frozenset(named))
        if not self._read:
            raise UnfitText(f"must read {', '.join(sorted(TABLES))} or several of them")

    def _named_before(self, statement: exp.Expr) -> Iterator[Any]:
        """The parts of the statement's own `with`, in order: each may name the earlier ones."""
        exp = self._exp
        clause = statement.args.get("with_")
        if clause is None:
            return
        if clause.args.get("recursive"):
            raise UnfitText("must not be recursive")
        for part in clause.expressions:
            if not isinstance(part, exp.CTE) or _given(part) - _CTE or not part.alias:
                raise UnfitText("must give each part of `with` a name and nothing else")
            yield part

    def _judge_part(self, part: exp.Expr, named: frozenset[str]) -> None:
        """Judge all of a select but the `with` of the statement itself."""
        waiting = [*_children(part, without="with_")] if isinstance(part, self._exp.Select) else [part]
        if isinstance(part, self._exp.Select):
            self._judge_select(part, _SELECT | {"with_"})
        while waiting:
            node = waiting.pop()
            if isinstance(node, self._exp.Select):
                self._judge_select(node, _SELECT)
            elif isinstance(node, self._grammar.node):
                self._judge_node(node, named)
            elif not isinstance(node, str | bool | int | Enum):
                raise UnfitText(f"must not use {type(node).__name__.lower()}")
            else:
                continue
            waiting += _children(node)

    def _judge_select(self, node: exp.Expr, may: frozenset[str]) -> None:
        if extra := _given(node) - may:
            raise UnfitText(f"must not use {', '.join(sorted(part.strip('_') for part in extra))} here")

    def _judge_node(self, node: exp.Expr, named: frozenset[str]) -> None:
        exp = self._exp
        if isinstance(node, exp.From | exp.Join):
            self._judge_source(node)
        elif isinstance(node, exp.Table):
            self._judge_table(node, named)
        elif isinstance(node, exp.In) and node.args.get("field") is not None:
            raise UnfitText("must name the values of `in` in brackets")
        elif not isinstance(node, self._grammar.known) or isinstance(node, self._grammar.never):
            raise UnfitText(f"must not use {type(node).__name__.lower()}")
        if isinstance(node, exp.Func):
            name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).replace("_", "").lower()
            if name in _REACHING or name.startswith(_REACHING_PREFIXES):
                raise UnfitText(f"must not use the function {name}")

    def _judge_source(self, node: exp.Expr) -> None:
        """The source of rows is a table, or a select in brackets. An array join has columns."""
        exp = self._exp
        source = node.this
        array = isinstance(node, exp.Join) and node.args.get("kind") == "ARRAY"
        if not array and not isinstance(source, exp.Table | exp.Subquery):
            raise UnfitText("must read tables by their names, or a select in brackets")

    def _judge_table(self, node: exp.Table, named: frozenset[str]) -> None:
        exp = self._exp
        if not isinstance(node.this, exp.Identifier):
            raise UnfitText("must not use a table function")
        if _given(node) - _TABLE:
            raise UnfitText("must name tables alone: no database, no option")
        if node.name in named:
            return
        if node.name not in TABLES:
            raise UnfitText(f"must read no other table than {', '.join(sorted(TABLES))}")
        self._read = True


def _given(node: exp.Expr) -> set[str]:
    """The names of the parts of a node."""
    return {key for key, value in node.args.items() if value is not None and value is not False and value != []}


def _children(node: exp.Expr, without: str = "") -> Iterator[Any]:
    """The parts of a node."""
    for key, value in node.args.items():
        if key != without and value is not None:
            yield from value if isinstance(value, list) else [value]
