"""Reads by POST at the edge: an answer kept under its key, and as CSV to those who ask for it (G-008, G-151).

The CSV (RFC 4180) is safe to open in a spreadsheet, which takes a text that begins like a formula for one. People's
texts are in these rows: such a text gets an apostrophe before it, which a spreadsheet does not show. Numbers stay.
"""

from __future__ import annotations

import csv
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from io import StringIO
from typing import Any, Final

import msgspec

from service.eventstore.declare.commands import Answer, Intent, Outcome, Unit
from service.http.answer.reply import prefers
from service.http.declare.call import Call
from statemachines.kernel.machine import Moved

MOST_STORED: Final = 64 * 1024
"""Bytes of an answer that is stored under a key; of a larger one key and request are bound, and it is read anew."""


class _Shown(msgspec.Struct):
    """A column as far as CSV names it."""

    name: str


class _Rows(msgspec.Struct):
    """An answer as far as CSV shows it."""

    columns: list[_Shown]
    rows: list[dict[str, Any]]


async def answer_read(call: Call, read: Callable[[], Awaitable[Answer]]) -> Answer | Outcome:
    """Answer a read by POST, in the form that the caller asks for.

    What was answered under the request's key is answered again, whatever a read would find or fail with now. Raises
    what `read` and the store raise.
    """
    return await _in_form(call, await stored_answer(call) or await _read(call, read))


async def stored_answer(call: Call) -> Outcome | None:
    """The answer stored under the key of the request. None without one. Raises as the store.

    For doors with a read before their command. The command itself finds the answer only after the read.
    """
    if call.key is None:
        return None
    try:
        return await call.carry_out(Intent([], _nothing_stored), _as_it_is)
    except Moved:
        return None


async def _read(call: Call, read: Callable[[], Awaitable[Answer]]) -> Answer | Outcome:
    answer = await read()
    if call.key is None:
        return answer
    if len(msgspec.json.encode(answer.body)) <= MOST_STORED:
        return await call.carry_out(Intent([], lambda _: answer), _as_it_is)
    await call.carry_out(Intent([], lambda _: Answer(answer.status, None, pending=True)), _as_it_is)
    return answer


def _nothing_stored(_: Unit) -> Answer:
    """Leave no trace: this is decided only where nothing is stored under the key."""
    raise Moved


def _as_it_is(answer: Answer) -> Answer:
    return answer


async def _in_form(call: Call, answer: Answer | Outcome) -> Answer | Outcome:
    if not call.operation.docs.tables or not prefers(call.header("accept"), MEDIA):
        return answer
    body = answer.body if isinstance(answer, Outcome) else msgspec.json.encode(answer.body)
    text = await call.work_on(len(body), partial(_as_csv, body))
    replayed = isinstance(answer, Outcome) and answer.replayed
    return Outcome(answer.status, text, {**answer.headers, "content-type": CONTENT_TYPE}, replayed)


def _as_csv(body: bytes) -> bytes:
    found = msgspec.json.decode(body, type=_Rows)
    return write_csv([column.name for column in found.columns], found.rows)


def server_timing(waited_ms: float, database_ms: float) -> str:
    """The Server-Timing header of a read: how long it waited for its turn and how long it took, in milliseconds."""
    return f'wait;desc="waiting for a turn";dur={waited_ms:.1f}, db;desc="reading";dur={database_ms:.1f}'


MEDIA = "text/csv"
CONTENT_TYPE = f"{MEDIA}; charset=utf-8; header=present"
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_csv(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Write rows with a line of names before them; an absent value is empty, and what is no scalar is JSON."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow([_cell(name) for name in names])
    writer.writerows([[_cell(row[name]) for name in names] for row in rows])
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f"'{text}" if text.startswith(FORMULA) else text
