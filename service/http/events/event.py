"""Events of a project and of its streams at the edge: as pages, as a download, and as an endless stream (G-169)."""

from functools import partial
from typing import Any, NamedTuple

import msgspec
from litestar.di import NamedDependency

from projections.accounts import MEMBERSHIPS
from schemas.events import LogPage, LogQuery, TopicQuery, TopicSchemas
from schemas.kernel.shape import SAFE_INTEGER
from service import events as eventss
from service.archives.archive import ArchiveUnderWay
from service.auth.authority import Principal, streams_of
from service.auth.refusals import InvalidPayload, NotFound
from service.events import (
    EventSource,
    EventsRead,
    StreamAuthority,
    StreamParts,
    asyncapi,
    download,
    follow,
    topic_schemas,
)
from service.eventstore.declare.commands import Answer, Outcome
from service.eventstore.store import EventStore
from service.http.answer.errors import RateLimited
from service.http.answer.reply import JSON, Streamed, prefers
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import ANYONE, OWNER, Subject

LINES = "application/x-ndjson"
SENT = "text/event-stream"
BATCH = "application/cloudevents-batch+json"


class FoundStream(NamedTuple):
    """A stream by the id in a path, with its project."""

    project_id: str
    id: str


async def _find_stream(store: EventStore, stream_id: str, principal: Principal) -> FoundStream | None:
    if principal.user_id is None:
        return None
    project_id = await eventss.find_stream(store, stream_id, principal.user_id)
    return None if project_id is None else FoundStream(project_id, stream_id)


STREAM = Subject("stream_id", MEMBERSHIPS, "not_found", find=_find_stream)


@groups.EVENTS.get("/v1/projects/{project_id}/events", "Read or follow the events of a project")
@Who(OWNER, owner=True)
@Docs(LogPage, extension=True, also_answers=(BATCH, LINES, SENT))
async def list_events(call: Call, params: NamedDependency[LogQuery]) -> Answer | Outcome | Streamed:
    """Answer events after a position, in the form of the Accept header."""
    return await _answer(call, params, EventSource(call.project_id))


@groups.EVENTS.get("/v1/streams/{stream_id}/events", "Read or follow the events of one stream")
@Who(OWNER, owner=True, subject=STREAM)
@Docs(LogPage, errors=("not_found",), extension=True, also_answers=(BATCH, LINES, SENT))
async def list_stream_events(call: Call, params: NamedDependency[LogQuery]) -> Answer | Outcome | Streamed:
    """Answer the events of a stream after a position, in the form of the Accept header."""
    return await _answer(call, params, EventSource(call.project_id, call.subject.id))


async def _answer(call: Call, params: LogQuery, source: EventSource) -> Answer | Outcome | Streamed:
    services, accept = call.services, call.header("accept")
    as_cloud_events = params.format == "cloudevents"
    encode = eventss.encode_cloud_event(services.settings.base_url) if as_cloud_events else eventss.encode_event
    authority = StreamAuthority(call.readmit, streams_of(call.principal, call.project_id), call.principal.tenant)
    sources = StreamParts(services.store, services.follower, services.feeds)
    if params.before is not None:
        return await _before(call, params, source, params.before)
    if prefers(accept, SENT) and JSON not in (accept or ""):  # A client of /mcp names both, and means pages.
        pieces = follow(sources, source, _begin(call, params), authority, encode)
        return Streamed(pieces, headers={"content-type": SENT}, endless=True)
    if prefers(accept, LINES):
        lines = download(sources, source, params.after, authority, encode)
        return Streamed(lines, headers={"content-type": LINES})
    page = await eventss.read_page(services.store, source, params.after, params.limit)
    if prefers(accept, BATCH) or as_cloud_events:
        return _batch(call, params, page)
    return Answer(
        200,
        LogPage(
            project_id=source.project_id,
            events=list(map(eventss.show_event, page.events)),
            next_after=page.next_after,
            log_size=page.log_size,
            next_action="Read on with after, as next_after says." if page.more else "This is the end of the log.",
        ),
    )


