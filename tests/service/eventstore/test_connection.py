"""What an error says about the session, and what a kept cursor brings back."""

from __future__ import annotations

import psycopg
import pytest

from service.eventstore.connection import connect, is_lost


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (psycopg.OperationalError("consuming input failed"), True),
        (psycopg.errors.PipelineAborted("pipeline aborted"), True),
        (psycopg.InterfaceError("the cursor is closed"), True),
        (psycopg.errors.AdminShutdown(), True),
        (psycopg.errors.IdleInTransactionSessionTimeout(), True),
        (psycopg.errors.LockNotAvailable(), False),
        (psycopg.errors.DeadlockDetected(), False),
        (psycopg.errors.QueryCanceled(), False),
        (psycopg.errors.UniqueViolation(), False),
        (psycopg.DataError("text fields cannot contain NUL"), False),
        (psycopg.ProgrammingError("cannot adapt"), False),
    ],
)
def test_who_is_to_blame_for_an_error(database_url: str, error: psycopg.Error, lost: bool):
    """What the server refuses, and what the caller sent, is certain; an error of the way to it leaves a doubt."""
    with connect(database_url, application="test") as connection:
        assert is_lost(connection, error) is lost
    assert is_lost(connection, error), "a closed connection is lost whatever the error says"


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
