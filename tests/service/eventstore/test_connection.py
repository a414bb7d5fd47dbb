"""What a kept cursor brings back."""

from __future__ import annotations

import psycopg
import pytest

from service.eventstore.connection import connect


def test_a_statement_brings_back_its_own_rows(database_url: str):
    """Also when it ran before, failed before, and ran beside others in a pipeline."""
    statement = "select 10 / %s::int"
    with connect(database_url, application="test") as connection:
        assert connection.execute(statement, (5,), prepare=True).fetchall() == [(2,)]
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute(statement, (0,), prepare=True)
        with connection.pipeline():
            tens = connection.execute(statement, (2,), prepare=True)
            ones = connection.execute("select %s::int", (1,), prepare=True)
        assert (tens.fetchall(), ones.fetchall()) == ([(5,)], [(1,)])
        assert connection.execute(statement, (10,), prepare=True).fetchone() == (1,)
