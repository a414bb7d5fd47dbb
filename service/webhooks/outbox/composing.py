"""Bodies of deliveries, made before the first attempt and never again (G-091, G-160).

Of a case, status and revision are those after the event, from its own history. The rest is as at the first attempt.
Further names carry ids, states and revisions alone: no text of telemetry, of reports or of people.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, cast

import msgspec
from msgspec.structs import replace

from projections.alerts import ALERTS
from projections.cases import CASES
from projections.deploys import DEPLOY_NOTES, DEPLOYS
from projections.onboarding import ONBOARDING
from projections.runs import APPROVALS, RUNS
from schemas.webhooks import (
    AlertTold,
    ApprovalTold,
    CaseAssignedTold,
    CaseMergedTold,
    CaseTold,
    DeliveryBody,
    OnboardingTold,
    ProjectTold,
    RunTold,
)
from service.cases import case as case_show
from service.cases.listing import listed_case
from service.deploys import deploy as deploy_show
from service.deploys.deploy import Noted
from service.eventstore.history.as_of import Mark, Past
from service.eventstore.store import EventStore
from service.webhooks.testing import DOCUMENTED
from statemachines.alerts import FIRST_LOOK


class ToldEvent(NamedTuple):
    """An event to tell of: `revision` is that of its stream right after it."""

    project_id: str
    id: str
    event: str
    subject_id: str
    revision: int
    created_at: int


Data = dict[str, Any]


async def compose(store: EventStore, told: ToldEvent) -> bytes | None:
    """Make the body of a delivery. None when its subject is gone. Raises as reading does."""
    data = await data_of(store, told)
    if data is None:
        return None
    body = DeliveryBody(id=told.id, event=told.event, project_id=told.project_id, created_at=told.created_at, data=data)
    return msgspec.json.encode(body)


async def data_of(store: EventStore, told: ToldEvent) -> Data | None:
    """Read the data of an event. None when its subject is gone. Raises as reading does."""
    kind, _, _ = told.event.partition(".")
    made = await _MAKERS[kind](store, told)
    return None if made is None else cast("Data", msgspec.to_builtins(made))


async def _of_case(store: EventStore, told: ToldEvent) -> msgspec.Struct | None:
    row = await _past(store, told).get(CASES, told.project_id, told.subject_id)
    if row is None:
        return None
    status, revision = case_show.status_of(row.status), row.case_revision
    if told.event == "case.merged":
        assert row.merged_into is not None, "the event says so"
        return CaseMergedTold(case_id=row.id, status=status, revision=revision, merged_into=row.merged_into)
    if told.event == "case.assigned":
        return CaseAssignedTold(case_id=row.id, status=status, revision=revision, assignee=row.assignee)
    if told.event not in DOCUMENTED:
        return CaseTold(case_id=row.id, status=status, revision=revision)
    listed = await listed_case(store, told.project_id, told.subject_id)
    if listed is None:
        return None
    return replace(case_show.item(told.project_id, listed), status=status, revision=revision)


async def _of_deploy(store: EventStore, told: ToldEvent) -> msgspec.Struct | None:
    row = await store.get(DEPLOYS, told.project_id, told.subject_id)
    if row is None:
        return None
    note = await store.get(DEPLOY_NOTES, told.project_id, told.subject_id)
    return deploy_show.shown_record(Noted(row, None if note is None else note.message))


async def _of_onboarding(store: EventStore, told: ToldEvent) -> msgspec.Struct | None:
    row = await _past(store, told).get(ONBOARDING, told.project_id, told.subject_id)
    if row is None:
        return None
    return OnboardingTold(onboarding_id=row.id, status=cast("Any", row.status), revision=row.state_revision)


async def _of_run(store: EventStore, told: ToldEvent) -> msgspec.Struct | None:
    row = await _past(store, told).get(RUNS, told.project_id, told.subject_id)
    if row is None:
        return None
    return RunTold(
        run_id=row.id,
        automation_id=row.automation_id,
        case_id=row.case_id,
        status=cast("Any", row.outcome or row.phase),
        revision=row.revision,
    )


async def _of_approval(store: EventStore, told: ToldEvent) -> msgspec.Struct | None:
    row = await _past(store, told).get(APPROVALS, told.project_id, told.subject_id)
    if row is None:
        return None
    return ApprovalTold(
        approval_id=row.id,
        run_id=row.run_id,
        automation_id=row.automation_id,
        status=cast("Any", row.status),
        revision=row.revision,
    )


async def _of_alert(store: EventStore, told: ToldEvent) -> msgspec.Struct | None:
    """The state of an alert. None also for a first look that an earlier release recorded as cleared: nothing was."""
    if told.event == "alert.cleared" and told.revision == FIRST_LOOK:
        return None
    row = await _past(store, told).get(ALERTS, told.project_id, told.subject_id)
    return None if row is None else AlertTold(alert_id=row.id, status=cast("Any", row.status), revision=row.revision)


async def _of_project(_: EventStore, told: ToldEvent) -> msgspec.Struct:
    return ProjectTold(project_id=told.project_id, status="fenced", revision=told.revision)


def _past(store: EventStore, told: ToldEvent) -> Past:
    return Past(store, Mark("r", told.revision))


_MAKERS: dict[str, Callable[[EventStore, ToldEvent], Awaitable[msgspec.Struct | None]]] = {
    "case": _of_case,
    "deploy": _of_deploy,
    "onboarding": _of_onboarding,
    "run": _of_run,
    "approval": _of_approval,
    "alert": _of_alert,
    "project": _of_project,
}
