"""What an error means for the command or the record that met it: decided here, for whoever writes.

The command loop, the fence lane, the decider and the intake differ in what they do next, never in what an error means.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import psycopg

from service.eventstore.connect.connection import FULL_DISK, AnyConnection, WritingConnection, is_listed
from service.eventstore.declare.commands import CommandFailed, OutcomeUnknown
from service.fairness.turns import CommandNotDone
from statemachines.kernel.machine import Stream

# 57P01 admin_shutdown, 57P02 crash_shutdown, 57P03 cannot_connect_now, 57P05 idle_session_timeout: the session is gone,
# or is about to go.
_LOST = frozenset({"57P01", "57P02", "57P03", "57P05"})
# 25P03 idle_in_transaction_session_timeout, 25P04 transaction_timeout: the server ended the session because of its
# transaction, which it says before it would have committed it.
_OUT_OF_TIME = frozenset({"25P03", "25P04"})
# 55P03 lock_not_available, 40P01 deadlock_detected, 40001 serialization_failure, 57014 query_canceled.
_TRY_AGAIN = frozenset({"55P03", "40P01", "40001", "57014"})
_CALLERS_DATA = ("22", "54")  # data exception, program limit exceeded


class StreamFault(CommandNotDone):
    """What is stored of one stream cannot be used here: each command that looks at it fails, its neighbours do not.

    Nothing of such a command is stored, and waiting does not help. `code` is listed in schemas/kernel/errors.py; str()
    names the stream and says what is wrong, for the log: a caller is told no more than the code's own text.
    """

    code: ClassVar[str]

    def __init__(self, stream: Stream, why: str) -> None:
        super().__init__(f"{stream.id}: {why}")
        self.stream_name = stream.name


class StreamIsNewer(StreamFault):
    """The stream holds an event of a later release, with a `topic` that this one does not know (G-149)."""

    code = "stream_is_newer"

    def __init__(self, stream: Stream, topic: str) -> None:
        super().__init__(stream, f"a later release wrote {topic}")
        self.topic = topic


class StreamDamaged(StreamFault):
    """The events of a stream do not lead to its head, or one of them cannot be read: an operator has to look."""

    code = "stream_damaged"


class CommitNotConfirmed(Exception):
    """COMMIT was answered with another tag: the transaction rolled back without an error."""


class Meaning(Enum):
    """What an error says about the transaction, and whose fault it is."""

    NOT_CONNECTED = "nothing was sent: certainly not done"
    READ_ONLY = "a host of a list that takes no writes: certainly not done, and another host is the primary"
    IN_DOUBT = "the session is lost, and the outcome of its transaction is unknown"
    OUT_OF_TIME = "certainly rolled back, and the session lost: the transaction took longer than any may"
    TRY_AGAIN = "certainly rolled back; the same may succeed in another transaction"
    CALLERS_DATA = "rolled back, and will be each time: the caller sent what no column holds"
    UNEXPECTED = "rolled back by the database for a reason that nobody foresaw"
    BUG = "no error of the database: the connection may be in the middle of anything"


@dataclass(frozen=True, slots=True)
class Fault:
    """An error, and what it means."""

    error: Exception
    meaning: Meaning

    @property
    def sqlstate(self) -> str:
        """The server's code; empty when the server did not speak."""
        return getattr(self.error, "sqlstate", None) or ""

    @property
    def told(self) -> Exception:
        """What the caller of the one command at fault is told.

        CommandFailed (400), or CommandNotDone (503) for one that took too long, else the error itself (500).
        """
        match self.meaning:
            case Meaning.CALLERS_DATA:
                return CommandFailed(self.sqlstate)
            case Meaning.OUT_OF_TIME:
                return CommandNotDone()
        return self.error


def judge(error: Exception, connection: AnyConnection | None) -> Fault:
    """Say what an error means that was met while writing on `connection` (None: it could not be opened)."""
    meaning = _meaning(error, connection)
    if meaning is not Meaning.READ_ONLY:
        FULL_DISK.met(error)
    return Fault(error, meaning)


def _meaning(error: Exception, connection: AnyConnection | None) -> Meaning:
    if isinstance(error, CommitNotConfirmed):
        return Meaning.TRY_AGAIN
    if not isinstance(error, psycopg.Error):
        return Meaning.BUG
    if connection is None:
        return Meaning.NOT_CONNECTED
    if (error.sqlstate or _last_words(connection)) in _OUT_OF_TIME:
        return Meaning.OUT_OF_TIME
    if connection.closed or is_loss(error):
        return Meaning.IN_DOUBT
    return _verdict(error, connection)


def is_away(error: Exception) -> bool:
    """Whether something failed because the database was away, or did not come to it in time: the same may succeed."""
    if isinstance(error, psycopg.Error):
        return is_loss(error)
    return isinstance(error, CommandNotDone | OutcomeUnknown) and not isinstance(error, StreamFault)


def _last_words(connection: AnyConnection) -> str:
    """The code with which the server ended the session before it was asked for more; empty when it did not."""
    return connection.ended_by if isinstance(connection, WritingConnection) else ""


def _verdict(error: psycopg.Error, connection: AnyConnection) -> Meaning:
    """What an error means that left the session whole."""
    sqlstate = error.sqlstate or ""
    if sqlstate in _TRY_AGAIN:
        return Meaning.TRY_AGAIN
    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction) and is_listed(connection):
        return Meaning.READ_ONLY
    # The driver refuses a NUL itself, without a SQLSTATE.
    if isinstance(error, psycopg.DataError) or sqlstate.startswith(_CALLERS_DATA):
        return Meaning.CALLERS_DATA
    return Meaning.UNEXPECTED


def is_loss(error: psycopg.Error) -> bool:
    """Whether an error took the session with it.

    An operational error without a SQLSTATE did not come from the server but from the connection to it; it may be raised
    a moment before the driver calls the connection broken.
    """
    if error.sqlstate is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return error.sqlstate in _LOST
