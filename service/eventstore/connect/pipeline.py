"""Prepared statements of a writing connection: sent together, answered together.

The driver's own pipeline looks at the socket before and after each statement that it sends, and does the bookkeeping of
a cursor for each: several times what the statement itself costs the process. Here the statements of a block leave as
one message at its end, and their answers are taken in when all of it is sent.

No Flush follows the Sync that ends a block: PostgreSQL arms the idle-in-transaction timer when it answers the Sync,
and the next message, even a Flush, disarms it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any

import psycopg
from psycopg import abc, adapt
from psycopg.abc import PQGen
from psycopg.adapt import PyFormat
from psycopg.generators import fetch_many, send
from psycopg.pq import ConnStatus, ExecStatus
from psycopg.pq.abc import PGresult

Row = tuple[Any, ...]
STALE = frozenset({"0A000", "26000"})
"""The result type of a prepared statement has changed; the server does not have it. It is prepared anew next time."""
WENT_WELL = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)


class StatementAnswer:
    """What a statement brings back, once its block has ended: the part of a cursor that its callers use."""

    __slots__ = ("_rows", "statusmessage")

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self.statusmessage: str | None = None

    def take(self, rows: list[Row], status: bytes | None) -> None:
        """Take in what came."""
        self._rows = rows
        self.statusmessage = None if status is None else status.decode()

    def fetchall(self) -> list[Row]:
        """Every row."""
        return self._rows

    def fetchone(self) -> Row | None:
        """The first row; None when there is none."""
        return self._rows[0] if self._rows else None

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)


def numbered(query: str) -> tuple[bytes, int]:
    """Number the places `%s` of a statement as the server names them; returns its text and how many they are."""
    first, *rest = query.split("%s")
    assert "%" not in "".join((first, *rest)), "a percent sign that is not a place"
    return (first + "".join(f"${number}{part}" for number, part in enumerate(rest, 1))).encode(), len(rest)


class _Statement:
    """A statement as it is sent: its places numbered, and the name under which each list of types is prepared."""

    __slots__ = ("formats", "names", "text")

    def __init__(self, query: str | bytes, places: int) -> None:
        text = query.decode() if isinstance(query, bytes) else query
        if places:
            self.text, found = numbered(text)
            assert found == places, f"{places} values for {found} places"
        else:
            self.text = text.encode()
        self.formats = [PyFormat.AUTO] * places
        self.names: dict[tuple[int, ...], bytes] = {}


_Sent = tuple[_Statement, tuple[int, ...], StatementAnswer | None]  # no answer: it is prepared


class StatementPipeline:
    """The prepared statements of one connection, which one thread uses; a context manager around those of a block."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._pgconn = connection.pgconn
        self._transformer: abc.Transformer | None = None  # made when the connection has its types
        self._statements: dict[str | bytes, _Statement] = {}
        self._made = 0
        self._sent: list[_Sent] = []
        self.open = False

    def __enter__(self) -> None:
        assert not self.open, "a block within a block"
        # What the server said when it ended the session is heard before anything is written, which may cut it off.
        self._pgconn.consume_input()
        self._pgconn.is_busy()
        self._pgconn.enter_pipeline_mode()
        self.open = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Send what is left, and take in every answer. Raises psycopg.Error, unless the block itself failed."""
        sent, self._sent = self._sent, []
        self.open = False
        try:
            self._pgconn.pipeline_sync()
            self._connection.wait(self._exchange(sent))
        except psycopg.Error:
            if error is None:
                raise
        finally:
            if self._pgconn.status != ConnStatus.BAD:
                self._pgconn.exit_pipeline_mode()

    def execute(self, query: str | bytes, values: Sequence[Any] = ()) -> StatementAnswer:
        """Send a statement, alone unless a block is open. Raises psycopg.Error."""
        if self.open:
            return self._add(query, values)
        with self:
            return self._add(query, values)

    def _add(self, query: str | bytes, values: Sequence[Any]) -> StatementAnswer:
        transformer = self._adapting()
        statement = self._statements.get(query)
        if statement is None:
            statement = self._statements[query] = _Statement(query, len(values))
        dumped: Sequence[Any] = ()
        types: tuple[int, ...] = ()
        if values:
            dumped = transformer.dump_sequence(values, statement.formats)
            types = transformer.types or ()
        name = statement.names.get(types)
        if name is None:
            self._made += 1
            name = statement.names[types] = b"p%d" % self._made
            self._pgconn.send_prepare(name, statement.text, types)
            self._sent.append((statement, types, None))
        self._pgconn.send_query_prepared(name, dumped, transformer.formats if values else None)
        answer = StatementAnswer()
        self._sent.append((statement, types, answer))
        return answer

    def _adapting(self) -> abc.Transformer:
        if self._transformer is None:
            self._transformer = adapt.Transformer(self._connection)
        return self._transformer

    def _exchange(self, sent: Sequence[_Sent]) -> PQGen[None]:
        """Send everything, and take in the answers in turn. Raises the first error of all."""
        failed: psycopg.Error | None = None
        try:
            yield from send(self._pgconn)
            for statement, types, answer in sent:
                [result] = yield from fetch_many(self._pgconn)
                status = result.status
                if status in WENT_WELL:
                    if answer is not None:
                        self._take(answer, result)
                    continue
                if failed is None:
                    failed = psycopg.errors.error_from_result(result, self._connection.info.encoding)
                    if failed.sqlstate in STALE:
                        statement.names.pop(types, None)
                if answer is None:
                    statement.names.pop(types, None)  # It was not prepared, and has no name.
            [sync] = yield from fetch_many(self._pgconn)
            assert sync.status == ExecStatus.PIPELINE_SYNC, sync.status
        except psycopg.Error as lost:
            raise failed or lost from None
        if failed is not None:
            raise failed

    def _take(self, answer: StatementAnswer, result: PGresult) -> None:
        rows: list[Row] = []
        if count := result.ntuples:
            transformer = self._adapting()
            transformer.set_pgresult(result)
            rows = transformer.load_rows(0, count, tuple)
            transformer.set_pgresult(None)
        answer.take(rows, result.command_status)


# Columns of values as PostgreSQL array literals: what the `unnest` of a statement takes. The driver turns a list into
# an array element by element in Python, which cost more than everything else that a round does. Here a column becomes
# one string, joined at once.

Value = str | int | bytes


def array(column: Iterable[Value]) -> str:
    """Write a column as an array literal: texts, integers, or bytes (in hex), all of one type."""
    values: tuple[Any, ...] = tuple(column)
    kinds: Any = set(map(type, values))  # no call of ours for each value: a batch has thousands of them
    if kinds == {str}:
        joined = '","'.join(values)
        if "\\" in joined or joined.count('"') > 2 * (len(values) - 1):
            joined = '","'.join([text.replace("\\", "\\\\").replace('"', '\\"') for text in values])
        return f'{{"{joined}"}}'
    if kinds == {bytes}:
        return '{"\\\\x' + '","\\\\x'.join(map(bytes.hex, values)) + '"}'
    return "{" + ",".join(map(str, values)) + "}"


def columns(rows: Iterable[Sequence[Value]], width: int) -> tuple[str, ...]:
    """Turn rows of `width` values into their columns."""
    return tuple(map(array, zip(*rows, strict=True))) or ("{}",) * width