async def _before(call: Call, params: LogQuery, source: EventSource, before: int) -> Answer:
    """A page of the last events before a position. Raises InvalidPayload when it is asked for in another form."""
    accept = call.header("accept")
    pages = JSON in (accept or "") or not (prefers(accept, SENT) or prefers(accept, LINES) or prefers(accept, BATCH))
    if params.after or params.format != "event" or not pages:
        raise InvalidPayload(invalid=[("before", "must come without after, for a page in JSON")])
    page = await eventss.read_before(call.services.store, source, before, params.limit)
    events = list(map(eventss.show_event, page.events))
    return Answer(
        200,
        LogPage(
            project_id=source.project_id,
            events=events,
            next_after=events[-1].position if events else max(0, min(before - 1, page.log_size)),
            next_before=page.next_before,
            log_size=page.log_size,
            next_action="This is the beginning." if page.next_before is None else "Read back with before.",
        ),
    )


def _begin(call: Call, params: LogQuery) -> int:
    """The position to begin after: of the last event the client has, else of the query.

    Raises InvalidPayload for any other id.
    """
    last = call.header("last-event-id")
    if not last:
        return params.after
    if last.isascii() and last.isdigit() and len(last) <= len(str(SAFE_INTEGER)):
        return int(last)
    raise InvalidPayload(
        "The Last-Event-ID is not valid.", invalid=[("last-event-id", "must be a position of the log")]
    )


def _batch(call: Call, params: LogQuery, page: EventsRead) -> Outcome:
    """A page as a batch of CloudEvents, with the next page in the Link header."""
    settings = call.services.settings
    events: list[Any] = list(map(partial(eventss.cloud_event, base_url=settings.base_url), page.events))
    link = f'<{call.scope["path"]}?after={page.next_after}&limit={params.limit}>; rel="next"'
    return Outcome(200, msgspec.json.encode(events), {"content-type": BATCH, "link": link})


# The archive of a project at the edge: one file with all that is stored of it, for its owners and auditors.

TAR = "application/x-tar"


@groups.EVENTS.get("/v1/projects/{project_id}/archive", "Download everything that is stored of a project")
@Who(OWNER, owner=True)
@Docs(bytes, extension=True, content_type=TAR, sealed=True)
async def get_project_archive(call: Call) -> Streamed:
    """Make an archive in one snapshot, and send it as it grows."""
    try:
        archive = await call.services.archives.begin(call.project_id, call.principal.tenant)
    except ArchiveUnderWay:
        raise RateLimited(
            "This account is sent an archive already.",
            next_action="Let the other one end, then repeat the request.",
            max_waiting=1,
        ) from None
    name = f'attachment; filename="{call.project_id}.tar"'
    return Streamed(archive.pieces(call.readmit), headers={"content-disposition": name}, let_go=archive.let_go)


# The forms of events at the edge, for decoding them.

ASYNCAPI = "application/vnd.aai.asyncapi+json;version=3.0.0"


@groups.EVENTS.get("/v1/events/schemas", "Show the JSON Schema of each topic")
@Who(ANYONE)
@Fencing(rate="none")
@Docs(TopicSchemas, errors=("not_found",), extension=True)
async def get_event_schemas(call: Call, params: NamedDependency[TopicQuery]) -> Answer:
    """Show the schemas of all topics, or of one."""
    found, topic = await call.once(topic_schemas), params.topic
    if topic is not None and topic not in found:
        raise NotFound("There is no such topic.")
    return Answer(200, TopicSchemas(schemas=found if topic is None else {topic: found[topic]}))


@groups.EVENTS.get("/v1/events/asyncapi.json", "Show the streams of events as an AsyncAPI document")
@Who(ANYONE)
@Fencing(rate="none")
@Docs(None, extension=True, content_type=ASYNCAPI)
async def get_asyncapi(call: Call) -> Outcome:
    """Describe the streams by AsyncAPI 3."""
    return Outcome(200, await call.once(asyncapi, call.services.settings.base_url), {})


ENDPOINTS = [list_events, list_stream_events, get_project_archive, get_event_schemas, get_asyncapi]
