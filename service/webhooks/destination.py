"""Destinations of notifications: added, tested, stopped and deleted, with the rules of members, and shown.

The address is sealed before the unit, and lies beside the stream as a fact under its lock. Whoever adds a destination
or a rule in a project takes a gate of its own, one after the other, so that their numbers are exact.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from projections.accounts import MEMBERSHIPS
from projections.notifications import (
    DESTINATIONS,
    NOTIFICATION_COUNTS,
    DestinationRow,
    NotificationCountRow,
    RuleEntry,
)
from projections.webhooks import WEBHOOK_TARGETS, WebhookTargetRow
from schemas import notifications as wire
from schemas.kernel.shape import shape_from
from service.auth.secrets import seal
from service.eventstore.declare.commands import Intent, Lookup, Unit
from service.eventstore.store import EventStore
from service.ids import new_id
from service.sql import load_query
from service.webhooks.sending import WEBHOOK_URL, AttemptOutcome, scope_of
from statemachines import notifications
from statemachines.accounts.membership import MemberNotFound, membership_id
from statemachines.kernel.machine import Stream
from statemachines.notifications import DestinationAdded, MemberRule, QuietHours, StopReason, no_destination

T = TypeVar("T", bound=msgspec.Struct)

# Destinations and rules, changed.

MAILTO = "mailto:"
"""The address of a destination for mail as far as it is kept: that of a person is read from their profile."""


class NewDestination(NamedTuple):
    """A destination that was just added, with its address in the clear."""

    row: DestinationRow
    url: str | None
    name: str


class ChangedRule(NamedTuple):
    """A destination as the change of a member's rule has left it."""

    row: DestinationRow
    member_id: str


class EndedDestination(NamedTuple):
    """A destination that was deleted, in epoch seconds."""

    id: str
    deleted_at: int


class AddressWish(NamedTuple):
    """A destination to add: the address of a chat, or a member to whom mail goes.

    `origin` is the part of the address that events hold.
    """

    kind: str
    url: str | None
    origin: str
    name: str
    member_id: str | None = None


def add(project_id: str, wish: AddressWish, member_id: str, key: bytes) -> Intent[NewDestination]:
    """Add a destination under a new id, its address sealed with a key.

    Raises TooManyDestinations, and MemberNotFound for mail to somebody else.
    """
    stream = notifications.stream(project_id, new_id(notifications.MACHINE.kind))
    target = WebhookTargetRow(
        project_id=project_id,
        id=stream.id,
        url=seal(key, WEBHOOK_URL, scope_of(*stream.name), wish.url or MAILTO),
        secret=None,
        description=wish.name,
    )

    mailed = (
        None if wish.member_id is None else Lookup(MEMBERSHIPS, project_id, membership_id(project_id, wish.member_id))
    )

    def decide(unit: Unit) -> NewDestination:
        if mailed is not None and unit.row(MEMBERSHIPS, mailed.project_id, mailed.id) is None:
            raise MemberNotFound(
                "The person does not belong to the project.", next_action="List the project's members."
            )
        mail_to = msgspec.UNSET if wish.member_id is None else wish.member_id
        event = DestinationAdded(wish.kind, wish.origin, member_id, unit.now, mail_to)
        standing = _counted(unit, project_id).destinations
        unit.append(stream, notifications.decide_add(unit.state(stream), event, standing=standing))
        unit.put(stream, WEBHOOK_TARGETS, target)
        return NewDestination(_row(unit, stream), wish.url, wish.name)

    lookups = [Lookup(NOTIFICATION_COUNTS, project_id, project_id), *([] if mailed is None else [mailed])]
    return Intent([stream], decide, lookups=lookups, fence=f"notifications:{project_id}", saves=True)


def set_rule(
    project_id: str,
    destination_id: str,
    member_id: str,
    events: tuple[str, ...],
    quiet_hours: QuietHours | None,
    *,
    if_match: str | None,
) -> Intent[ChangedRule]:
    """Set the rule of a member.

    Raises DestinationNotFound, PreconditionFailed, NotYourMail, TooManyNotificationRules.
    """
    stream = notifications.stream(project_id, destination_id)
    membership = Lookup(MEMBERSHIPS, project_id, membership_id(project_id, member_id))

    def decide(unit: Unit) -> ChangedRule:
        rule = MemberRule(events, quiet_hours, unit.now)
        standing, etag = _counted(unit, project_id).rules, _etag(unit, stream)
        member = unit.row(MEMBERSHIPS, membership.project_id, membership.id)
        decided = notifications.decide_rule(
            unit.state(stream),
            member_id,
            rule,
            since=member.created_at if member else unit.now,
            standing=standing,
            etag=etag,
            if_match=if_match,
        )
        unit.append(stream, decided)
        return ChangedRule(_row(unit, stream), member_id)

    lookups = [Lookup(NOTIFICATION_COUNTS, project_id, project_id), membership]
    return Intent([stream], decide, lookups=lookups, fence=f"notifications:{project_id}", saves=True)


