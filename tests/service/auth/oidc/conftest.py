"""An issuer on loopback, as new for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.issuer import FakeIssuer, running_issuer


@pytest.fixture(scope="module")
def one_issuer() -> Iterator[FakeIssuer]:
    """The issuer of a module."""
    with running_issuer() as issuer:
        yield issuer


@pytest.fixture
def issuer(one_issuer: FakeIssuer) -> FakeIssuer:
    """The issuer of a module, which behaves."""
    one_issuer.reset()
    return one_issuer
