"""Who met errors, at the edge: of a case, of a project, and one person (R-CASE-05 to R-CASE-07)."""

import msgspec
from litestar.di import NamedDependency
from litestar.params import FromPath

from schemas.cases.people import CaseUsers, Person, PersonStats, PersonSummary, ProjectUsers, UsersQuery
from schemas.kernel.shape import shape_from
from service.auth.refusals import InvalidPayload
from service.cases import people
from service.eventstore.declare.commands import Answer
from service.http.cases.case import CASE_LOCATED
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Who
from service.http.declare.operations import KEY
from service.provider.listing import PersonAtProvider, person_at_provider

MAX_DISTINCT_ID = 200
_SOME = "Read one person's errors with GET /v1/projects/{project_id}/users/{distinct_id}/summary."
_NONE = "These errors name no person. Send `user.id` with your errors to see the people affected."


@groups.CASES.get("/v1/cases/{case_id}/users", "List the people affected by a case")
@Who(KEY, subject=CASE_LOCATED)
@Docs(CaseUsers, errors=("case_not_found",))
async def list_case_users(call: Call) -> Answer:
    """List the people affected by a case, most often first."""
    found = await people.users_of_case(call.services.store, call.project_id, call.subject.id)
    following = _SOME if found.users else _NONE
    body = CaseUsers(case_id=call.subject.id, users=found.users, complete=found.complete, next_action=following)
    return Answer(200, body)


@groups.CASES.get("/v1/projects/{project_id}/users", "List the people affected by errors in a project")
@Who(KEY)
@Docs(ProjectUsers)
async def list_users(call: Call, params: NamedDependency[UsersQuery]) -> Answer:
    """List the people affected by errors in a project lately, most often first."""
    found = await people.users_of_project(call.services.store, call.project_id, params.days, params.limit)
    body = shape_from(
        ProjectUsers,
        found,
        project_id=call.project_id,
        window_days=params.days,
        next_action=_SOME if found.users else _NONE,
    )
    return Answer(200, body)


@groups.CASES.get("/v1/projects/{project_id}/users/{distinct_id}/summary", "Read a summary of a person")
@Who(KEY)
@Docs(PersonSummary, errors=("invalid_payload",))
async def get_user_summary(call: Call, distinct_id: FromPath[str]) -> Answer:
    """Show a person. An unknown one has empty lists (G-055)."""
    _check_person(distinct_id)
    known = await people.person(call.services.store, call.project_id, distinct_id)
    recordings, page = await _at_provider(call, distinct_id)
    body = PersonSummary(
        project_id=call.project_id,
        distinct_id=distinct_id,
        person=_person(distinct_id, known) if known.known else msgspec.UNSET,
        event_stats=_stats(known),
        recent_events=known.recent,
        recent_recordings=recordings or [],
        recordings_read=recordings is not None,
        web_ui_url=page or msgspec.UNSET,
        next_action="Read the cases named by recent_events." if known.errors else "Nothing to do.",
    )
    return Answer(200, body)


def _person(distinct_id: str, known: people.PersonFacts) -> Person:
    return Person(distinct_id, known.email, known.names, known.identified, known.properties or {}, known.links_refused)


def _stats(known: people.PersonFacts) -> PersonStats:
    seen = known.first_seen_at, known.last_seen_at
    occurred = known.first_occurred_at, known.last_occurred_at
    return PersonStats(known.total, known.errors, *seen, *occurred, people.MOST_OF_PERSON)


def _check_person(distinct_id: str) -> None:
    """Raise InvalidPayload for an id of a person that is too long."""
    if len(distinct_id) > MAX_DISTINCT_ID:
        reason = f"must be at most {MAX_DISTINCT_ID} characters"
        raise InvalidPayload("The id of a person cannot be this long.", invalid=[("distinct_id", reason)])


async def _at_provider(call: Call, distinct_id: str) -> PersonAtProvider:
    services = call.services
    told = await services.notices.of(call.project_id, call.user_id)
    return await person_at_provider(
        services.sources,
        services.exchanges,
        call.project_id,
        call.principal.tenant,
        distinct_id,
        locked=told.locked,
    )


ENDPOINTS = [list_case_users, list_users, get_user_summary]