def remove_rule(project_id: str, destination_id: str, member_id: str, *, if_match: str | None) -> Intent[ChangedRule]:
    """Remove the rule of a member. Raises DestinationNotFound, PreconditionFailed, RuleNotFound."""
    stream = notifications.stream(project_id, destination_id)

    def decide(unit: Unit) -> ChangedRule:
        etag = _etag(unit, stream)
        removed = notifications.decide_remove_rule(
            unit.state(stream), member_id, unit.now, etag=etag, if_match=if_match
        )
        unit.append(stream, removed)
        return ChangedRule(_row(unit, stream), member_id)

    return Intent([stream], decide)


def delete(project_id: str, destination_id: str, *, if_match: str | None) -> Intent[EndedDestination]:
    """Delete a destination, with its address and rules: no attempt begins after the answer.

    Raises DestinationNotFound, PreconditionFailed.
    """
    stream = notifications.stream(project_id, destination_id)

    def decide(unit: Unit) -> EndedDestination:
        etag = _etag(unit, stream)
        unit.append(stream, notifications.decide_delete(unit.state(stream), unit.now, etag=etag, if_match=if_match))
        gone = WebhookTargetRow(project_id=project_id, id=destination_id, url=None, secret=None)
        unit.put(stream, WEBHOOK_TARGETS, gone)
        return EndedDestination(destination_id, unit.now)

    return Intent([stream], decide)


def tested(project_id: str, destination_id: str, *, delivered: bool) -> Intent[None]:
    """Take in the outcome of a test: a success lifts a stop. Raises DestinationNotFound."""
    stream = notifications.stream(project_id, destination_id)

    def decide(unit: Unit) -> None:
        unit.append(stream, notifications.decide_tested(unit.state(stream), unit.now, delivered=delivered))

    return Intent([stream], decide)


def look_at(project_id: str, destination_id: str) -> Intent[None]:
    """Record nothing, and find the destination still there. Raises DestinationNotFound."""
    stream = notifications.stream(project_id, destination_id)

    def decide(unit: Unit) -> None:
        if not unit.state(stream).stands:
            raise no_destination()

    return Intent([], decide, reads=[stream])


def stop(project_id: str, destination_id: str, reason: StopReason) -> Intent[None]:
    """Stop a destination for its failures. One that is stopped or gone records nothing."""
    stream = notifications.stream(project_id, destination_id)

    def decide(unit: Unit) -> None:
        unit.append(stream, notifications.decide_stop(unit.state(stream), reason, unit.now))

    return Intent([stream], decide)


def _counted(unit: Unit, project_id: str) -> NotificationCountRow:
    counted = unit.row(NOTIFICATION_COUNTS, project_id, project_id)
    return counted or NotificationCountRow(project_id=project_id, id=project_id, destinations=0, rules=0)


def _etag(unit: Unit, stream: Stream) -> str:
    return notifications.make_etag(stream.id, unit.revision(stream))


def _row(unit: Unit, stream: Stream) -> DestinationRow:
    row = unit.row(DESTINATIONS, *stream.name)
    if row is None:
        raise no_destination()
    return row


# Queries about destinations.

LOOKED_AT = 2_000
"""Notifications that one page looks through for those of a status."""

_OF_PROJECT = load_query("webhooks", "destinations_of")
_NOTIFICATIONS = load_query("webhooks", "notifications")


class StandingDestination(NamedTuple):
    """A destination with the facts beside it, and the rules of present members. Times in epoch seconds."""

    row: DestinationRow
    target: WebhookTargetRow
    rules: list[RuleEntry]
    last_status: int | None
    last_error: str | None
    last_delivered_at: int | None


async def destinations_of(
    store: EventStore, project_id: str, destination_id: str | None = None
) -> list[StandingDestination]:
    """Read all destinations of a project, or one, newest first."""
    rows = await store.fetch(_OF_PROJECT, project_id=project_id, id=destination_id)
    return [
        StandingDestination(
            msgspec.json.decode(row, type=DestinationRow),
            msgspec.json.decode(target, type=WebhookTargetRow),
            msgspec.convert(rules, list[RuleEntry]),
            *facts,
        )
        for row, target, rules, *facts in rows
    ]


