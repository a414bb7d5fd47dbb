"""Comparing the rows of a blueprint with a threshold (G-092, G-162). Pure."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, Final

import msgspec

from statemachines.kernel.canonical import with_whole_numbers

Number = int | float


class Op(Enum):
    """The comparison of a number with the threshold."""

    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    EQ = "eq"
    NEQ = "neq"


class RowMatch(Enum):
    """The rows to look at."""

    ANY = "any"
    FIRST = "first"


class ThresholdVerdict(msgspec.Struct, frozen=True):
    """Crossed or not, and the observed number. None without any."""

    crossed: bool
    observed: Number | None


_COMPARE: Final[Mapping[Op, Callable[[Number, Number], bool]]] = {
    Op.GT: operator.gt,
    Op.GTE: operator.ge,
    Op.LT: operator.lt,
    Op.LTE: operator.le,
    Op.EQ: operator.eq,
    Op.NEQ: operator.ne,
}


class Threshold(msgspec.Struct, frozen=True):
    """A comparison for the numbers of a column."""

    column: str
    op: Op
    value: Number
    row_match: RowMatch = RowMatch.ANY

    def judge(self, rows: Sequence[Mapping[str, Any]]) -> ThresholdVerdict:
        """Look at rows. Observed is the first number to cross, otherwise the one nearest to crossing.

        Rows without a number in the column are skipped. Without any number the threshold is not crossed.
        """
        looked_at = rows[:1] if self.row_match is RowMatch.FIRST else rows
        numbers: list[Number] = [row[self.column] for row in looked_at if row[self.column] is not None]
        crosses = _COMPARE[self.op]
        for number in numbers:
            if crosses(number, self.value):
                return ThresholdVerdict(crossed=True, observed=number)
        return ThresholdVerdict(crossed=False, observed=self._nearest(numbers))

    def _nearest(self, numbers: Sequence[Number]) -> Number | None:
        if self.op in {Op.GT, Op.GTE}:
            return max(numbers, default=None)
        if self.op in {Op.LT, Op.LTE}:
            return min(numbers, default=None)
        return min(numbers, key=lambda number: abs(number - self.value), default=None)


def write_number(number: Number) -> str:
    """Write a number as a decimal, the form of events and rows: a payload holds no fraction."""
    return msgspec.json.encode(with_whole_numbers(number)).decode()


def read_number(text: str) -> Number:
    """Read a number written by `write_number`."""
    return msgspec.json.decode(text, type=int | float)
