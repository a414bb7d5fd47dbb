"""Every kind of delivery described: its JSON Schema, made from the types that bodies are made of, and an example."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec

from schemas.cases.case import CaseItem, CaseStatus
from schemas.deploys.deploy import DeployRecord
from schemas.kernel.published import body_schema
from schemas.webhooks.catalogue import WebhookEvent, WebhookEventList
from schemas.webhooks.event import FENCED, TEST, DeliveryBody
from schemas.webhooks.told import (
    AlertTold,
    ApprovalTold,
    CaseAssignedTold,
    CaseMergedTold,
    CaseTold,
    OnboardingTold,
    ProjectTold,
    RunTold,
    WebhookTold,
)
from service.webhooks.catalogue import DOCUMENTED
from statemachines.kernel.machine import derived_id

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_AT = 1_790_000_000


class _Kind(NamedTuple):
    """When a name is delivered, and data like that of such a delivery."""

    description: str
    data: msgspec.Struct


def _id(prefix: str) -> str:
    return derived_id(prefix, "example")


_CASE = CaseItem(
    id=_id("case"),
    case_id=_id("case"),
    project_id=_id("proj"),
    fingerprint="8d5f3c1e9a7b4260",
    title="TypeError: total is undefined",
    level="error",
    status="open",
    revision=1,
    trust="customer_provider",
    environment="production",
    release="shop@1.4.2",
    event_count=1,
    users_affected=1,
    first_seen_at=_AT,
    last_seen_at=_AT,
    first_occurred_at=_AT,
    last_occurred_at=_AT,
    suppression_id=None,
    claimed=False,
)
_DEPLOY = DeployRecord(
    id=_id("dep"),
    deploy_id=_id("dep"),
    project_id=_id("proj"),
    version="1.4.3",
    environment="production",
    sha="4f1d2c3b5a69788796a5b4c3d2e1f0fedcba9876",
    branch="main",
    message="Sum up an empty cart",
    source="ci",
    trusted=True,
    credential_id=_id("cred"),
    onboarding_proof=False,
    automation_run_id=None,
    recorded_at=_AT,
)
_RUN = RunTold(run_id=_id("run"), automation_id="self-healing", case_id=_id("case"), status="run_started", revision=1)
_APPROVAL = ApprovalTold(
    approval_id=_id("appr"), run_id=_id("run"), automation_id="self-healing", status="pending", revision=1
)


def _case(status: CaseStatus, revision: int) -> CaseTold:
    return CaseTold(case_id=_id("case"), status=status, revision=revision)


def _listed(status: CaseStatus, revision: int) -> CaseItem:
    return msgspec.structs.replace(_CASE, status=status, revision=revision)


KINDS: Mapping[str, _Kind] = {
    "case.created": _Kind("A case was opened, by whichever error, also a synthetic one.", _CASE),
    "case.regressed": _Kind("An error came back in a resolved case, which is open again.", _listed("open", 3)),
    "case.resolved": _Kind("A case was resolved, by a member or a run.", _listed("resolved", 2)),
    "case.ignored": _Kind("A case was ignored, by a member or a rule.", _listed("ignored", 2)),
    "deploy.recorded": _Kind("A deploy was recorded.", _DEPLOY),
    "case.reopened": _Kind("A member opened a case again.", _case("open", 3)),
    "case.merged": _Kind(
        "A member merged a case into another.",
        CaseMergedTold(
            case_id=_id("case"), status="ignored", revision=2, merged_into=derived_id("case", "another example")
        ),
    ),
    "case.split": _Kind("A member split a case off the one it was merged into.", _case("open", 3)),
    "case.assigned": _Kind(
        "A member assigned a case to somebody, or to nobody.",
        CaseAssignedTold(case_id=_id("case"), status="open", revision=1, assignee=_id("usr")),
    ),
    "onboarding.approved": _Kind(
        "The owner approved the plan of an onboarding.",
        OnboardingTold(onboarding_id=_id("onb"), status="approved", revision=2),
    ),
    "onboarding.verified": _Kind(
        "The proof of an onboarding succeeded.",
        OnboardingTold(onboarding_id=_id("onb"), status="verified", revision=4),
    ),
    "run.started": _Kind("A runner started a run.", _RUN),
    "run.ended": _Kind(
        "A run ended: `status` is its outcome.", msgspec.structs.replace(_RUN, status="succeeded", revision=7)
    ),
    "approval.requested": _Kind("A runner asks for an approval.", _APPROVAL),
    "approval.decided": _Kind(
        "A member approved or rejected a request.", msgspec.structs.replace(_APPROVAL, status="approved", revision=2)
    ),
    "alert.triggered": _Kind(
        "A look at an alert met its threshold, and the one before did not.",
        AlertTold(alert_id=_id("alert"), status="triggered", revision=3),
    ),
    "alert.cleared": _Kind(
        "A look at an alert did not meet its threshold, and the one before did.",
        AlertTold(alert_id=_id("alert"), status="evaluated_clear", revision=4),
    ),
    FENCED: _Kind(
        "The deletion of the project began. This is the last delivery.",
        ProjectTold(project_id=_id("proj"), status="fenced", revision=12),
    ),
    TEST: _Kind("A member sent a test, whatever the webhook is subscribed to.", WebhookTold(webhook_id=_id("wh"))),
}
"""By the name of the event."""


@cache
def catalogue() -> WebhookEventList:
    """Every kind of delivery."""
    events = [
        WebhookEvent(
            event=name,  # type: ignore[arg-type]
            description=kind.description,
            in_star=name in DOCUMENTED,
            schema=delivery_schema(name),
            example=example(name),
        )
        for name, kind in KINDS.items()
    ]
    return WebhookEventList(
        events=events,
        count=len(events),
        next_action="Register a webhook with the names that you need. Accept members that are not in the schema.",
    )


def delivery_schema(name: str) -> dict[str, Any]:
    """The JSON Schema of the body of a delivery, whole by itself. A later version may add members."""
    schema = {"$schema": DIALECT, **body_schema(DeliveryBody), "title": name}
    members = {"event": {"const": name}, "data": body_schema(type(KINDS[name].data))}
    return {**schema, "properties": {**schema["properties"], **members}}


def example(name: str) -> DeliveryBody:
    """The body of a delivery."""
    return DeliveryBody(
        id=_id("whd"),
        event=name,
        project_id=_id("proj"),
        created_at=_AT,
        data=msgspec.to_builtins(KINDS[name].data),
    )
