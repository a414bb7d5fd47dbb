"""One bounded query, the rows that it brings back, and the table that its asker is shown (G-032, G-152).

Every question to telemetry, of blueprints, structured queries, alerts and public queries, is one of these. A failed
read is a ReadFailed, which is no table and no empty one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from schemas.analytics import Column, Evidence, Freshness
from schemas.kernel.shape import QuestionSource
from service.eventstore.connect.facts import DAY
from service.sql import Statement, load_query
from statemachines.kernel.canonical import canonical_sha256, with_whole_numbers

Source = Literal["events", "errors", "deploys"]

MOST_ROWS: Final = 10_000
"""Rows that one read brings back at most."""
DEFAULT_ROWS: Final = 1_000
LONGEST_DAYS: Final = 366
"""Days that a window has at most."""
REACH: Final = 30 * DAY
"""Seconds after an event in which it may be received."""


class Window(msgspec.Struct, frozen=True):
    """A span of time in epoch seconds, `until` excluded."""

    since: int
    until: int


class Bounded(msgspec.Struct, frozen=True, kw_only=True):
    """One bounded query, ready to be asked.

    Errors and deploys are always our own; events are those of the project's provider. `local` is SQL with the places
    %(name)s, and `connected` HogQL with the places {name}. None: this is never asked there. Both are given
    `values`, and project_id (local alone), since, until and most, of which they use what they name; `connected` is also
    given earliest, from which on the client's own time of an event is looked at. `row` is the type of a row, a tuple:
    what a provider answers is checked against it, and that it is just one row where the query is `single`. It is None
    where the provider names the columns itself. At most `most` rows are wanted, and one more is asked for, to see
    whether there are more. `confined`: the shape of `local` is a caller's, and it may see the views of the project
    alone (G-154). Retention counts from `now`, the present. None: it is `as_of`. With a `reach`, `local` goes by the
    time of an event, received up to so many seconds after the window. Without one, it goes by its receipt (G-193).

    `copied` is SQL of ClickHouse for the copy of our own records, with the places {name:Type}. With a `watermark` the
    copy is asked, for the records received before this second (G-200).
    """

    source: Source
    local: Statement | None
    connected: str | None
    copied: str | None = None
    watermark: int | None = None
    row: Any
    single: bool = False
    values: Mapping[str, Any]
    window: Window
    as_of: int
    now: int | None = None
    most: int = MOST_ROWS
    confined: bool = False
    reach: int = 0


class Rows(msgspec.Struct, frozen=True, kw_only=True):
    """What a query brought back: at most one row more than it wanted.

    `last_at` is when the newest record of the source in the project was received; None without one. `kept_from` is the
    first second that is kept. It is None where nothing is removed, or the provider decides. `names` are the columns'
    names where only the provider knows them. `provider_project_id` is the number of the project read there. Times in
    milliseconds.
    """

    rows: list[tuple[Any, ...]]
    as_of: int
    last_at: int | None
    kept_from: int | None
    complete: bool
    source: QuestionSource
    names: list[str] = []
    provider_project_id: int | None = None
    waited_ms: float = 0.0
    database_ms: float = 0.0


class Timing(msgspec.Struct, frozen=True):
    """How long a question waited for its turns, and how long it was read, in milliseconds."""

    waited_ms: float
    database_ms: float


class Table(msgspec.Struct, frozen=True, kw_only=True):
    """An answered question as its asker gets it: rows by the names of their columns, and their evidence.

    `provider_project_id` as in Rows.
    """

    columns: tuple[Column, ...]
    rows: list[dict[str, Any]]
    truncated: bool
    evidence: Evidence
    freshness: Freshness
    timing: Timing
    provider_project_id: int | None = None


# The ordered funnel of a connected provider: its query, the values of that query, and its levels (G-112, G-153).

MAX_STEPS: Final = 20
FUNNEL_HOGQL: Final = load_query("analytics/connected", "ordered_funnel").text


def funnel_values(events: Sequence[str], window: Window) -> dict[str, Any]:
    """Values for FUNNEL_HOGQL. Steps after the last have the empty name."""
    names = [*events, *[""] * (MAX_STEPS - len(events))]
    steps = {f"step_{place}": name for place, name in enumerate(names, 1)}
    return {"events": list(events), "window": window.until - window.since, **steps}


def reached(levels: Iterable[tuple[int, ...]], steps: int) -> list[int]:
    """Sum up the people at each step from pairs of a level and the people who stopped there.

    Raises ValueError for a level outside the funnel, a repeated level or a negative number.
    """
    stopped: dict[int, int] = {}
    for level, people in levels:
        if level in stopped or not 1 <= level <= steps or people < 0:
            raise ValueError("A funnel has each of its levels once.")
        stopped[level] = people
    return [sum(people for level, people in stopped.items() if level >= step) for step in range(1, steps + 1)]


# From the rows of reads to the shown table, with a receipt of question and answer (G-152).


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked, as its receipt and its evidence name it: `asked` is {"blueprint_id": …} or {"query": …}."""

    asked: Mapping[str, Any]
    params: dict[str, Any]
    window: Window
    limit: int


_TOLD: Final[tuple[QuestionSource, ...]] = ("provider_cloud", "copy")
"""The first of these tells what rows of several sources rest on."""


def table_of(
    question: Question,
    columns: tuple[Column, ...],
    found: Sequence[tuple[Any, ...]],
    main: Rows,
    reads: Sequence[Rows],
    *,
    cut: bool = False,
) -> Table:
    """Lay out the rows that the reads came to, at most `limit` of them; `cut`: some are left out already.

    `main` is the read of the question's own source, whose freshness is told, and `reads` are all that the rows rest on,
    itself among them. Pure, and for many rows long: see BoundedQueries.apart.
    """
    names = [column.name for column in columns]
    rows = [dict(zip(names, row, strict=True)) for row in found[: question.limit]]
    kept = [read.kept_from for read in reads if read.kept_from is not None]
    sources = {read.source for read in reads}
    source: QuestionSource = next((one for one in _TOLD if one in sources), "local")
    last = main.last_at
    window = question.window
    return Table(
        columns=columns,
        rows=rows,
        truncated=cut or len(found) > question.limit,
        evidence=Evidence(
            source=source,
            since=window.since,
            until=window.until,
            params=question.params,
            complete=all(read.complete for read in reads),
            kept_from=max(kept, default=None),
            query_receipt_sha256=receipt_of(question, source, columns, rows),
        ),
        freshness=Freshness(main.as_of, last, None if last is None else max(0, main.as_of - last)),
        provider_project_id=next((read.provider_project_id for read in reads if read.provider_project_id), None),
        timing=Timing(sum(read.waited_ms for read in reads), sum(read.database_ms for read in reads)),
    )


def receipt_of(question: Question, source: str, columns: Sequence[Column], rows: list[dict[str, Any]]) -> str:
    """Hash question and answer, in hex: whoever has both can make it again."""
    return canonical_sha256(
        {
            "source": source,
            **question.asked,
            "params": question.params,
            "from": question.window.since,
            "to": question.window.until,
            "limit": question.limit,
            "columns": msgspec.to_builtins(columns),
            "rows": with_whole_numbers(rows),  # the same, and fifty times as fast to write
        }
    )
