"""An analytics query from its checked form to its table (G-066, G-151, G-152, G-154)."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from service.analytics.blueprints.parameters import by_days
from service.analytics.bounded.answers import DEFAULT_ROWS, REACH, Bounded, Rows, Table, Window
from service.analytics.bounded.receipt import Question, table_of
from service.analytics.connecting.http import QueryRefused
from service.analytics.queries import LARGE_ROWS, BoundedQueries
from service.analytics.refusals import ProviderRefusedQuery
from service.analytics.structured.cells import columns_of, row_type, structured_rows, text_rows
from service.analytics.structured.check_text import check_text
from service.analytics.structured.checking import Structured
from service.analytics.structured.compiling import OWN, PROVIDER, compile_query
from service.analytics.structured.unfit import UnfitText
from service.auth.refusals import InvalidPayload
from statemachines.kernel.readings import ReadFailed

_OUTER: Final = "select * from (\n{text}\n) limit {{most}}"


async def ask_structured(
    queries: BoundedQueries, project_id: str, tenant: str, query: Structured, asked: dict[str, Any]
) -> Table | ReadFailed:
    """Answer a structured query in the name of a tenant. The receipt names `asked`, its body.

    Raises InvalidPayload for an impossible window and for a query the provider refuses, and as BoundedQueries.ask.
    """
    as_of = await queries.now()
    window = by_days(None, query.since, query.until, as_of)
    own = compile_query(query, OWN)
    provided = compile_query(query, PROVIDER) if query.source == "events" else None
    bounded = Bounded(
        source=query.source,
        local=own.text,
        connected=None if provided is None else provided.text,
        row=row_type(query),
        single=query.aggregates and not query.groups,
        values=own.values if provided is None else {**own.values, **provided.values},
        window=window,
        as_of=as_of,
        most=query.limit,
        confined=True,
        reach=REACH,
    )
    found = await queries.ask(project_id, tenant, bounded)
    if isinstance(found, QueryRefused):
        raise ProviderRefusedQuery("select")
    if isinstance(found, ReadFailed):
        return found
    named = {name: value for name, value in asked.items() if name not in {"from", "to", "limit"}}
    question = Question(asked={"query": named}, params={}, window=window, limit=query.limit)
    return await queries.apart(tenant, len(found.rows), partial(_lay_out, question, query, found))


def _lay_out(question: Question, query: Structured, found: Rows) -> Table:
    rows, cut = structured_rows(query, found.rows)
    return table_of(question, columns_of(query), rows, found, [found], cut=cut)


async def ask_text(queries: BoundedQueries, project_id: str, tenant: str, text: str) -> Table | ReadFailed:
    """Answer a text in the name of a tenant: of a connected provider, and inside a limit.

    Raises InvalidPayload for a text other than one bounded select and for one the provider refuses, NoProvider, and as
    BoundedQueries.ask.
    """
    await queries.need_provider(project_id)
    try:
        # A short text may be as dear as a long one, and the first one loads the grammar.
        select = await queries.apart(tenant, LARGE_ROWS + 1, partial(check_text, text))
    except UnfitText as unfit:
        raise InvalidPayload("The query text is not acceptable.", invalid=[("query", str(unfit))]) from None
    as_of = await queries.now()
    window = Window(0, as_of + 1)
    bounded = Bounded(
        source="events",
        local=None,
        connected=_OUTER.format(text=select),
        row=None,
        values={},
        window=window,
        as_of=as_of,
        most=DEFAULT_ROWS,
    )
    found = await queries.ask(project_id, tenant, bounded)
    if isinstance(found, QueryRefused):
        raise ProviderRefusedQuery("query")
    if isinstance(found, ReadFailed):
        return found
    question = Question(asked={"query": text}, params={}, window=window, limit=DEFAULT_ROWS)
    return await queries.apart(tenant, len(found.rows), partial(_lay_out_text, question, found))


def _lay_out_text(question: Question, found: Rows) -> Table:
    columns, rows = text_rows(found.names, found.rows)
    return table_of(question, columns, rows, found, [found])
