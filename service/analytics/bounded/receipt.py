"""From the rows of reads to the shown table, with a receipt of question and answer (G-152)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from schemas.analytics.answer import Column, Evidence, Freshness
from schemas.kernel.shape import EvidenceSource
from service.analytics.bounded.answers import Rows, Table, Timing, Window
from statemachines.kernel.canonical import canonical_sha256, with_whole_numbers


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked, as its receipt and its evidence name it: `asked` is {"blueprint_id": …} or {"query": …}."""

    asked: Mapping[str, Any]
    params: dict[str, Any]
    window: Window
    limit: int


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
    provided = any(read.source == "provider_cloud" for read in reads)
    source: EvidenceSource = "provider_cloud" if provided else "local"
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
