"""Wire contracts of webhooks: names of events, deliveries and their data, subscriptions."""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

from schemas.alerts import AlertStatus
from schemas.cases.batch import BatchAction
from schemas.cases.case import CaseStatus
from schemas.kernel.origins import Origins, origins
from schemas.kernel.shape import SAFE_INTEGER, Closed, Epoch
from schemas.runs.approval import ApprovalStatus
from schemas.runs.pull_request import HostState
from schemas.runs.run import RunPhase, RunStatus

# Names of what is delivered to webhooks, and the body of a delivery (G-091, G-160).

DocumentedName = Literal["case.created", "case.regressed", "case.resolved", "case.ignored", "deploy.recorded"]
FurtherName = Literal[
    "case.reopened",
    "case.merged",
    "case.split",
    "case.assigned",
    "case_batch.ended",
    "onboarding.approved",
    "onboarding.verified",
    "run.started",
    "run.ended",
    "approval.requested",
    "approval.decided",
    "pull_request.ungranted",
    "alert.triggered",
    "alert.cleared",
    "project.fenced",
]
"""Delivered only when listed, never by `*`."""
EventName = Literal[DocumentedName, FurtherName]

TEST = "webhook.test"
FENCED = "project.fenced"
MAX_DELIVERY_BYTES = 20_000
"""Bytes of a delivery."""


class DeliveryBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a delivery: a notification, never an authority (R-WEB-08).

    `data` is a case as in the list of cases, or a deploy. For further names it holds ids, states and revisions.
    """

    PROVENANCE: ClassVar[Origins] = origins(telemetry="data")

    id: str
    event: str
    project_id: str
    created_at: Annotated[Epoch, Meta(description="When the event was recorded, in epoch seconds.")]
    data: dict[str, Any]


# The data of deliveries beyond cases and deploys: ids, states and revisions after the event (G-160). No text of
# telemetry, of reports or of people is in them.

Revision = Annotated[int, Meta(ge=0, description="The revision after the event.")]


class CaseTold(msgspec.Struct, frozen=True, kw_only=True):
    """A case after an event."""

    case_id: str
    status: CaseStatus
    revision: Revision


class CaseMergedTold(CaseTold, frozen=True, kw_only=True):
    """A case whose errors another case has now: the one named by `merged_into`."""

    merged_into: str


class CaseAssignedTold(CaseTold, frozen=True, kw_only=True):
    """A case with its new assignee, null if it has none."""

    assignee: str | None


class CaseBatchTold(msgspec.Struct, frozen=True, kw_only=True):
    """An act on many cases, told in place of an event for each of those that moved."""

    batch_id: str
    action: BatchAction
    assignee: str | None
    cases: int
    moved: int
    revision: Revision


class OnboardingTold(msgspec.Struct, frozen=True, kw_only=True):
    """An onboarding after an event."""

    onboarding_id: str
    status: Literal["planned", "approved", "proving", "verified"]
    revision: Revision


class RunTold(msgspec.Struct, frozen=True, kw_only=True):
    """A run after an event: its status, or its phase before it has one.

    `error_probability` is there once a deploy was judged (G-173).
    """

    run_id: str
    automation_id: str
    case_id: str | None
    status: RunStatus | RunPhase
    revision: Revision
    error_probability: float | msgspec.UnsetType | None = msgspec.UNSET


class ApprovalTold(msgspec.Struct, frozen=True, kw_only=True):
    """A request for an approval after an event."""

    approval_id: str
    run_id: str
    automation_id: str
    status: ApprovalStatus
    revision: Revision


class PullRequestTold(msgspec.Struct, frozen=True, kw_only=True):
    """An observed pull request, with the automations that its newest ungranted head has turned off."""

    pull_request_id: str
    run_id: str | None
    status: HostState
    automations_disabled: list[str]
    revision: Revision


class AlertTold(msgspec.Struct, frozen=True, kw_only=True):
    """An alert after an event."""

    alert_id: str
    status: AlertStatus
    revision: Revision


class ProjectTold(msgspec.Struct, frozen=True, kw_only=True):
    """A project whose deletion has begun."""

    project_id: str
    status: Literal["fenced"]
    revision: Revision


class WebhookTold(msgspec.Struct, frozen=True, kw_only=True):
    """The webhook that a test was sent to."""

    webhook_id: str


# Wire contract of the catalogue of events that webhooks are told of (R-WEB, G-091, G-160).


class WebhookEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of delivery, with the JSON Schema of its body and an example.

    `in_star`: `*` stands for it among others. Every other name but `webhook.test` is delivered when it is listed.
    """

    event: EventName | Literal["webhook.test"]
    description: str
    in_star: bool
    schema: dict[str, Any]
    example: DeliveryBody


class WebhookEventList(msgspec.Struct, frozen=True, kw_only=True):
    """Every kind of delivery."""

    events: list[WebhookEvent]
    count: int
    next_action: str


# Wire contracts of the log of deliveries: read, resent, replayed (G-161).

DeliveryStatus = Literal["pending", "delivered", "failed", "exhausted", "stopped"]
Position = Annotated[int, Meta(ge=0, le=SAFE_INTEGER, description="A position in the log of all events.")]
MAX_RANGE = 10_000
"""Positions that one replay goes through."""


