"""From a structured query to one statement with places, for our own records and for a provider alike (G-154).

The columns of the statement are c0, c1, …, in their order: no name of a caller's stands in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from service.analytics.structured.checking import Column, Order, Structured
from service.analytics.structured.dialects import Dialect, Own, Places, Provider
from service.analytics.structured.fields import TIME, Field, find_field

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
