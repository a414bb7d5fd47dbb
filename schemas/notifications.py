"""Wire contracts of notifications: destinations, rules of members, and the log of what was sent."""

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.kernel import patterns
from schemas.kernel.shape import Closed, Epoch
from schemas.webhooks import Position, WebhookUrl

DestinationKind = Literal["slack", "teams", "discord", "mattermost", "mail"]
MAIL: DestinationKind = "mail"
Occasion = Literal[
    "case.created",
    "case.regressed",
    "approval.requested",
    "run.ended",
    "alert.triggered",
    "automation.stopped",
    "report.recorded",
]
OCCASIONS: tuple[str, ...] = get_args(Occasion)
Occasions = Annotated[
    list[Occasion], Meta(min_length=1, max_length=len(OCCASIONS), extra_json_schema={"uniqueItems": True})
]
DestinationName = Annotated[str, Meta(min_length=1, max_length=100, pattern=patterns.LABEL)]
Clock = Annotated[str, Meta(pattern=patterns.CLOCK)]
NotificationStatus = Literal["pending", "delivered", "failed", "held", "merged", "exhausted", "stopped"]


class AddDestination(Closed, frozen=True):
    """The address of an incoming webhook of a chat, or the member to whom mail goes, and a name for it."""

    kind: DestinationKind
    name: DestinationName
    url: WebhookUrl | UnsetType = UNSET
    member_id: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType = UNSET


class QuietTime(Closed, frozen=True):
    """A span of each day. It may go over midnight."""

    begins: Clock
    ends: Clock
    timezone: Annotated[str, Meta(min_length=1, max_length=100)]


class SetRule(Closed, frozen=True):
    """Occasions to tell at a destination, and hours to wait."""

    events: Occasions
    quiet_hours: QuietTime | None = None


class NotificationRule(msgspec.Struct, frozen=True, kw_only=True):
    """The rule of the caller for a destination."""

    events: list[str]
    quiet_hours: QuietTime | None
    set_at: Epoch


class DestinationItem(msgspec.Struct, frozen=True, kw_only=True):
    """A destination with the outcome of its latest attempt. Its address is not shown again: `origin` is a part of it.

    `last_error` is a sentence of the service. `stop_reason`: the receiver was `gone`, or `failing` for five days. A
    successful test lifts both. `etag` is the tag for If-Match.
    """

    id: str
    project_id: str
    kind: DestinationKind
    name: str
    origin: str
    status: Literal["active", "stopped"]
    stop_reason: Literal["gone", "failing"] | None
    stopped_at: Epoch | None
    last_status: int | None
    last_error: Annotated[str, Meta(max_length=500)] | None
    last_delivered_at: Epoch | None
    rule: NotificationRule | None
    rule_count: int
    created_at: Epoch
    member_id: str | None
    etag: str


class DestinationAdded(DestinationItem, frozen=True, kw_only=True):
    """A new destination. `url` is shown once: it is null in a repeat of the request, and for mail."""

    url: str | None
    next_action: str


class NotificationList(msgspec.Struct, frozen=True, kw_only=True):
    """All destinations of a project, newest first, each with the rule of the caller."""

    project_id: str
    destinations: list[DestinationItem]
    count: int
    next_action: str


class RuleRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The rule of the caller after a change: null once it is removed."""

    destination_id: str
    rule: NotificationRule | None
    etag: str
    next_action: str


class DestinationDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """A deleted destination."""

    id: str
    status: Literal["deleted"] = "deleted"
    deleted_at: Epoch
    next_action: str


class DestinationTested(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a test message."""

    id: str
    delivery_id: str
    delivered: bool
    last_status: int | None
    last_error: Annotated[str, Meta(max_length=500)] | None
    next_action: str


class NotificationQuery(msgspec.Struct, frozen=True):
    """The position behind which the page begins, its length, and the status of its notifications."""

    after: Position = 0
    status: NotificationStatus | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class NotificationItem(msgspec.Struct, frozen=True, kw_only=True):
    """A notification without its text.

    `held`: it waits for the end of quiet hours, or of the hour after the message before about its subject. `merged`: a
    digest took it along.
    """

    delivery_id: str
    event: str
    position: Position
    subject_id: str
    status: NotificationStatus
    attempts: int
    last_status: int | None
    last_error: Annotated[str, Meta(max_length=500)] | None
    next_attempt_at: Epoch | None


class NotificationLog(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the notifications of a destination, in the order of the log. A page may be short and not the last."""

    notifications: list[NotificationItem]
    next_after: Position | None
    next_action: str
