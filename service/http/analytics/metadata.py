"""Names of a project's events and keys of their properties, at the edge (R-QRY-05, G-064, G-155)."""

import msgspec
from litestar.di import NamedDependency

from schemas import analytics as wire
from service.analytics.queries import unanswered
from service.auth.refusals import InvalidPayload
from service.eventstore.declare.commands import Answer
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Who
from service.http.declare.operations import KEY
from statemachines.kernel.machine import ReadFailed

_AFTER_NAMES = "Read their keys with GET /v1/projects/{project_id}/event-property-keys?events=a,b."
_AFTER_KEYS = "Run a query blueprint with the events and properties that you need."
_NOTHING = "No such events came in within the window. Send events with POST /v1/analytics/, or ask for more days."
_MORE = "There may be more: repeat with a larger `limit`."


@groups.ANALYTICS.get("/v1/projects/{project_id}/event-names", "List the names of a project's events")
@Who(KEY)
@Docs(wire.EventNames, errors=("rate_limited", "upstream_error", "upstream_timeout"))
async def list_event_names(call: Call, params: NamedDependency[wire.EventNamesQuery]) -> Answer:
    """List names with rows, people and times, most rows first."""
    days, limit = params.days, params.limit
    found = await call.services.queries.describe(
        call.project_id, call.principal.tenant, lambda provider: provider.event_names(days, limit, trend=params.trend)
    )
    if isinstance(found, ReadFailed):
        raise unanswered(found)
    names = [wire.EventName(**msgspec.structs.asdict(name)) for name in found.names]
    body = wire.EventNames(
        project_id=call.project_id,
        window_days=days,
        analytics_events=names,
        count=len(names),
        counted_from=found.counted_from,
        complete=found.complete,
        next_action=_following(len(names), limit, _AFTER_NAMES),
    )
    return Answer(200, body)


@groups.ANALYTICS.get(
    "/v1/projects/{project_id}/event-property-keys", "List the keys of the properties of a project's events"
)
@Who(KEY)
@Docs(wire.PropertyKeys, errors=("invalid_payload", "rate_limited", "upstream_error", "upstream_timeout"))
async def list_event_property_keys(call: Call, params: NamedDependency[wire.PropertyKeysQuery]) -> Answer:
    """List keys with rows and types, most rows first, and never a value."""
    days, limit = params.days, params.limit
    events = None if params.events is None else _names(params.events)
    queries, tenant = call.services.queries, call.principal.tenant
    found = await queries.describe(
        call.project_id, tenant, lambda provider: provider.property_keys(events, days, limit)
    )
    if isinstance(found, ReadFailed):
        raise unanswered(found)
    keys = [msgspec.convert(key, wire.PropertyKey, from_attributes=True) for key in found.keys]
    body = wire.PropertyKeys(
        project_id=call.project_id,
        window_days=days,
        events=events,
        keys=keys,
        count=len(keys),
        counted_from=found.counted_from,
        complete=found.complete,
        next_action=_following(len(keys), limit, _AFTER_KEYS),
    )
    return Answer(200, body)


def _names(text: str) -> list[str]:
    """The names of a list with commas, each once. Raises InvalidPayload for too many, or an empty one."""
    names = list(dict.fromkeys(text.split(",")))
    if len(names) > wire.MAX_NAMES or "" in names:
        reason = f"must be 1 to {wire.MAX_NAMES} names with one comma between them"
        raise InvalidPayload("The names of the events cannot be read.", invalid=[("events", reason)])
    return names


def _following(count: int, limit: int, after: str) -> str:
    if not count:
        return _NOTHING
    return _MORE if count == limit else after


ENDPOINTS = [list_event_names, list_event_property_keys]
