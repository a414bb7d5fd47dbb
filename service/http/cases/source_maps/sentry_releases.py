"""What `sentry-cli releases` (2.x and 3.x) asks for: `new`, `finalize`, `set-commits`, and `deploys … new` (G-142).

This service keeps no list of releases: a release is what errors, source maps and deploys name. So the first three are
answered as sentry-cli expects and change nothing, and `deploys new` records a deploy. With a CI credential it is
trusted, with the key of a person no more than with a DSN. It names no commit, so it binds no run (G-110).
"""

from datetime import UTC, datetime
from functools import partial

from litestar.params import FromPath, JSONBody

from schemas.cases import foreign as wire
from service import deploys
from service.auth.authority import PrincipalKind
from service.auth.refusals import InvalidPayload
from service.eventstore.declare.commands import Answer, Outcome, retry_moved
from service.http.cases.source_maps.sentry_upload import admit_to, carry_out_in, require_named
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Who
from service.http.declare.operations import KEY
from service.ingest.scrubbing import hide_own

_ORGANIZATION = "/api/0/organizations/{organization}"
_RELEASE = _ORGANIZATION + "/releases/{version}"
_CALLERS = KEY | {PrincipalKind.CI}
_SCOPE = "deploys:write"
_ERRORS = ("project_not_found", "project_deletion_in_progress", "invalid_payload")
MOST_COMMITS = 1024 * 1024
"""Bytes of a release with its commits."""
MOST_VERSION = 200


@groups.CASES.post(_ORGANIZATION + "/releases/", "Take note of sentry-cli's new release")
@Who(_CALLERS, scope=_SCOPE)
@Body(strict=False)
@Fencing(mutation=False)
@Docs({201: wire.SentryRelease}, errors=_ERRORS, extension=True)
async def create_sentry_release(call: Call, data: JSONBody[wire.SentryNewRelease]) -> Answer:
    """Answer `releases new`. Nothing is stored."""
    await admit_to(call, data.projects)
    return Answer(201, _release(data.version, data.projects, data.dateReleased))


@groups.CASES.put(_RELEASE + "/", "Take note of sentry-cli's finished release or its commits")
@Who(_CALLERS, scope=_SCOPE)
@Body(max_body=MOST_COMMITS, strict=False)
@Fencing(mutation=False)
@Docs(wire.SentryRelease, errors=_ERRORS, extension=True)
async def change_sentry_release(call: Call, data: JSONBody[wire.SentryReleaseChange], version: FromPath[str]) -> Answer:
    """Answer `releases finalize` and `releases set-commits`. Nothing is stored."""
    await admit_to(call, data.projects)
    return Answer(200, _release(_version(version), data.projects, data.dateReleased))


@groups.CASES.get(_ORGANIZATION + "/repos/", "Tell sentry-cli that no repository is linked")
@Who(_CALLERS, scope=_SCOPE)
@Docs(list[wire.SentryProject], extension=True, sealed=True)
async def list_sentry_repos() -> Answer:
    """Answer the first question of `releases set-commits --auto`, which then goes on with the local repository."""
    return Answer(200, [])


@groups.CASES.get(_RELEASE + "/previous-with-commits/", "Tell sentry-cli that no earlier release has commits")
@Who(_CALLERS, scope=_SCOPE)
@Docs(wire.SentryNoRelease, extension=True, sealed=True)
async def get_previous_sentry_release() -> Answer:
    """Answer the second question of `releases set-commits --auto`."""
    return Answer(200, wire.SentryNoRelease())


@groups.CASES.post(_RELEASE + "/deploys/", "Record a deploy from sentry-cli")
@Who(_CALLERS, scope=_SCOPE)
@Body(strict=False)
@Docs({201: wire.SentryDeploy}, errors=_ERRORS, extension=True)
async def record_sentry_deploy(call: Call, data: JSONBody[wire.SentryNewDeploy], version: FromPath[str]) -> Answer:
    """Record the deploy in each of its projects, as the deploy operation does."""
    version = _version(version)
    own = call.principal.project_id
    projects = data.projects or ([] if own is None else [own])
    require_named(projects)
    await admit_to(call, projects)
    report = _report(call, data, version)
    for project_id in projects:
        await retry_moved(partial(_record, call, project_id, report))
    told = wire.SentryDeploy(
        environment=report.environment,
        name=report.message,
        url=data.url,
        dateStarted=data.dateStarted,
        dateFinished=data.dateFinished,
    )
    return Answer(201, told)


def _report(call: Call, data: wire.SentryNewDeploy, version: str) -> deploys.Report:
    [version, environment, name], scrubbed = hide_own(version, data.environment, data.name)
    return deploys.Report(
        version=version,
        environment=environment,
        sha=None,
        branch=None,
        message=name,
        scrubbed=scrubbed,
        credential_id=call.principal.id if call.principal.kind is PrincipalKind.CI else None,
        marker_sha256=None,
        ci_run=call.principal.run,
    )


async def _record(call: Call, project_id: str, report: deploys.Report) -> Outcome:
    payer = await deploys.payer(call.services.store, project_id)
    intent = await deploys.record(call.services.store, project_id, report, payer)
    return await carry_out_in(call, project_id, intent)


def _version(text: str) -> str:
    """The release of a path. Raises InvalidPayload for one that is too long."""
    if len(text) > MOST_VERSION:
        raise InvalidPayload(
            "The release is too long.", invalid=[("version", f"must have at most {MOST_VERSION} characters")]
        )
    return text


def _release(version: str, project_ids: list[str], released: str | None) -> wire.SentryRelease:
    return wire.SentryRelease(
        version=version,
        dateCreated=datetime.now(UTC).isoformat(timespec="seconds"),
        dateReleased=released,
        projects=[wire.SentryProject(slug=project_id, name=project_id) for project_id in project_ids],
    )


ENDPOINTS = [
    create_sentry_release,
    change_sentry_release,
    list_sentry_repos,
    get_previous_sentry_release,
    record_sentry_deploy,
]
