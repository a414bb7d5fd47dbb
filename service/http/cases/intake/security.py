"""`POST /api/{alias}/security/`: reports of browsers on broken security policies, as errors (G-142).

A body is one report, or several as the Reporting API sends them, each taken as if it had come alone. Reports on
extensions of the browser and of other kinds are answered like stored ones, and counted by name.
"""

from collections import Counter
from functools import partial
from http import HTTPStatus

import msgspec
from litestar.di import NamedDependency
from litestar.params import RequestBody

from schemas.cases.foreign import MAX_EVENT_BYTES, SentryReported, SentryReportQuery
from service.auth.refusals import InvalidPayload
from service.auth.secrets import SENTRY
from service.eventstore.declare.commands import Answer
from service.fairness.offload import LARGE
from service.http.answer.errors import UnsupportedMediaType
from service.http.body.adjusting import adjust
from service.http.body.gate import Odd, check_body, check_values
from service.http.cases.intake import sdks
from service.http.cases.intake.sdk_route import sdk_route
from service.http.cases.intake.several import Parts, cut, groups_of, settle
from service.http.declare.call import Call
from service.http.declare.forms import ARRAY, media_of
from service.http.declare.headers import head_of
from service.ingest.foreign.common import FRAMES, TakenLog, to_log
from service.ingest.foreign.security import MalformedReport, ReportFacts, read_report
from service.ingest.items import AS_SENT, Adjustments, Item
from service.ingest.kept import NOT_KEPT, REFUSED, Kind

OPERATION = "security report"
"""How records of requests call it."""
MEDIA = (
    "application/csp-report",
    "application/expect-ct-report",
    "application/expect-ct-report+json",
    "application/expect-staple-report",
    "application/json",
    "application/reports+json",
)
_TYPE = "raw_security"
_MALFORMED = "malformed_report"


@sdk_route(
    sdks.SENTRY,
    "/api/{alias}/security/",
    "record_security_reports",
    "Record security reports of a browser",
    SentryReported,
    max_body=MAX_EVENT_BYTES,
    unpacked=MAX_EVENT_BYTES,
    media_type=MEDIA[0],
)
async def record_security_reports(
    call: Call, data: RequestBody[bytes], params: NamedDependency[SentryReportQuery]
) -> Answer:
    """Store the reports of a body. Each is an error, in the case of its directive and blocked origin (G-142)."""
    _check_media(call)
    texts = await call.work_on_body(partial(_texts, data))
    call.take_tokens(len(texts) - 1)
    call.records = Counter()
    parts = Parts[str](call, partial(settle, call), foreign=True)
    facts = _facts(call, params)
    for group in groups_of(map(len, texts)):
        await parts.turn(group.size)
        for index in group.indexes:
            try:
                await _add(call, parts, texts[index], facts)
            except InvalidPayload:
                call.records["logs", HTTPStatus.BAD_REQUEST] += 1
                _count(call, _MALFORMED, REFUSED)
                if len(texts) == 1:
                    raise
    await parts.store()
    _count(call, _MALFORMED, REFUSED, parts.refused)
    return Answer(200, SentryReported(call.records["logs", HTTPStatus.BAD_REQUEST] or msgspec.UNSET))


def _check_media(call: Call) -> None:
    """Raise UnsupportedMediaType for any other content type than those of reports."""
    if media_of(head_of(call.scope).headers) not in MEDIA:
        raise UnsupportedMediaType(
            "The body is of no type of security reports.",
            next_action="Send it as one of details.media_types.",
            media_types=MEDIA,
        )


def _texts(raw: bytes) -> list[bytes]:
    """The reports of a body. Raises InvalidPayload, and TooManyItems."""
    return list(cut(raw, ARRAY.name)) if raw.lstrip()[:1] == b"[" else [raw]


def _facts(call: Call, params: SentryReportQuery) -> ReportFacts:
    return ReportFacts(call.header("user-agent"), params.sentry_release, params.sentry_environment)


async def _add(call: Call, parts: Parts[str], text: bytes, facts: ReportFacts) -> None:
    """Read a report, a large or odd one apart, and add or count it. Raises InvalidPayload."""
    adjustments = AS_SENT
    try:
        work = partial(_read, text, facts)
        log = await call.work_apart(work) if len(text) > LARGE else work()
    except Odd:
        log, adjustments = await call.work_apart(partial(_read_adjusted, text, facts))
    if isinstance(log, str):
        call.services.intake.sdks.items[SENTRY, log] += 1
        _count(call, log, NOT_KEPT)
        return
    call.services.intake.sdks.items[SENTRY, _TYPE] += 1
    parts.add("logs", Item(OPERATION, call.sender, log.body, log.raw, adjustments, client=log.client, clock=log.clock))


def _count(call: Call, name: str, outcome: str, amount: int = 1) -> None:
    """Count reports that are not kept, by their name."""
    call.services.intake.kinds.note(Kind(call.project_id, SENTRY, name, outcome), amount)


def _read(text: bytes, facts: ReportFacts) -> TakenLog | str:
    """Read a report. Raises Odd for one to adjust first, and InvalidPayload. Pure."""
    check_values(text)  # first, for a text of many is dear
    try:
        event = read_report(check_body(text), facts)
    except MalformedReport as fault:
        raise InvalidPayload("The body is no security report.", invalid=[("", str(fault))]) from None
    return event if isinstance(event, str) else to_log(event)


def _read_adjusted(text: bytes, facts: ReportFacts) -> tuple[TakenLog | str, Adjustments]:
    adjusted = adjust(text, FRAMES)
    return _read(adjusted.raw, facts), adjusted.adjustments


ENDPOINTS = [record_security_reports]
