"""Deploys: recorded once, read and shown (R-ING-03, R-ING-09, G-052, G-110)."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from projections.deploys import DEPLOY_NOTES, DEPLOYS, USAGE_DEPLOYS, DeployNoteRow, DeployRow, UsageDeployRow
from schemas.deploys import DeployAccepted, DeployDetail, DeployedCases, DeployList, DeployRecord, ProofMismatch
from schemas.kernel.shape import shape_from
from service.auth.refusals import NotFound
from service.eventstore.connect.facts import DAY
from service.eventstore.declare.commands import Intent, Unit
from service.eventstore.read.reader import PageEnd
from service.eventstore.store import EventStore
from service.ids import new_id
from service.runs.acting import WaitingRun
from service.runs.control import waiting_runs
from service.sql import load_query
from statemachines import deploys
from statemachines.cases import case
from statemachines.deploys import RecordDeploy, decide_record
from statemachines.kernel.machine import CiRun, Stream
from statemachines.onboarding import lifecycle as onboarding
from statemachines.onboarding.proof import DeploySighting, deploy_mismatch
from statemachines.projects.project import ProjectNotFound
from statemachines.runs.steps.results import binds
from statemachines.runs.verdict import BoundDeploy

# What may be done with deploys: one that really happened is recorded once (R-ING-03, R-ING-09, G-052, G-110).


class Report(NamedTuple):
    """A deploy as its sender tells it; `scrubbed` counts the secrets that were hidden in its texts.

    `credential_id` names the CI credential that vouches for it: without one it is not trusted. `marker_sha256` is the
    hex hash of the proof marker that came along. `ci_run` is behind an exchanged credential.
    """

    version: str
    environment: str
    sha: str | None
    branch: str | None
    message: str | None
    scrubbed: int
    credential_id: str | None
    marker_sha256: str | None
    ci_run: CiRun | None = None


class RecordedDeploy(NamedTuple):
    """A recorded deploy. `awaited` is where a run waits for its commit instead, when it was deployed elsewhere.

    `mismatch` says why its proof marker does not count, when it came with one.
    """

    row: DeployRow
    awaited: str | None
    mismatch: ProofMismatch | None


class _Waiting(NamedTuple):
    """The run that a deploy is for, and where the oldest run that waits for its commit elsewhere wants it."""

    run: WaitingRun | None
    elsewhere: str | None


async def record(store: EventStore, project_id: str, report: Report, account_id: str) -> Intent[RecordedDeploy]:
    """Record a deploy under a new id, and bind a trusted one to the run that waits for its commit where it went.

    It counts for the account, who pays for the project.
    A proof marker is looked at and never decides whether the deploy is recorded. The decision raises Moved when that
    run has moved on since it was looked up.
    """
    stream, session = deploys.stream(project_id, new_id("dep")), onboarding.stream(project_id)
    waiting = await _find_waiting(store, project_id, report)
    looks_at_session = report.credential_id is not None and report.marker_sha256 is not None

    def decide(unit: Unit) -> RecordedDeploy:
        state = unit.state(session) if looks_at_session else None
        mismatch = _mismatch(state, report, unit.now)
        matched = None if state is None or mismatch is not None else state.session
        wish = RecordDeploy(
            version=report.version,
            environment=report.environment,
            sha=report.sha,
            branch=report.branch,
            credential_id=report.credential_id,
            proof_marker_hash=report.marker_sha256,
            proof_session_id=None if matched is None else matched.proof_session_id,
            automation_run_id=_bind(unit, waiting.run, stream.id, report),
            ci_run=report.ci_run,
        )
        unit.append(stream, decide_record(unit.state(stream), wish, unit.now))
        _put_facts(unit, stream, report, account_id)
        row = unit.row(DEPLOYS, project_id, stream.id)
        assert row is not None, "a recorded deploy has a row"
        return RecordedDeploy(row, waiting.elsewhere if row.automation_run_id is None else None, mismatch)

    scope = None if waiting.run is None else waiting.run.scope
    return Intent(
        [stream, *(scope.streams if scope else [])],
        decide,
        reads=[*([session] if looks_at_session else []), *(scope.reads if scope else [])],
    )


async def _find_waiting(store: EventStore, project_id: str, report: Report) -> _Waiting:
    """Find the run that a deploy is waited for by; none waits for one that is not trusted or names no commit."""
    if report.credential_id is None or report.sha is None:
        return _Waiting(None, None)
    rows = await waiting_runs(store, project_id, report.sha)
    here = next((row for row in rows if binds(row.state, report.sha, report.environment)), None)
    elsewhere = None if here is not None or not rows else rows[0].state.terms.environment
    return _Waiting(None if here is None else WaitingRun.of(here), elsewhere)


def _bind(unit: Unit, waiting: WaitingRun | None, deploy_id: str, report: Report) -> str | None:
    if waiting is None or report.sha is None:
        return None
    bound = BoundDeploy(
        deploy_id=deploy_id,
        version=report.version,
        environment=report.environment,
        sha=report.sha,
        recorded_at=unit.now,
        compared="version",
    )
    return waiting.bind(unit, bound)


def _mismatch(state: onboarding.Onboarding | None, report: Report, now: int) -> ProofMismatch | None:
    """Say why the marker of a deploy does not count, None without a marker (G-084, G-085, G-190).

    Without the state of the onboarding the deploy is not trusted: nobody learns from it which marker is right.
    """
    if report.marker_sha256 is None:
        return None
    if state is None:
        return "deploy_not_trusted"
    if state.status is not onboarding.Status.PROVING or state.session is None or state.plan is None:
        return "proof_session_not_active"
    deploys = DeploySighting(report.environment, report.sha, True, report.marker_sha256, now)
    return deploy_mismatch(state.plan, state.session, deploys)


def _put_facts(unit: Unit, stream: Stream, report: Report, account_id: str) -> None:
    """Keep what is no part of the history: the message, and what the account is to pay for (R-ING-12)."""
    if report.message:
        note = DeployNoteRow(project_id=stream.project_id, id=stream.id, message=report.message)
        unit.put(stream, DEPLOY_NOTES, note)
    usage = UsageDeployRow(
        project_id=stream.project_id,
        id=stream.id,
        account_id=account_id,
        day=unit.now - unit.now % DAY,
        scrubbed=report.scrubbed,
    )
    unit.put(stream, USAGE_DEPLOYS, usage)


# Which deploys were recorded (R-ING-08).

_PAYER = load_query("deploys", "payer")
_NEWEST = load_query("deploys", "newest")
_NEWEST_OF_ENVIRONMENT = load_query("deploys", "newest_of_environment")
_CASES_AFTER = load_query("deploys", "cases_after")
MOST_AFTER = 1_000
"""Events of a project after a deploy that are looked at for what happened to cases."""
_RESOLVED = [case.CaseResolved.TOPIC, case.CaseResolvedByMember.TOPIC, case.CaseOpenedResolved.TOPIC]


class Noted(NamedTuple):
    """A deploy with the free message that came with it."""

    row: DeployRow
    message: str | None

    @property
    def place(self) -> PageEnd:
        """Where it stands in the list."""
        return PageEnd(self.row.recorded_at, self.row.id)


async def newest(
    store: EventStore, project_id: str, environment: str | None, after: PageEnd, limit: int
) -> list[Noted]:
    """Read at most `limit` deploys of a project after a place, newest first; of one environment, or of all (None)."""
    page = {"project_id": project_id, "at": after.at, "id": after.id, "limit": limit}
    if environment is None:
        found = await store.fetch(_NEWEST, **page)
    else:
        found = await store.fetch(_NEWEST_OF_ENVIRONMENT, **page, environment=environment)
    return [Noted(msgspec.json.decode(text, type=DeployRow), message) for text, message in found]


async def detail(store: EventStore, project_id: str, deploy_id: str) -> DeployDetail:
    """Read a deploy with what happened to cases after it. Raises NotFound, also for a deploy of another project."""
    row = await store.get(DEPLOYS, project_id, deploy_id)
    if row is None:
        raise NotFound("There is no such deploy.", next_action=_FIND)
    note = await store.get(DEPLOY_NOTES, project_id, deploy_id)
    shown = shown_record(Noted(row, None if note is None else note.message))
    return DeployDetail(
        **{name: getattr(shown, name) for name in shown.__struct_fields__},
        cases=await _cases_after(store, row),
        next_action=_NEXT_OF_SOME,
    )


async def _cases_after(store: EventStore, row: DeployRow) -> DeployedCases:
    opened, regressed = case.CaseOpened.TOPIC, case.CaseRegressed.TOPIC
    [[*counts, until, looked]] = await store.fetch(
        _CASES_AFTER,
        project_id=row.project_id,
        id=row.id,
        environment=row.environment,
        most=MOST_AFTER,
        topics=[opened, *_RESOLVED, regressed, deploys.DeployRecorded.TOPIC],
        opened=opened,
        resolved=_RESOLVED,
        regressed=regressed,
        deployed=deploys.DeployRecorded.TOPIC,
    )
    by_name = dict(zip(("opened", "resolved", "regressed"), counts, strict=True))
    return DeployedCases(**by_name, until=until, complete=until is not None or looked < MOST_AFTER)


async def payer(store: EventStore, project_id: str) -> str:
    """The paying account of a project. Raises ProjectNotFound once the project is gone."""
    for (account_id,) in await store.fetch(_PAYER, project_id=project_id):
        return str(account_id)
    raise ProjectNotFound("There is no such project.")


# How deploys are shown (R-ING-03, R-ING-08, G-052).

_NEXT_TRUSTED = "Nothing to do. Record the next deploy after it has succeeded."
_NEXT_UNTRUSTED = "Nothing to do. For trusted attribution, record deploys with a CI credential."
_NEXT_ELSEWHERE = (
    "This deploy verifies nothing: a run waits for this commit in awaited_environment. Record "
    "that deploy too, after it has succeeded."
)
_NEXT_UNPROVEN: dict[ProofMismatch, str] = {
    "deploy_not_trusted": _NEXT_UNTRUSTED,
    "proof_session_not_active": "No proof session is open: leave the marker out, or start the proof anew.",
    "marker_mismatch": "Send the CI marker of the proof session that is open now.",
    "source_git_sha_missing": "The proof session names no commit: start the proof anew with a committed snapshot.",
    "environment_mismatch": "Record the deploy to the environment that the approved plan names.",
    "deploy_sha_missing": "Record the deploy with its full commit as sha.",
    "commit_mismatch": "Deploy the commit of the proof session, or start the proof anew with the deployed one.",
}
_FIND = "Find it with GET /v1/projects/{project_id}/deploys."
_NEXT_OF_SOME = "Compare a case's first_seen_at with the deploys before it."
_NEXT_OF_NONE = "Record deploys from CI with POST /v1/deploys/ after each that succeeded."


def accepted(row: DeployRow, awaited: str | None, mismatch: ProofMismatch | None) -> DeployAccepted:
    """Show a deploy to the sender that has just recorded it. `awaited` is where a run waits for it instead (G-134).

    `mismatch` says why its proof marker does not count (G-190).
    """
    following = _NEXT_TRUSTED if row.trusted else _NEXT_UNTRUSTED
    if mismatch is not None:
        following = _NEXT_UNPROVEN[mismatch]
    return DeployAccepted(
        id=row.id,
        project_id=row.project_id,
        received_at=row.recorded_at,
        trusted=row.trusted,
        onboarding_proof_matched=row.onboarding_proof,
        onboarding_proof_reason=mismatch,
        automation_run_id=row.automation_run_id,
        awaited_environment=awaited,
        next_action=following if awaited is None else _NEXT_ELSEWHERE,
    )


def shown_record(noted: Noted) -> DeployRecord:
    """Show a deploy to members."""
    row = noted.row
    return shape_from(
        DeployRecord,
        row,
        deploy_id=row.id,
        message=noted.message,
        source="ci" if row.trusted else "dsn",
        ci_run=row.ci_run or msgspec.UNSET,
    )


def listed(project_id: str, shown: Sequence[Noted], next_cursor: str | None) -> DeployList:
    """Show a page of a project's deploys."""
    return DeployList(
        project_id=project_id,
        deploys=[shown_record(noted) for noted in shown],
        count=len(shown),
        next_cursor=next_cursor,
        next_action=_NEXT_OF_SOME if shown else _NEXT_OF_NONE,
    )
