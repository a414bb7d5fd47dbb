"""A prepared statement of the event loop: its answer, its errors, and what becomes of it with the session."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from service.eventstore.connect.connection import PreparedStatement, connect_async


@pytest.fixture
async def connection(database_url):
    """A connection of the event loop."""
    opened = await connect_async(database_url, application="test")
    yield opened
    await opened.close()


async def test_it_brings_back_the_first_value(connection):
    """Of any size, in either direction; none when it is null."""
    statement = PreparedStatement(connection, "select repeat(%s, %s::int)")
    assert await statement.run(("ä", 3)) == "äää".encode()
    assert await statement.run((None, 3)) is None
    assert await statement.run(("", 3)) == b""
    assert await statement.run(("x" * 3_000_000, 2)) == b"x" * 6_000_000


async def test_what_would_be_cut_off_is_not_sent(connection):
    statement = PreparedStatement(connection, "select %s::text")
    with pytest.raises(psycopg.DataError):
        await statement.run(("a\0b",))
    assert await statement.run(("ab",)) == b"ab"


async def test_an_error_of_the_statement_leaves_the_session(connection):
    statement = PreparedStatement(connection, "select 1 / %s::int")
    with pytest.raises(psycopg.errors.DivisionByZero):
        await statement.run((0,))
    assert await statement.run((1,)) == b"1"


async def test_an_error_of_the_commit_is_one_of_the_statement(connection):
    """The row has come by then: the server commits after it."""
    await connection.execute("create table parts (id int primary key deferrable initially deferred)")
    await connection.execute(
        "create function add(which int) returns int language sql as $$ insert into parts values (which) returning id $$"
    )
    statement = PreparedStatement(connection, "select add(%s::int)")
    assert await statement.run((1,)) == b"1"
    with pytest.raises(psycopg.errors.UniqueViolation):
        await statement.run((1,))
    assert await statement.run((2,)) == b"2"


async def test_a_statement_that_the_server_has_not_is_prepared_anew(connection):
    statement = PreparedStatement(connection, "select %s::int")
    assert await statement.run((1,)) == b"1"
    await connection.execute("deallocate all")
    with pytest.raises(psycopg.errors.InvalidSqlStatementName):
        await statement.run((3,))
    assert await statement.run((3,)) == b"3"
    assert await statement.run((4,)) == b"4"


async def test_a_session_that_ends_fails_what_waits(connection, sql):
    """And it is not listened to any more, so that nothing goes round for ever."""
    statement, socket = PreparedStatement(connection, "select pg_sleep(%s)"), connection.fileno()
    waits = asyncio.create_task(statement.run((30,)))
    await asyncio.sleep(0.1)
    sql.execute("select pg_terminate_backend(%s)", (connection.info.backend_pid,))
    with pytest.raises(psycopg.OperationalError):
        await asyncio.wait_for(waits, 3)
    assert connection.closed
    assert not asyncio.get_running_loop().remove_reader(socket)
    with pytest.raises(psycopg.OperationalError):
        await statement.run((0,))


async def test_why_the_server_ended_a_session_is_told(connection):
    """A transaction that took too long is rolled back for certain; a lost session alone would leave that in doubt."""
    await connection.execute("set transaction_timeout = '200ms'")
    statement = PreparedStatement(connection, "select pg_sleep(%s)")
    with pytest.raises(psycopg.Error) as refused:
        await asyncio.wait_for(statement.run((30,)), 3)
    assert refused.value.sqlstate == "25P04"


@pytest.fixture
async def sending(proxy):
    """A connection whose server takes in no more of what it is sent, and the run that waits for that."""
    opened = await connect_async(proxy.url, application="test")
    statement = PreparedStatement(opened, "select length(%s)")
    assert await statement.run(("x",)) == b"1"
    proxy.freeze()
    waits = asyncio.create_task(statement.run(("x" * 30_000_000,)))
    await asyncio.sleep(0.2)
    assert not waits.done()
    yield opened, waits
    await opened.close()


async def test_a_session_that_is_lost_while_much_is_sent_fails_what_waits(sending, proxy):
    _, waits = sending
    proxy.cut()
    with pytest.raises(psycopg.OperationalError):
        await asyncio.wait_for(waits, 3)


async def test_what_is_given_up_while_much_is_sent_leaves_no_one_waiting(sending):
    """As the intake gives up: the socket is closed first."""
    opened, waits = sending
    running, socket = asyncio.get_running_loop(), opened.fileno()
    running.remove_reader(socket)
    opened.pgconn.finish()
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asyncio.shield(waits), 3)
    assert not running.remove_reader(socket)
    assert not running.remove_writer(socket)
