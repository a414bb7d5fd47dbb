"""What an error means is decided in one place, for the loop, the lane, the decider and the intake."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

import service
from service.eventstore.connect.connection import connect
from service.eventstore.declare.commands import CommandFailed
from service.eventstore.declare.faults import CommitNotConfirmed, Meaning, judge
from service.fairness.turns import CommandNotDone

MEANINGS = [
    (psycopg.OperationalError("consuming input failed"), Meaning.IN_DOUBT),
    (psycopg.errors.PipelineAborted("pipeline aborted"), Meaning.IN_DOUBT),
    (psycopg.InterfaceError("the cursor is closed"), Meaning.IN_DOUBT),
    (psycopg.errors.AdminShutdown(), Meaning.IN_DOUBT),
    (psycopg.errors.IdleSessionTimeout(), Meaning.IN_DOUBT),
    (psycopg.errors.LockNotAvailable(), Meaning.TRY_AGAIN),
    (psycopg.errors.DeadlockDetected(), Meaning.TRY_AGAIN),
    (psycopg.errors.SerializationFailure(), Meaning.TRY_AGAIN),
    (psycopg.errors.QueryCanceled(), Meaning.TRY_AGAIN),
    (psycopg.errors.UntranslatableCharacter(), Meaning.CALLERS_DATA),
    (psycopg.errors.NumericValueOutOfRange(), Meaning.CALLERS_DATA),
    (psycopg.errors.ProgramLimitExceeded(), Meaning.CALLERS_DATA),
    (psycopg.DataError("text fields cannot contain NUL"), Meaning.CALLERS_DATA),
    (psycopg.errors.UniqueViolation(), Meaning.UNEXPECTED),
    (psycopg.errors.UndefinedTable(), Meaning.UNEXPECTED),
    (psycopg.ProgrammingError("cannot adapt"), Meaning.UNEXPECTED),
]


@pytest.mark.parametrize("kind", ["IdleInTransactionSessionTimeout", "TransactionTimeout"])
def test_a_transaction_that_took_too_long_is_no_lost_connection(database_url: str, kind: str):
    """The server says so before it would have committed: certainly not done, though the session is gone."""
    error = getattr(psycopg.errors, kind)()
    with connect(database_url, application="test") as connection:
        assert judge(error, connection).meaning is Meaning.OUT_OF_TIME
    fault = judge(error, connection)
    assert fault.meaning is Meaning.OUT_OF_TIME
    assert isinstance(fault.told, CommandNotDone)


@pytest.mark.parametrize(("error", "meaning"), MEANINGS)
def test_what_an_error_means(database_url: str, error: psycopg.Error, meaning: Meaning):
    """What the server refuses, and what the caller sent, is certain; an error of the way to it leaves a doubt."""
    with connect(database_url, application="test") as connection:
        assert judge(error, connection).meaning is meaning
    assert judge(error, connection).meaning is Meaning.IN_DOUBT, "a closed connection leaves a doubt, whatever is said"
    assert judge(error, None).meaning is Meaning.NOT_CONNECTED, "and without a connection nothing was sent"


def test_what_is_no_error_of_the_database_means_the_same_on_any_connection(database_url: str):
    with connect(database_url, application="test") as connection:
        for where in (connection, None):
            assert judge(CommitNotConfirmed("ROLLBACK"), where).meaning is Meaning.TRY_AGAIN
            assert judge(ZeroDivisionError(), where).meaning is Meaning.BUG


def test_callers_are_told_what_they_can_mend(database_url: str):
    """Their own data is CommandFailed, without the database's words; everything else is as it was raised."""
    with connect(database_url, application="test") as connection:
        refused = judge(psycopg.errors.NumericValueOutOfRange("smallint out of range"), connection)
        assert isinstance(refused.told, CommandFailed)
        assert (str(refused.told), refused.sqlstate) == ("22003", "22003")
        bug = ZeroDivisionError()
        assert judge(bug, connection).told is bug


def test_no_writer_reads_error_codes_itself():
    """A code that one of them knew and another did not would make one error mean two things."""
    writers = (
        "eventstore/write/loop.py",
        "eventstore/write/lane.py",
        "ingest/flushing.py",
        "ingest/intake.py",
    )
    room = Path(service.__file__).parent
    for writer in writers:
        text = (room / writer).read_text()
        assert "error.sqlstate" not in text
        assert "judge(" in text
