"""A destination of notifications: a chat of a team, or the mail of a member, with rules, until it is deleted.

Owners add and delete a destination. Each member has at most one rule for it: the occasions to tell, and quiet hours.
For mail, that member alone has one.
Deliveries record nothing here, and neither do their outcomes: these are facts. The address opens the chat, so it is
sealed beside the stream. Events hold its origin, and ids of members. `told` is the union of all rules after an event,
for the reader of the log.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from statemachines.kernel.machine import (
    Event,
    LimitReached,
    Rejection,
    StateMachine,
    Stream,
    destination,
    require_same,
    transition_table,
)

DESTINATIONS_LIMIT = 20
"""Destinations that a project has at most."""
RULES_LIMIT = 100
"""Rules that a project has at most, those of its present members."""

StopReason = Literal["gone", "failing"]
"""`gone`: the receiver answered 404 or 410. `failing`: five days of failures."""


def stream(project_id: str, destination_id: str) -> Stream:
    """History of a destination. Raises DestinationNotFound for an id of something else."""
    if not destination_id.startswith(f"{MACHINE.kind}_"):
        raise no_destination()
    return Stream(MACHINE, project_id, destination_id)


class Status(Enum):
    """Where a destination stands."""

    ABSENT = "absent"
    ACTIVE = "active"
    STOPPED = "stopped"
    DELETED = "deleted"


class QuietHours(msgspec.Struct, frozen=True):
    """A span of each day, by the clock of a zone, from one HH:MM until another. It may go over midnight."""

    begins: str
    ends: str
    timezone: str


class DestinationAdded(Event, frozen=True):
    """An owner added a destination. `origin` is scheme, host and port of its address. Mail goes to `member_id`."""

    TOPIC = "notification_destination.added.v1"
    kind: str
    origin: str
    added_by: str
    added_at: int
    member_id: str | UnsetType = UNSET


class RuleSet(Event, frozen=True):
    """A member made a rule, or replaced theirs."""

    TOPIC = "notification_destination.rule_set.v1"
    member_id: str
    events: list[str]
    quiet_hours: QuietHours | None
    told: list[str]
    set_at: int


class RuleRemoved(Event, frozen=True):
    """A member removed their rule."""

    TOPIC = "notification_destination.rule_removed.v1"
    member_id: str
    told: list[str]
    removed_at: int


class DestinationStopped(Event, frozen=True):
    """Nothing is sent from here on, nor what was queued before."""

    TOPIC = "notification_destination.stopped.v1"
    reason: StopReason
    stopped_at: int


class DestinationReopened(Event, frozen=True):
    """A test succeeded: what happens from here on is sent again."""

    TOPIC = "notification_destination.reopened.v1"
    reopened_at: int


class DestinationDeleted(Event, frozen=True):
    """An owner deleted the destination, with the rules for it."""

    TOPIC = "notification_destination.deleted.v1"
    deleted_at: int


_STANDING = [Status.ACTIVE, Status.STOPPED]
TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [DestinationAdded.TOPIC, Status.ABSENT, Status.ACTIVE],
        [RuleSet.TOPIC, _STANDING, None],
        [RuleRemoved.TOPIC, _STANDING, None],
        [DestinationStopped.TOPIC, _STANDING, Status.STOPPED],
        [DestinationReopened.TOPIC, Status.STOPPED, Status.ACTIVE],
        [DestinationDeleted.TOPIC, _STANDING, Status.DELETED],
    ],
)


class MemberRule(msgspec.Struct, frozen=True):
    """The rule of a member, in force from `set_at` on (epoch seconds)."""

    events: tuple[str, ...]
    quiet_hours: QuietHours | None = None
    set_at: int = 0


class NotificationDestination(msgspec.Struct, frozen=True):
    """The state for decisions on a destination: its rules by member. One for mail has the rule of `member_id` alone."""

    status: Status = Status.ABSENT
    rules: Mapping[str, MemberRule] = {}
    member_id: str | None = None

    @property
    def stands(self) -> bool:
        """Whether there is such a destination."""
        return self.status in _STANDING


class DestinationNotFound(Rejection):
    """There is no such destination in the project, or none any more: these look the same."""

    code = "destination_not_found"


class RuleNotFound(Rejection):
    """The caller has no rule for the destination."""

    code = "not_found"


class NotYourMail(Rejection):
    """The destination sends mail to another member."""

    code = "principal_not_allowed"


class TooManyDestinations(LimitReached):
    """The project has as many destinations as it may have."""


class TooManyNotificationRules(LimitReached):
    """The project has as many rules as it may have."""


def no_destination() -> DestinationNotFound:
    """The one refusal for an absent destination, a deleted one, and one of somebody else."""
    return DestinationNotFound("There is no such destination.", next_action="List the notifications of the project.")


def make_etag(destination_id: str, revision: int) -> str:
    """Make the quoted tag of a revision."""
    return f'"dest:{destination_id}:{revision}"'


def told_by(rules: Mapping[str, MemberRule]) -> list[str]:
    """The occasions that any of some rules names, in order."""
    return sorted({name for rule in rules.values() for name in rule.events})


def decide_add(state: NotificationDestination, event: DestinationAdded, *, standing: int) -> list[Event]:
    """Add a destination beside the `standing` ones. A repeat records nothing. Raises TooManyDestinations."""
    if state.status is not Status.ABSENT:
        return []
    if standing >= DESTINATIONS_LIMIT:
        raise TooManyDestinations(
            f"A project has at most {DESTINATIONS_LIMIT} destinations.",
            next_action="Delete a destination that is no longer needed.",
        )
    return [event]


def decide_rule(
    state: NotificationDestination,
    member_id: str,
    rule: MemberRule,
    *,
    since: int,
    standing: int,
    etag: str,
    if_match: str | None,
) -> list[Event]:
    """Set the rule of a member since some time, beside the `standing` ones of the project.

    The same rule records nothing, unless it was made before the person became a member again. `if_match` is compared
    with `etag`, where it is given. Raises DestinationNotFound, PreconditionFailed, NotYourMail,
    TooManyNotificationRules.
    """
    _check(state, etag, if_match)
    if state.member_id not in {None, member_id}:
        raise NotYourMail(
            "The destination sends mail to another member.", next_action="Ask an owner for a destination of your own."
        )
    before = state.rules.get(member_id)
    if before is not None and before.set_at < since:
        before = None
    if before is not None and (before.events, before.quiet_hours) == (rule.events, rule.quiet_hours):
        return []
    if before is None and standing >= RULES_LIMIT:
        raise TooManyNotificationRules(
            f"A project has at most {RULES_LIMIT} rules.", next_action="Remove a rule that is no longer needed."
        )
    told = told_by({**state.rules, member_id: rule})
    return [RuleSet(member_id, list(rule.events), rule.quiet_hours, told, rule.set_at)]


def decide_remove_rule(
    state: NotificationDestination, member_id: str, now: int, *, etag: str, if_match: str | None
) -> list[Event]:
    """Remove the rule of a member. Raises DestinationNotFound, PreconditionFailed, RuleNotFound."""
    _check(state, etag, if_match)
    if member_id not in state.rules:
        raise RuleNotFound("You have no rule for this destination.", next_action="Nothing to do.")
    rest = {member: rule for member, rule in state.rules.items() if member != member_id}
    return [RuleRemoved(member_id, told_by(rest), now)]


def decide_stop(state: NotificationDestination, reason: StopReason, now: int) -> list[Event]:
    """Stop a destination for its failures. One that is stopped or gone records nothing."""
    return [DestinationStopped(reason, now)] if state.status is Status.ACTIVE else []


def decide_tested(state: NotificationDestination, now: int, *, delivered: bool) -> list[Event]:
    """Take in the outcome of a test: a success lifts a stop. Raises DestinationNotFound."""
    if not state.stands:
        raise no_destination()
    return [DestinationReopened(now)] if delivered and state.status is Status.STOPPED else []


def decide_delete(state: NotificationDestination, now: int, *, etag: str, if_match: str | None) -> list[Event]:
    """Delete a destination. Raises DestinationNotFound once it is gone, PreconditionFailed."""
    _check(state, etag, if_match)
    return [DestinationDeleted(now)]


def _check(state: NotificationDestination, etag: str, if_match: str | None) -> None:
    if not state.stands:
        raise no_destination()
    if if_match is not None:
        next_action = "List the notifications again, and retry only if you still want the change."
        require_same(if_match, etag, "The destination has changed since you read it.", next_action)


def evolve(state: NotificationDestination, event: Event) -> NotificationDestination:
    """Fold an event of a destination."""
    status = Status[destination(TABLE, event, state.status)]
    member = state.member_id
    match event:
        case DestinationAdded(member_id=str(member)):
            rules = dict(state.rules)
        case RuleSet(member_id, events, quiet_hours, _, set_at):
            rules = {**state.rules, member_id: MemberRule(tuple(events), quiet_hours, set_at)}
        case RuleRemoved(member_id):
            rules = {other: rule for other, rule in state.rules.items() if other != member_id}
        case _:
            rules = dict(state.rules)
    return NotificationDestination(status, rules, member)


MACHINE = StateMachine("dest", TABLE, NotificationDestination(), evolve, DestinationNotFound, NotificationDestination)
