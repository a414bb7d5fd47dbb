"""Lists of the provider, at the edge: recordings, flags, surveys, experiments (R-PRV-03, G-072, G-095)."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from litestar.di import NamedDependency

from schemas.kernel.shape import PageQuery
from schemas.provider import ExperimentList, FeatureFlagList, SessionRecordingList, SurveyList, SurveyQuery
from service.auth.refusals import InvalidPayload
from service.eventstore.declare.commands import Answer
from service.eventstore.read.reader import PageEnd
from service.http.answer.paging import encode_cursor, start_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY
from service.provider import listing, team
from service.provider.sources import Source, unread
from statemachines.kernel.machine import ReadFailed

I = TypeVar("I")  # noqa: E741 - an item

ERRORS = ("rate_limited", "service_unavailable", "upstream_error", "upstream_timeout")
FARTHEST = 1_000_000
"""The offset of a page at most."""


class ListedPage(NamedTuple, Generic[I]):
    """A page for a caller. `source` is None when there is nothing to read from."""

    items: list[I]
    next_cursor: str | None
    next_action: str
    source: Source | None = None

    def members(self, call: Call) -> dict[str, Any]:
        """What every list shows beside its items."""
        return {
            "project_id": call.project_id,
            "count": len(self.items),
            "next_cursor": self.next_cursor,
            "next_action": self.next_action,
        }


@groups.PROVIDER.get(
    "/v1/projects/{project_id}/session-recordings", "List the session recordings at a project's provider"
)
@Who(KEY)
@Fencing(quota_locked=True)
@Docs(SessionRecordingList, errors=ERRORS)
async def list_session_recordings(call: Call, params: NamedDependency[PageQuery]) -> Answer:
    """List recordings, newest first. Over the quota the provider is not asked (G-072)."""
    find = call.services.sources.of_recordings
    async with call.services.exchanges.turn(call.principal.tenant):
        page = await _page(call, params, "session_recording:read", find, listing.recordings_of)
    return Answer(HTTPStatus.OK, SessionRecordingList(session_recordings=page.items, **page.members(call)))


@groups.PROVIDER.get("/v1/projects/{project_id}/feature-flags", "List the feature flags at a project's provider")
@Who(KEY)
@Docs(FeatureFlagList, errors=ERRORS)
async def list_feature_flags(call: Call, params: NamedDependency[PageQuery]) -> Answer:
    """List flags as they are. Nothing here turns one."""
    async with call.services.exchanges.turn(call.principal.tenant):
        page = await _page(call, params, "feature_flag:read", call.services.sources.of, listing.feature_flags)
    return Answer(HTTPStatus.OK, FeatureFlagList(feature_flags=page.items, **page.members(call)))


@groups.PROVIDER.get(
    "/v1/projects/{project_id}/surveys", "List the surveys at a project's provider, with the responses to one"
)
@Who(KEY)
@Docs(SurveyList, errors=ERRORS)
async def list_surveys(call: Call, params: NamedDependency[SurveyQuery]) -> Answer:
    """List surveys. With `survey_id` also its responses and stats: an unknown survey has none."""
    async with call.services.exchanges.turn(call.principal.tenant):
        page = await _page(call, params, "survey:read", call.services.sources.of, listing.surveys)
        found = await _findings(page.source, params.survey_id)
    body = SurveyList(surveys=page.items, **page.members(call))
    if found is not None:
        body = msgspec.structs.replace(body, responses=found.responses, stats=found.stats)
    return Answer(HTTPStatus.OK, body)


@groups.PROVIDER.get("/v1/projects/{project_id}/experiments", "List the experiments at a project's provider")
@Who(KEY)
@Docs(ExperimentList, errors=ERRORS)
async def list_experiments(call: Call, params: NamedDependency[PageQuery]) -> Answer:
    """List experiments with their variants."""
    async with call.services.exchanges.turn(call.principal.tenant):
        page = await _page(call, params, "experiment:read", call.services.sources.of, listing.experiments)
    return Answer(HTTPStatus.OK, ExperimentList(experiments=page.items, **page.members(call)))


async def _page(
    call: Call,
    params: PageQuery,
    scope: listing.Scope,
    find: Callable[[str, str], Awaitable[Source | None]],
    read: Callable[[Source, int, int], Awaitable[listing.Listing[I] | ReadFailed]],
) -> ListedPage[I]:
    """Read a page. Raises the refusal of a failed read: an empty page is never a failure."""
    offset = _offset(params, scope)
    source = await find(call.project_id, call.principal.tenant)
    if source is None:
        return ListedPage([], None, team.NO_SOURCE)
    if source.lacks(scope):
        return ListedPage([], None, team.scope_missing(scope))
    found = await read(source, params.limit, offset)
    if isinstance(found, ReadFailed):
        raise unread(found)
    following = offset + params.limit
    more = found.more and following <= FARTHEST
    cursor = encode_cursor(PageEnd(following, scope)) if more else None
    return ListedPage(found.items, cursor, team.next_of_list(more=more), source)


def _offset(query: PageQuery, scope: listing.Scope) -> int:
    """The number of items before the page. Raises InvalidPayload for the cursor of another list."""
    if query.cursor is None:
        return 0
    place = start_of(query)
    if place.id != scope or place.at > FARTHEST:
        reason = "must be the next_cursor of an earlier page of this list"
        raise InvalidPayload("The cursor is not valid.", invalid=[("cursor", reason)])
    return place.at


async def _findings(source: Source | None, survey_id: str | None) -> listing.SurveyFindings | None:
    """The responses to a survey, if one is asked for. Raises the refusal of a failed read."""
    if survey_id is None:
        return None
    found = listing.SurveyFindings([], []) if source is None else await listing.findings(source, survey_id)
    if isinstance(found, ReadFailed):
        raise unread(found)
    return found


ENDPOINTS = [list_session_recordings, list_feature_flags, list_surveys, list_experiments]
