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


def few_or_many(short: int, long: int, **more: Any) -> Callable[[Any], Any]:
    """Settings of a generated test: the number of its examples in `make test` and in `make test-release`."""
    chosen = settings(max_examples=long if Asked.long else short, **more)
    return lambda test: pytest.mark.longer(chosen(test))