async def find_destination(store: EventStore, project_id: str, destination_id: str) -> StandingDestination:
    """Read one destination of a project. Raises DestinationNotFound."""
    for found in await destinations_of(store, project_id, destination_id):
        return found
    raise no_destination()


async def notifications_of(
    store: EventStore, project_id: str, destination_id: str, after: int, status: str | None, limit: int
) -> wire.NotificationLog:
    """Read notifications after a position, ascending."""
    rows = await store.fetch(
        _NOTIFICATIONS,
        project_id=project_id,
        webhook_id=destination_id,
        after=after,
        status=status,
        limit=limit,
        looked=LOOKED_AT,
    )
    names = wire.NotificationItem.__struct_fields__
    found = [wire.NotificationItem(**dict(zip(names, row[1:], strict=True))) for row in rows if row[1] is not None]
    next_after = found[-1].position if len(found) == limit else rows[0][0]
    return wire.NotificationLog(
        notifications=found,
        next_after=next_after,
        next_action="Nothing to do." if next_after is None else "Read on with after, as next_after says.",
    )


# Destinations on the wire. The address is in the answer that made it alone.

_MEND = "Look at last_error, then send a test. Its success starts a stopped destination again."
_EXPLAIN = "Set your rule to be told of something, then send a test."


def created(made: NewDestination, *, raw: bool) -> wire.DestinationAdded:
    """A new destination, with its address if `raw`."""
    target = WebhookTargetRow(
        project_id=made.row.project_id, id=made.row.id, url=None, secret=None, description=made.name
    )
    standing = StandingDestination(made.row, target, [], None, None, None)
    return _shown(wire.DestinationAdded, standing, "", url=made.url if raw else None, next_action=_EXPLAIN)


def listed(project_id: str, found: Sequence[StandingDestination], member_id: str) -> wire.NotificationList:
    """All destinations of a project, each with the rule of a member."""
    items = [_shown(wire.DestinationItem, one, member_id) for one in found]
    failing = any(item.last_error is not None for item in items)
    return wire.NotificationList(
        project_id=project_id, destinations=items, count=len(items), next_action=_MEND if failing else _EXPLAIN
    )


def rule_record(changed: ChangedRule) -> wire.RuleRecord:
    """The rule of a member after a change."""
    rule = _rule(changed.row.rules, changed.member_id)
    return wire.RuleRecord(
        destination_id=changed.row.id,
        rule=rule,
        etag=notifications.make_etag(changed.row.id, changed.row.revision),
        next_action="Nothing to do." if rule else "Set a rule to be told again.",
    )


def ended(gone: EndedDestination) -> wire.DestinationDeleted:
    """A deleted destination."""
    return wire.DestinationDeleted(
        id=gone.id, deleted_at=gone.deleted_at, next_action="Nothing to do. No message is sent any more."
    )


def shown_test(destination_id: str, delivery_id: str, attempt: AttemptOutcome) -> wire.DestinationTested:
    """The outcome of a test."""
    return wire.DestinationTested(
        id=destination_id,
        delivery_id=delivery_id,
        delivered=attempt.delivered,
        last_status=attempt.status,
        last_error=attempt.error,
        next_action="Nothing to do. Look at the message." if attempt.delivered else _MEND,
    )


def _rule(rules: Sequence[RuleEntry], member_id: str) -> wire.NotificationRule | None:
    for rule in rules:
        if rule.member_id == member_id:
            quiet = rule.quiet_hours
            shown = None if quiet is None else wire.QuietTime(quiet.begins, quiet.ends, quiet.timezone)
            return wire.NotificationRule(events=rule.events, quiet_hours=shown, set_at=rule.set_at)
    return None


def _shown(kind: type[T], standing: StandingDestination, member_id: str, **more: Any) -> T:
    """A destination with the rule of a member, as DestinationItem or a shape with `more` members."""
    row = standing.row
    return shape_from(
        kind,
        row,
        name=standing.target.description or "",
        last_status=standing.last_status,
        last_error=standing.last_error,
        last_delivered_at=standing.last_delivered_at,
        rule=_rule(standing.rules, member_id),
        rule_count=len(standing.rules),
        etag=notifications.make_etag(row.id, row.revision),
        **more,
    )
