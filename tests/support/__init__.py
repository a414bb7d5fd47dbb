"""What tests of several folders share: how much of a long test each command runs."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import settings


class Asked:
    """What this run was asked for. `tests/conftest.py` sets it before any test is read."""

    long = True
    """Whether long forms run: in `make test-release`, and where nothing was said."""


def long_after(short: int, values: Iterable[Any]) -> list[Any]:
    """The values as cases of a test; a tuple has one of each parameter.

    `make test` runs the first `short` of them, `make test-release` the others.
    """
    cases = list(values)
    long = (case if type(case) is tuple else (case,) for case in cases[short:])
    return [*cases[:short], *(pytest.param(*case, marks=pytest.mark.release) for case in long)]


def short_or_long(short: int, long: int) -> int:
    """The number of examples of a generated test in `make test`, or in `make test-release`.

    A test that asks for it inside is marked with `longer`, so that both commands run it.
    """
    return long if Asked.long else short


def few_or_many(short: int, long: int, **more: Any) -> Callable[[Any], Any]:
    """Settings of a generated test with so many examples: for a test, or for a machine, whose test it returns."""
    chosen = settings(max_examples=short_or_long(short, long), **more)
    return lambda test: pytest.mark.longer(getattr(chosen(test), "TestCase", test))