class DeliveryQuery(msgspec.Struct, frozen=True):
    """The position behind which the page begins, its length, and the status of its deliveries."""

    after: Position = 0
    status: DeliveryStatus | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class DeliveryItem(msgspec.Struct, frozen=True, kw_only=True):
    """A delivery without its body. `failed`: its next attempt is due at `next_attempt_at`.

    `exhausted`: the last attempt of the schedule has failed. `stopped`: the webhook was stopped before it was
    delivered. `body_sha256` is null before the first attempt, which fixes the body.
    """

    delivery_id: str
    event: str
    position: Position
    subject_id: str
    status: DeliveryStatus
    attempts: int
    last_status: int | None
    last_error: Annotated[str, Meta(max_length=500)] | None
    next_attempt_at: Epoch | None
    body_sha256: str | None


class DeliveryList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of deliveries in the order of the log. A page may be short and still have a `next_after`."""

    deliveries: list[DeliveryItem]
    next_after: Position | None
    next_action: str


class DeliveryResent(DeliveryItem, frozen=True, kw_only=True):
    """A delivery that was queued again, with its id and body."""

    next_action: str


class ReplayWebhook(Closed, frozen=True):
    """A range of positions: those after `after`, up to `until`."""

    after: Position
    until: Position


class WebhookReplayed(msgspec.Struct, frozen=True, kw_only=True):
    """The number of deliveries that a replay has queued."""

    id: str
    queued: int
    next_action: str


# Wire contracts of webhooks (R-WEB, G-090, G-091, G-160).

MAX_URL = 2000
MAX_NAMES = 20
STAR = "*"

WebhookUrl = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_URL,
        description="An https address on the public internet, without user information and fragment.",
    ),
]
Subscription = Annotated[
    list[Literal["*"] | EventName],
    Meta(
        min_length=1,
        max_length=MAX_NAMES,
        description='Unique names, or ["*"] alone: the five names that every project has.',
        extra_json_schema={"uniqueItems": True},
    ),
]
Description = Annotated[str, Meta(max_length=500)]
WebhookStatus = Literal["registered", "tested", "delivering", "unhealthy", "deleted"]


class CreateWebhook(Closed, frozen=True):
    """An address to call, and the events to deliver."""

    url: WebhookUrl
    events: Subscription
    description: Description | msgspec.UnsetType = msgspec.UNSET


class ChangeWebhook(Closed, frozen=True):
    """The parts of a webhook to change. An absent member stays as it is. `enabled` false stops it."""

    url: WebhookUrl | msgspec.UnsetType = msgspec.UNSET
    events: Subscription | msgspec.UnsetType = msgspec.UNSET
    description: Description | msgspec.UnsetType | None = msgspec.UNSET
    enabled: bool | msgspec.UnsetType = msgspec.UNSET


class WebhookItem(msgspec.Struct, frozen=True, kw_only=True):
    """A webhook with the outcome of its latest attempt. `last_error` is a sentence of the service.

    While `enabled` is false, nothing is queued. `stop_reason` tells why: `gone` after an answer of 410, `failing`
    after five days of failures, `member` if a member switched it off. A successful test lifts the first two.
    """

    id: str
    project_id: str
    url: str
    events: list[str]
    description: str | None
    status: WebhookStatus
    enabled: bool
    stop_reason: Literal["gone", "failing", "member"] | None
    stopped_at: Epoch | None
    last_status: int | None
    last_error: Annotated[str, Meta(max_length=500)] | None
    last_delivered_at: Epoch | None
    secret_prefix: str
    created_at: Epoch


class WebhookRecord(WebhookItem, frozen=True, kw_only=True):
    """A changed webhook."""

    next_action: str


class WebhookDetail(WebhookItem, frozen=True, kw_only=True):
    """A webhook with its newest deliveries."""

    recent_deliveries: list[DeliveryItem]
    next_action: str


class WebhookSecret(WebhookItem, frozen=True, kw_only=True):
    """A webhook with a new secret, shown once: it is null in a repeat of the request.

    Until `former_until` (epoch seconds) the secret before it signs as well.
    """

    secret: str | None
    former_until: Epoch
    next_action: str


class WebhookCreated(WebhookItem, frozen=True, kw_only=True):
    """A new webhook. `secret` signs its deliveries and is shown once: it is null in a repeat of the request."""

    secret: str | None
    next_action: str


class WebhookList(msgspec.Struct, frozen=True, kw_only=True):
    """All webhooks of a project, newest first."""

    project_id: str
    webhooks: list[WebhookItem]
    count: int
    next_action: str


class WebhookDeletedBody(msgspec.Struct, frozen=True, kw_only=True):
    """A deleted webhook."""

    id: str
    status: Literal["deleted"] = "deleted"
    deleted_at: Epoch
    next_action: str


class WebhookTested(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a test delivery."""

    id: str
    status: Literal["tested", "unhealthy"]
    delivery_id: str
    delivered: bool
    last_status: int | None
    last_error: Annotated[str, Meta(max_length=500)] | None
    next_action: str


# Wire contract of a project's events, for callers without a receiver (G-161).

MAX_EVENTS_OF_POLL = 50


class ProjectEventQuery(msgspec.Struct, frozen=True):
    """The position behind which the page begins, its length, and the names of its events, parted by commas.

    Without names, the page has the five that `*` stands for in a webhook.
    """

    after: Position = 0
    names: Annotated[str, Meta(min_length=1, max_length=500)] | None = None
    limit: Annotated[int, Meta(ge=1, le=MAX_EVENTS_OF_POLL)] = 20


class ProjectEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event as webhooks are told of it. Its id is made from project and event, and stays the same."""

    PROVENANCE: ClassVar[Origins] = origins(telemetry="data")

    id: str
    event: str
    position: Position
    created_at: Epoch
    data: dict[str, Any]


class ProjectEventList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of events in the order of the log. Poll on with `next_after`, also after an empty page."""

    project_id: str
    events: list[ProjectEvent]
    next_after: Position
    next_action: str
