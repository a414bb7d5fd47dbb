"""`POST /v1/projects/{project_id}/event-imports`: exported events of Sentry, GlitchTip and Bugsink.

They pass the door of the SDKs, the scrubber and the grouping, and count for nothing but their cases: no webhook, no
message, alert or usage, and no limit of new cases. The marks of their rows keep them out of decisions. An owner sends
them, whose rights are proven again under the gates of each flush. An event is known by its id, so a batch may be sent
again at any time.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from litestar.params import JSONBody

from schemas.cases.foreign import (
    MAX_IMPORT_BYTES,
    EventsImported,
    ExportedEvent,
    ImportedEvent,
    ImportEvents,
    ImportOutcome,
    IssueState,
)
from service.auth.authority import authority
from service.auth.refusals import InvalidPayload
from service.billing.plans import days_kept
from service.eventstore.connect.facts import DAY
from service.eventstore.declare.commands import Answer, Outcome
from service.http.answer.errors import PayloadTooLarge
from service.http.body.gate import Odd
from service.http.cases.intake.sentry import OPERATION, ReadEvent, read_adjusted, read_text
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Who
from service.http.declare.operations import OWNER
from service.ingest.items import IMPORT_MARK, Importing, Item, Result, Sender
from service.ingest.outcomes import SdkClock
from service.sql import load_query
from statemachines.cases import case

_KNOWN = load_query("ingest", "known_imports")
_WISHED: Mapping[IssueState, case.Status] = {
    "unresolved": case.Status.OPEN,
    "resolved": case.Status.RESOLVED,
    "ignored": case.Status.IGNORED,
}
_NEXT = "Send the next events. A case opened by an import has the trust `imported` until an error arrives by a DSN."
_NEXT_DRY = "Nothing was stored. Send the events without dry_run."


class JudgedEvent(NamedTuple):
    """An event of an export before it is stored: read, or with the reason why it is not taken."""

    event_id: str | None
    state: IssueState
    read: ReadEvent | None = None
    happened: int = 0
    reason: str | None = None


@groups.CASES.post("/v1/projects/{project_id}/event-imports", "Import exported events of Sentry")
@Who(OWNER, owner=True)
@Body(max_body=MAX_IMPORT_BYTES)
@Fencing(idempotency="none")
@Docs(EventsImported, extension=True)
async def import_events(call: Call, data: JSONBody[ImportEvents]) -> Answer:
    """Store exported events in their cases, each once."""
    days = await days_kept(call.services.store, call.services.settings.terms, call.project_id)
    judged = await call.work_on(len(call.raw_body), partial(_judge, data.events))
    now, known = await _look(call, judged)
    told: list[ImportedEvent | None] = [_refused(one, known, now - days * DAY) for one in judged]
    items = {at: _item(call, one) for at, one in enumerate(judged) if told[at] is None}
    results = [] if data.dry_run else await call.services.intake.submit_all([*items.values()])
    if lost := next((one for one in results if isinstance(one, Exception)), None):
        raise lost  # Those that are stored are there already when the batch comes again.
    shown = dict(zip(items, results, strict=True)) if results else {}
    events = [one or _taken(judged[at], items[at], shown.get(at)) for at, one in enumerate(told)]
    return Answer(200, _answer(call.project_id, events, days, dry_run=data.dry_run))


def _judge(events: Sequence[ExportedEvent]) -> list[JudgedEvent]:
    """Read events. Pure."""
    return [_read(one) for one in events]


def _read(sent: ExportedEvent) -> JudgedEvent:
    text = sent.event.encode()
    try:
        try:
            read = read_text(text, None, variables=False)
        except Odd:
            read = read_adjusted(text, None, variables=False)
    except (InvalidPayload, PayloadTooLarge) as refused:
        return JudgedEvent(None, sent.state, reason=_said(refused))
    if not read.own_id:
        return JudgedEvent(None, sent.state, reason="event_id must have 32 hexadecimal digits")
    if read.log.clock.happened is None:
        return JudgedEvent(read.event_id, sent.state, reason="timestamp must be a time")
    return JudgedEvent(read.event_id, sent.state, read, read.log.clock.happened)


def _said(refused: InvalidPayload | PayloadTooLarge) -> str:
    """The first reason in a refusal."""
    faults = refused.details.get("invalid_fields") or [{"reason": str(refused)}]
    return str(faults[0]["reason"])


async def _look(call: Call, judged: Sequence[JudgedEvent]) -> tuple[int, frozenset[str]]:
    """Read the time (epoch seconds), and which of the events are stored."""
    marks = [f"{IMPORT_MARK}{one.event_id}" for one in judged if one.read is not None]
    [[now, found]] = await call.services.store.fetch(_KNOWN, project_id=call.project_id, marks=marks)
    return now, frozenset(mark.removeprefix(IMPORT_MARK) for mark in found)


def _refused(one: JudgedEvent, known: frozenset[str], earliest: int) -> ImportedEvent | None:
    """What is told of an event that is not stored. None for one to store."""
    if one.read is None:
        return _told(one, "malformed")
    if one.event_id in known:
        return _told(one, "already_there")
    return _told(one, "too_old") if one.happened < earliest else None


def _told(one: JudgedEvent, outcome: ImportOutcome, case_id: str | None = None) -> ImportedEvent:
    return ImportedEvent(event_id=one.event_id, outcome=outcome, case_id=case_id, reason=one.reason)


def _item(call: Call, one: JudgedEvent) -> Item:
    """An event on its way into the database."""
    assert one.read is not None, "taken"
    assert one.event_id is not None, "taken"
    who = call.principal
    shown = authority(who, call.project_id, call.operation)
    importing = Importing(shown, (who.kind.value, who.id), one.event_id, _WISHED[one.state])
    sender = Sender(call.project_id, "", call.request_id, one.event_id, one.event_id, who.account, importing=importing)
    log = one.read.log
    return Item(
        OPERATION,
        sender,
        log.body,
        log.raw,
        one.read.adjustments,
        client=log.client,
        before=log.before,
        clock=SdkClock(one.happened, None),
    )


def _taken(one: JudgedEvent, item: Item, result: Result | None) -> ImportedEvent:
    """What is told of an event that was stored, by this request or before."""
    if isinstance(result, Outcome) and result.replayed:
        return _told(one, "already_there")
    case_id = None if result is None else getattr(item.row, "case_id", None)
    return _told(one, "imported", case_id)


def _answer(project_id: str, events: list[ImportedEvent], days: int, *, dry_run: bool) -> EventsImported:
    counts = Counter(one.outcome for one in events)
    return EventsImported(
        project_id=project_id,
        dry_run=dry_run,
        retention_days=days,
        imported=counts["imported"],
        already_there=counts["already_there"],
        too_old=counts["too_old"],
        malformed=counts["malformed"],
        events=events,
        next_action=_NEXT_DRY if dry_run else _NEXT,
    )


ENDPOINTS = [import_events]
