"""`POST /batch/`, `/capture/`, `/e/` and `/i/v0/e/`: what PostHog's SDKs send; and what they ask first (G-142).

Exceptions are log events and in their cases, everything else is an analytics event. The answer comes when all that can
be taken is stored; an event with a uuid is stored once, however often it is sent within 24 hours. So whatever passes
(no room, no database) is answered as such for the whole body, also when a part of it is stored.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from http import HTTPStatus

import msgspec
from litestar.params import RequestBody

from schemas.cases import foreign as wire
from service.auth.refusals import InvalidPayload
from service.auth.secrets import POSTHOG
from service.eventstore.declare.commands import Answer
from service.fairness.offload import LARGE
from service.http.answer.errors import PayloadTooLarge, TooManyItems
from service.http.body.adjusting import adjust
from service.http.body.gate import Odd, check_body, check_values
from service.http.cases.intake import sdks
from service.http.cases.intake.sdk_route import sdk_route
from service.http.cases.intake.several import Parts, groups_of, settle
from service.http.declare.call import Call
from service.ingest.foreign import posthog
from service.ingest.foreign.common import FRAMES
from service.ingest.items import AS_SENT, Adjustments, Item, check_event
from service.ingest.kept import NOT_KEPT, REFUSED, Kind

OPERATION = "PostHog event"
"""How idempotency records call it: an event is the same one, whichever of the routes it takes."""

_EVENT = "event"
_RECORDING = "replay_event"
_UNREADABLE = "malformed_event"
_TOO_LARGE = "too_large_event"
_MALFORMED = ("analytics", HTTPStatus.BAD_REQUEST)  # of an event that nothing else is known of


_route = partial(
    sdk_route, sdks.POSTHOG, max_body=wire.MAX_POSTHOG_BYTES, unpacked=wire.MAX_POSTHOG_BYTES, piecewise=True
)
_ask_route = partial(sdk_route, sdks.POSTHOG, max_body=wire.MAX_QUESTION_BYTES, unpacked=wire.MAX_QUESTION_BYTES)


@_route("/batch/", "capture_posthog_batch", "Record a batch of a PostHog SDK", wire.PosthogAccepted)
async def capture_posthog_batch(call: Call) -> Answer:
    """Store the events of a body (G-142)."""
    return Answer(200, wire.PosthogAccepted(1, await _record(call) or msgspec.UNSET))


@_route("/capture/", "capture_posthog_event", "Record an event of a PostHog SDK", wire.PosthogAccepted)
async def capture_posthog_event(call: Call) -> Answer:
    """Store the events of a body, most often one."""
    return Answer(200, wire.PosthogAccepted(1, await _record(call) or msgspec.UNSET))


@_route("/e/", "capture_posthog_events", "Record events of a PostHog SDK in a browser", wire.PosthogAccepted)
async def capture_posthog_events(call: Call) -> Answer:
    """Store the events of a body, as browsers send it."""
    return Answer(200, wire.PosthogAccepted(1, await _record(call) or msgspec.UNSET))


@_route("/i/v0/e/", "ingest_posthog_events", "Record events of a newer PostHog SDK", wire.PosthogCaptured)
async def ingest_posthog_events(call: Call) -> Answer:
    """Store the events of a body, and say so in the words of this route."""
    return Answer(200, wire.PosthogCaptured("Ok", await _record(call) or msgspec.UNSET))


@_ask_route("/flags/", "read_posthog_flags", "Tell a PostHog SDK that there are no flags", wire.PosthogFlags)
async def read_posthog_flags(call: Call, data: RequestBody[bytes]) -> Answer:
    """Say that there are no flags and no recordings. The fence closes this to a DSN as well (G-131)."""
    return await _tell_no_flags(call, data)


@_ask_route("/decide/", "decide_posthog", "Tell an old PostHog SDK that there are no flags", wire.PosthogFlags)
async def decide_posthog(call: Call, data: RequestBody[bytes]) -> Answer:
    """Say the same as for flags, which older SDKs ask for here."""
    return await _tell_no_flags(call, data)


async def _tell_no_flags(call: Call, data: bytes) -> Answer:
    """Answer any question for flags. Raises InvalidPayload for what is none, and as `admit`."""
    await call.work_on_body(partial(_check, data))
    await call.services.authenticator.admit(call.principal, call.project_id, call.operation)
    return Answer(200, wire.PosthogFlags())


async def _record(call: Call) -> int:
    """Store the events of a body; returns how many were refused for good.

    Of too many events the first are stored. Raises InvalidPayload for a body, or an event alone, that is none,
    PayloadTooLarge when nothing but too large events came, TooManyItems, RateLimited, and what the intake raises.
    """
    assert call.upload is not None
    known = call.upload.found
    if known is None and not call.upload.small:
        known = sdks.PosthogKey()
        async for _ in call.work_on_pieces(known):
            pass
    if known is not None and known.sent is not None:
        call.take_tokens(max(0, known.count - 1))
    call.records = Counter()
    body = sdks.PosthogEvents()
    parts = Parts[str](call, partial(settle, call), foreign=True)
    refused = large = 0
    async for texts in call.work_on_pieces(body):
        if known is None or known.sent is None:  # It is there as a whole.
            assert body.sent is not None
            sent = body.sent
            call.take_tokens(max(0, len(texts) - 1))
        else:
            sent = known.sent
        large += texts.count(None)
        refused += await _add(call, sent, texts, parts)
    await parts.store()
    _count(call, _UNREADABLE, REFUSED, parts.refused)
    if body.more:
        raise TooManyItems(wire.MAX_EVENTS)
    if large and large == body.count:
        raise PayloadTooLarge("Each event is larger than this operation accepts.", max_bytes=wire.MAX_EVENT_BYTES)
    return refused + parts.refused


async def _add(call: Call, sent: posthog.Sent, texts: Sequence[bytes | None], parts: Parts[str]) -> int:
    """Add events of a body to the next part. Returns how many are refused.

    Raises InvalidPayload for an event alone that is none, and as `Parts.turn`.
    """
    assert call.records is not None
    refused = 0
    for group in groups_of(len(text or b"") for text in texts):
        await parts.turn(group.size)
        for index in group.indexes:
            text = texts[index]
            if text is None:
                refused += 1
                call.records[_MALFORMED] += 1
                _count(call, _TOO_LARGE, REFUSED)
                continue
            try:
                taken = await _item_of(call, sent, text)
            except InvalidPayload:
                refused += 1
                call.records[_MALFORMED] += 1
                _count(call, _UNREADABLE, REFUSED)
                if sent.alone:
                    raise
                continue
            if isinstance(taken, str):
                _count(call, taken, NOT_KEPT)
                call.services.intake.sdks.items[POSTHOG, _RECORDING] += 1
            else:
                call.services.intake.sdks.items[POSTHOG, _EVENT] += 1
                parts.add(*taken)
    return refused


def _count(call: Call, name: str, outcome: str, amount: int = 1) -> None:
    """Count what is not kept, by its name."""
    call.services.intake.kinds.note(Kind(call.project_id, POSTHOG, name, outcome), amount)


def _check(raw: bytes) -> None:
    """Raise InvalidPayload for a body that is none of a PostHog SDK. Pure."""
    try:
        posthog.cut(raw, 1)
    except posthog.MalformedEvents as fault:
        raise sdks.malformed_events(fault) from None


async def _item_of(call: Call, sent: posthog.Sent, text: bytes) -> tuple[str, Item] | str:
    """Read an event, a large or odd one apart. The name of an unkept one. Raises InvalidPayload."""
    sender = call.sender
    work = partial(_read, sent, text, variables=sender.frame_variables)
    adjustments = AS_SENT
    try:
        record = await call.work_apart(work) if len(text) > LARGE else work()
    except Odd:
        record, adjustments = await call.work_apart(
            partial(_read_adjusted, sent, text, variables=sender.frame_variables)
        )
    if isinstance(record, str):
        return record
    check_event(sender, record.body)
    if record.uuid is not None:
        sender = sender._replace(key=record.uuid, request_hash=record.uuid)
    _, _, body, raw, client, before, clock = record
    return record.kind, Item(OPERATION, sender, body, raw, adjustments, client=client, before=before, clock=clock)


def _read(sent: posthog.Sent, text: bytes, *, variables: bool) -> posthog.PostHogRecord | str:
    """Read an event. Raises Odd when it has to be adjusted first, and InvalidPayload. Pure."""
    check_values(text)  # first, for a text of many is dear
    payload = check_body(text)
    try:
        return posthog.to_record(payload, sent, variables=variables)
    except posthog.MalformedEvents as fault:
        raise sdks.malformed_events(fault) from None


def _read_adjusted(
    sent: posthog.Sent, text: bytes, *, variables: bool
) -> tuple[posthog.PostHogRecord | str, Adjustments]:
    adjusted = adjust(text, FRAMES)
    return _read(sent, adjusted.raw, variables=variables), adjusted.adjustments


ENDPOINTS = [
    capture_posthog_batch,
    capture_posthog_event,
    capture_posthog_events,
    ingest_posthog_events,
    read_posthog_flags,
    decide_posthog,
]
