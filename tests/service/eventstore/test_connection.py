"""Prepared statements of a connection for writing: alone, and together in a block."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from service.eventstore.connect.connection import Connection, connect

PREPARED = "select count(*) from pg_prepared_statements"
DIVIDE = "select 10 / %s::int"


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    with connect(database_url, application="test") as made:
        yield made


def together(connection: Connection, *statements: tuple[str, tuple[object, ...]]) -> None:
    with connection.pipeline():
        for query, values in statements:
            connection.execute(query, values, prepare=True)


def test_a_statement_brings_back_its_own_rows(connection: Connection):
    """Also when it ran before, failed before, and ran beside others in a block."""
    assert connection.execute(DIVIDE, (5,), prepare=True).fetchall() == [(2,)]
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute(DIVIDE, (0,), prepare=True)
    with connection.pipeline():
        fives = connection.execute(DIVIDE, (2,), prepare=True)
        ones = connection.execute("select %s::int", (1,), prepare=True)
        twos = connection.execute(DIVIDE, (5,), prepare=True)
    assert (fives.fetchall(), list(ones), twos.fetchall()) == ([(5,)], [(1,)], [(2,)])
    assert connection.execute(DIVIDE, (10,), prepare=True).fetchone() == (1,)
    assert connection.execute("select 1 where false", prepare=True).fetchone() is None


def test_a_statement_is_prepared_once_for_each_list_of_types(connection: Connection):
    """A ROLLBACK does not undo it either."""
    for value in (1, 2, "3"):
        connection.execute("begin", prepare=True)
        connection.execute("select %s::int", (value,), prepare=True)
        connection.execute("rollback")
    assert connection.execute(PREPARED).fetchone() == (3,)


def test_the_first_error_of_a_block_is_raised_and_what_follows_is_not_carried_out(connection: Connection):
    """What was to be prepared behind it is prepared when it is asked again, and the connection is of use again."""
    connection.execute("create temp table made (n int)")
    failing = ("insert into made values (%s::int)", (1,)), (DIVIDE, (0,)), ("select 'not prepared'", ())
    with pytest.raises(psycopg.errors.DivisionByZero):
        together(connection, *failing)
    assert connection.info.transaction_status is TransactionStatus.IDLE
    assert connection.execute("select 'not prepared'", prepare=True).fetchone() == ("not prepared",)
    assert connection.execute("select count(*) from made").fetchone() == (0,)


def test_a_value_that_cannot_be_sent_ends_the_block(connection: Connection):
    """The driver refuses a NUL before it sends anything; what was sent of the block has been answered then."""
    with pytest.raises(psycopg.DataError):
        together(connection, ("begin", ()), ("select %s::text", ("a\0b",)))
    assert connection.info.transaction_status is TransactionStatus.INTRANS
    connection.execute("rollback")
    assert connection.execute("select %s::text", ("ab",), prepare=True).fetchone() == ("ab",)


def test_a_result_of_another_type_is_prepared_anew(connection: Connection):
    """The statement fails once, as the server tells that its plan is stale, and not for ever."""
    connection.execute("create temp table shown as select 1 as n")
    assert connection.execute("select * from shown", prepare=True).fetchone() == (1,)
    connection.execute("alter table shown add column m int default 2")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="must not change result type"):
        connection.execute("select * from shown", prepare=True)
    assert connection.execute("select * from shown", prepare=True).fetchone() == (1, 2)


def test_a_block_larger_than_every_buffer_is_carried_out(connection: Connection):
    """Neither side waits for the other to read first."""
    large = "x" * 1_000_000
    with connection.pipeline():
        answers = [connection.execute("select %s::text, %s::int", (large, n), prepare=True) for n in range(20)]
    assert [answer.fetchall() for answer in answers] == [[(large, n)] for n in range(20)]


def test_a_lost_connection_is_noticed_in_a_block(connection: Connection, database_url: str):
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s)", (connection.info.backend_pid,))
    with pytest.raises(psycopg.OperationalError):
        together(connection, ("select 1", ()))
    assert connection.broken
    with pytest.raises(psycopg.OperationalError):
        connection.execute("select 1", prepare=True)
