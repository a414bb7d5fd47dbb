"""Feedback of people, stored before the answer, at most some a minute (G-194).

It comes among the items of a Sentry envelope, or alone by `POST /api/0/projects/…/user-feedback/`, Sentry's older way.
An item beyond the limit, or without a text, is refused and counted. The SDK hears of the limit by a header of its own:
it drops further ones meanwhile, and sends errors on.
"""

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from litestar.params import RequestBody

from schemas.cases.foreign import SentryUserReport, SentryUserText
from service.auth.refusals import InvalidPayload
from service.auth.secrets import SENTRY
from service.eventstore.declare.commands import Answer
from service.http.answer.errors import PayloadTooLarge, RateLimited
from service.http.body.adjusting import adjust
from service.http.body.gate import Odd, check_body, check_values
from service.http.cases.intake import sdks
from service.http.cases.intake.sdk_route import sdk_route
from service.http.declare.call import Call
from service.ingest.foreign.common import FRAMES
from service.ingest.foreign.feedback import SOURCES, USER_REPORT, MalformedFeedback, to_row
from service.ingest.kept import REFUSED, FeedbackRow, Kind
from service.ingest.scrubbing import Findings, Scrubber
from service.settingvalues import FEEDBACK
from statemachines.projects.project import ProjectDeletionInProgress

MOST_ITEMS = 16
"""Reports of each form read in one envelope."""
MOST_BYTES = 256 * 1024
"""Of one of them."""
_CATEGORIES = ";".join(sorted(SOURCES))


class TakenFeedback(NamedTuple):
    """The numbers of kept and of refused items by type, and why the last one was refused."""

    kept: Counter[str]
    refused: Counter[str]
    refusal: InvalidPayload | PayloadTooLarge | RateLimited | None


async def take(call: Call, envelope_id: str | None, items: Iterable[tuple[str, bytes | None]]) -> TakenFeedback:
    """Store feedback, and tell the SDK of its limit.

    Raises OutcomeUnknown, and ProjectDeletionInProgress.
    """
    kept, refused, refusal = Counter[str](), Counter[str](), None
    for source, payload in items:
        try:
            await _store(call, source, payload, envelope_id)
        except (InvalidPayload, PayloadTooLarge, RateLimited) as error:
            refused[source] += 1
            refusal = error
        else:
            kept[source] += 1
    return TakenFeedback(kept, refused, refusal)


def _take_token(call: Call) -> None:
    """Charge one item to its DSN. Raises RateLimited with the header for items of people alone."""
    try:
        call.take_token_of(FEEDBACK)
    except RateLimited as limited:
        wait = limited.headers["retry-after"]
        told = {"x-sentry-rate-limits": f"{wait}:{_CATEGORIES}:key:{limited.code}"}
        call.headers.update(told)
        raise RateLimited(headers={**limited.headers, **told}) from None


async def _store(
    call: Call, source: str, payload: bytes | None, envelope_id: str | None = None, *, about: bool = False
) -> FeedbackRow:
    """Store an item, and return its row. `about`: it has to name its error. Raises as `take`, and each refusal."""
    _take_token(call)
    if payload is None:
        raise PayloadTooLarge("The feedback is larger than this operation accepts.", max_bytes=MOST_BYTES)
    intake = call.services.intake
    read = partial(_read, payload, source, envelope_id, intake.scrubber)
    try:
        row, counts = await call.work_on(len(payload), read)
    except Odd:
        row, counts = await call.work_apart(partial(_read_adjusted, payload, source, envelope_id, intake.scrubber))
    if about and row.event_key is None:
        raise sdks.unacceptable("event_id must be the id of an event, 32 hexadecimal digits")
    if not await call.services.feedback.store(call.project_id, row, public=call.sender.public):
        raise ProjectDeletionInProgress("The project is being deleted.")
    intake.scrubbed += counts
    return row


def _read(
    text: bytes, source: str, envelope_id: str | None, scrubber: Scrubber, places: tuple[str, ...] = ()
) -> tuple[FeedbackRow, Findings]:
    """Read an item. Raises Odd when it has to be adjusted first, and InvalidPayload."""
    check_values(text)
    payload = check_body(text)
    if not isinstance(payload, dict):
        raise sdks.unacceptable("feedback must be a JSON object")
    try:
        return to_row(source, payload, envelope_id, scrubber, places)
    except MalformedFeedback as fault:
        raise sdks.unacceptable(str(fault)) from None


def _read_adjusted(
    text: bytes, source: str, envelope_id: str | None, scrubber: Scrubber
) -> tuple[FeedbackRow, Findings]:
    adjusted = adjust(text, FRAMES)
    return _read(adjusted.raw, source, envelope_id, scrubber, adjusted.adjustments.places)


@sdk_route(
    sdks.SENTRY,
    "/api/0/projects/{organization}/{alias}/user-feedback/",
    "record_sentry_user_report",
    "Record a text of a person on an error",
    SentryUserReport,
    max_body=MOST_BYTES,
    unpacked=MOST_BYTES,
    media_type="application/json",
    shown_body=SentryUserText,
)
async def record_sentry_user_report(call: Call, data: RequestBody[bytes]) -> Answer:
    """Store it beside its error, as an item `user_report` of an envelope (G-142). A repeat changes nothing."""
    intake = call.services.intake
    intake.sdks.items[SENTRY, USER_REPORT] += 1
    try:
        row = await _store(call, USER_REPORT, data, about=True)
    except (InvalidPayload, PayloadTooLarge, RateLimited):
        intake.kinds.note(Kind(call.project_id, SENTRY, USER_REPORT, REFUSED))
        raise
    return Answer(200, SentryUserReport(row.event_key or "", row.message, row.name, row.email))


ENDPOINTS = [record_sentry_user_report]
