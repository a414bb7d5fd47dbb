"""The stored records below `error`, for members (G-196, an extension)."""

from contextlib import aclosing
from functools import partial

from litestar.di import NamedDependency

from schemas.cases.event import StoredLogList, StoredLogQuery
from service.auth.refusals import InvalidPayload
from service.cases import logs as reads
from service.cases import logs as show
from service.eventstore.declare.commands import Answer
from service.eventstore.read.reader import PageEnd
from service.http.answer.paging import encode_cursor, start_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Who
from service.http.declare.operations import KEY


@groups.CASES.get("/v1/projects/{project_id}/logs", "List the stored records below error")
@Who(KEY)
@Docs(StoredLogList, extension=True)
async def list_logs(call: Call, params: NamedDependency[StoredLogQuery]) -> Answer:
    """List the records of a project that belong to no case, as they were stored, newest first."""
    end = start_of(params)
    texts: list[bytes] = []
    last: PageEnd | None = end
    async with aclosing(reads.newest(call.services.store, call.project_id, _wanted(params), end)) as pieces:
        async for piece in pieces:
            work = partial(show.encoded, piece.logs, params.trace, params.limit - len(texts), sum(map(len, texts)))
            written = await call.work_on(sum(log.size for log in piece.logs), work)
            texts += written.texts
            if written.taken < len(piece.logs):
                last = piece.logs[written.taken - 1].place if written.taken else last
                break
            last = piece.end
    return Answer(200, show.page(call.project_id, texts, last, encode_cursor(last) if last else None))


def _wanted(query: StoredLogQuery) -> show.LogFilter:
    """The filter of a page. Raises InvalidPayload when it ends before it begins."""
    if query.since is not None and query.until is not None and query.until < query.since:
        raise InvalidPayload("The time ends before it begins.", invalid=[("to", "must not be before `from`")])
    return show.LogFilter(
        query.level, query.q, query.user, query.release, query.trace, since=query.since, until=query.until
    )


ENDPOINTS = [list_logs]
