"""The stored errors of a case, for its members: the list, and one with its sources (G-176, extensions)."""

from contextlib import aclosing
from functools import partial
from typing import Any

from litestar.di import NamedDependency
from litestar.params import FromPath

from schemas.cases.event import CaseCommon, CaseEvent, CaseEventList, CaseEventQuery, CaseEventRecord, CommonQuery
from service.cases import event as reads
from service.cases import event as show
from service.cases import feedback
from service.cases.sourcemaps.frames import RecordedFrame, frames_of
from service.eventstore.declare.commands import Answer
from service.http.answer.paging import encode_cursor, start_of
from service.http.cases.case import CASE_LOCATED
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Who
from service.http.declare.operations import KEY


@groups.CASES.get("/v1/cases/{case_id}/events", "List the stored errors of a case")
@Who(KEY, subject=CASE_LOCATED)
@Docs(CaseEventList, errors=("case_not_found",), extension=True)
async def list_case_events(call: Call, params: NamedDependency[CaseEventQuery]) -> Answer:
    """List the stored errors of a case and of those merged into it, newest first, as they were stored."""
    store, project_id = call.services.store, call.project_id
    place = start_of(params)
    family = await reads.family_of(store, project_id, call.subject.id)
    texts: list[bytes] = []
    more = False
    async with aclosing(reads.newest(store, project_id, family, place, params.limit + 1)) as found:
        async for events in found:
            fitting = events[: params.limit - len(texts)]
            work = partial(show.encoded, fitting, sum(map(len, texts)))
            written = await call.work_on(sum(event.size for event in fitting), work)
            texts += written
            place = events[len(written) - 1].place if written else place
            if more := len(written) < len(events):
                break
    return Answer(200, show.page(project_id, family, texts, encode_cursor(place) if more else None))


@groups.CASES.get("/v1/cases/{case_id}/events/{event_id}", "Read a stored error of a case with its sources")
@Who(KEY, subject=CASE_LOCATED)
@Docs(CaseEventRecord, errors=("case_not_found", "event_not_found"), extension=True)
async def get_case_event(call: Call, event_id: FromPath[str]) -> Answer:
    """Show a stored error with its frames resolved by source maps and with the lines around them."""
    store, project_id = call.services.store, call.project_id
    family = await reads.family_of(store, project_id, call.subject.id)
    stored = await reads.event_of(store, project_id, family, event_id)
    shown, held, frames, said = await call.work_on(stored.size, partial(_take_apart, stored))
    found = await call.services.unmangler.lead(project_id, stored.release, frames, call.principal.tenant)
    beside = await reads.beside(store, project_id, family, stored.place)
    written = await feedback.about(store, project_id, said)
    return Answer(200, show.record(project_id, family, shown, held, found, beside, written))


@groups.CASES.get("/v1/cases/{case_id}/common", "Count what the stored errors of a case have in common")
@Who(KEY, subject=CASE_LOCATED)
@Docs(CaseCommon, errors=("case_not_found",), extension=True)
async def get_case_common(call: Call, params: NamedDependency[CommonQuery]) -> Answer:
    """Count environments, releases and tags over all stored errors of a case and of those merged into it."""
    store, project_id = call.services.store, call.project_id
    family = await reads.family_of(store, project_id, call.subject.id)
    found = await show.common_of(store, project_id, family, params.newest)
    return Answer(200, show.common(project_id, family, found))


def _take_apart(stored: show.EventRow) -> tuple[CaseEvent, show.Held, list[RecordedFrame], dict[str, Any]]:
    said = show.said_in(stored)
    shown = show.event(stored, said)
    return shown, show.held_in(said, shown.tags), frames_of(said, stored.message), said


ENDPOINTS = [list_case_events, get_case_event, get_case_common]
