"""CSV at the edge: what a spreadsheet must not take for a formula, and who asks for it."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.http.answer.reply import prefers
from service.http.edge.reading import FORMULA, MEDIA, write_csv


def read(text: bytes) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text.decode(), newline="")))


@pytest.mark.parametrize("begin", FORMULA)
def test_a_text_that_begins_like_a_formula_gets_an_apostrophe(begin: str) -> None:
    assert read(write_csv(["a"], [{"a": f"{begin}1"}, {"a": f"x{begin}"}])) == [["a"], [f"'{begin}1"], [f"x{begin}"]]


def test_a_column_that_begins_like_one_too() -> None:
    assert read(write_csv(["=a"], [{"=a": 1}])) == [["'=a"], ["1"]]


@pytest.mark.parametrize(
    ("value", "cell"),
    [(-1, "-1"), (-0.5, "-0.5"), (None, ""), (True, "true"), (False, "false"), ({"a": [1]}, '{"a":[1]}'), ("", "")],
)
def test_what_is_no_text_stays_as_it_is(value: Any, cell: str) -> None:
    """A negative number is no formula."""
    assert read(write_csv(["a", "b"], [{"a": value, "b": 0}]))[1] == [cell, "0"]


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")), min_size=1, max_size=5))
def test_every_text_comes_back_and_none_begins_a_formula(texts: list[str]) -> None:
    """Quotes, commas, line ends of every kind and all else."""
    names = [f"c{number}" for number in range(len(texts) + 1)]
    [_, row] = read(write_csv(names, [dict(zip(names, [*texts, "end"], strict=True))]))
    assert [
        cell[1:] if cell.startswith("'") and not text.startswith("'") else cell
        for cell, text in zip(row, [*texts, "end"], strict=True)
    ] == [*texts, "end"]
    assert not any(cell.startswith(FORMULA) for cell in row)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        (None, False),
        ("", False),
        ("*/*", False),
        ("text/*", False),
        ("application/json", False),
        ("text/csv", True),
        ("Text/CSV; header=present", True),
        ("text/csv;q=0", False),
        ("text/csv;q=x", False),
        ("text/csv, */*;q=0.1", True),
        ("application/json;q=0.9, text/csv", True),
        ("application/json, text/csv;q=0.5", False),
    ],
)
def test_who_names_csv_gets_it(accept: str | None, wanted: bool) -> None:
    """And no less dearly than JSON."""
    assert prefers(accept, MEDIA) is wanted
