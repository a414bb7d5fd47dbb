"""A case: the life of one group of errors (G-050). Its stream is named by project and fingerprint.

Only the lifecycle is an event. What telemetry says (titles, counts, samples, environments) stays in fact tables, so
no text of a caller is ever recorded here. `revision` is the one that clients see and name: opening, regressing and
closing raise it; further errors, claims and comments do not (G-121).

A case that was merged into another stays the case of its fingerprint: it says where the errors of that go now (G-145).
Whoever takes in an error follows it under the locks of both. No case leads further than one step: merging a case that
others were merged into leads those on as well. What members do to cases is decided in acting.py.
"""

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

import msgspec

from statemachines.cases.suppression import Action, Rule
from statemachines.kernel.machine import (
    Event,
    Moved,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)

LATE = 86400
"""Seconds after the repair of a case in which an error may arrive that happened before it."""
_OVERFLOW = "overflow-"  # fingerprints of errors are hexadecimal


def case_id(project_id: str, fingerprint: str) -> str:
    """Id of the one case of a fingerprint in a project: rival first errors name the same stream."""
    return derived_id("case", project_id, fingerprint)


def stream(project_id: str, case_id: str) -> Stream:
    """History of a case."""
    return Stream(MACHINE, project_id, case_id)


def overflow_fingerprint(hour: int) -> str:
    """Fingerprint of the case that takes what is too new in an hour (epoch seconds of its start); no error has it."""
    return f"{_OVERFLOW}{hour}"


def public_share(limit: int) -> int:
    """The cases of an hour's limit that errors by the public DSN may open (G-184): half of them, and never none."""
    return (limit + 1) // 2


def is_overflow(fingerprint: str) -> bool:
    """Whether a case is one that takes what is too new."""
    return fingerprint.startswith(_OVERFLOW)


class Status(Enum):
    """Where a case stands. OPEN is the only active one; OVERFLOW is shown like it, but wakes no automation (G-136).

    MERGED leads to another case, which has its errors.
    """

    ABSENT = "absent"
    OPEN = "open"
    RESOLVED = "resolved"
    IGNORED = "ignored"
    OVERFLOW = "overflow"
    MERGED = "merged"


class CaseOpened(Event, frozen=True):
    """The first error of a fingerprint arrived and no rule spoke against attention."""

    TOPIC = "case.opened.v1"
    fingerprint: str
    grouping_version: int
    opened_at: int


class CaseOpenedIgnored(Event, frozen=True):
    """The first error arrived under a rule that ignores it."""

    TOPIC = "case.opened_ignored.v1"
    fingerprint: str
    grouping_version: int
    suppression_id: str
    opened_at: int


class CaseOpenedResolved(Event, frozen=True):
    """The first error arrived under a rule that closes it."""

    TOPIC = "case.opened_resolved.v1"
    fingerprint: str
    grouping_version: int
    suppression_id: str
    opened_at: int


class CaseOverflowOpened(Event, frozen=True):
    """More fingerprints were new in an hour than get cases of their own: this one counts the others."""

    TOPIC = "case.overflow_opened.v1"
    fingerprint: str
    hour: int
    opened_at: int


class CaseImported(Event, frozen=True):
    """An error of an export is the first of its fingerprint. The actor is the importing person, as of the two below."""

    TOPIC = "case.imported.v1"
    fingerprint: str
    grouping_version: int
    opened_at: int


class CaseImportedResolved(Event, frozen=True):
    """The same, and its issue was resolved there, or a rule of the project resolves it: then its id is set."""

    TOPIC = "case.imported_resolved.v1"
    fingerprint: str
    grouping_version: int
    suppression_id: str | None
    opened_at: int


class CaseImportedIgnored(Event, frozen=True):
    """The same, and its issue was ignored there, or a rule of the project ignores it: then its id is set."""

    TOPIC = "case.imported_ignored.v1"
    fingerprint: str
    grouping_version: int
    suppression_id: str | None
    opened_at: int


class CaseRegressed(Event, frozen=True):
    """An error arrived after the case had been resolved."""

    TOPIC = "case.regressed.v1"
    regressed_at: int


class CaseIgnored(Event, frozen=True):
    """A rule or a case run took an open case out of attention; exactly one of the two ids is set."""

    TOPIC = "case.ignored.v1"
    suppression_id: str | None
    case_run_id: str | None
    ignored_at: int


class CaseResolved(Event, frozen=True, omit_defaults=True):
    """A rule or a succeeded automation run closed an open case. Exactly one of the two ids is set.

    `deployed_at` is the time of the run's deploy (epoch seconds).
    """

    TOPIC = "case.resolved.v1"
    suppression_id: str | None
    run_id: str | None
    resolved_at: int
    deployed_at: int | None = None


class CaseResolvedByMember(Event, frozen=True):
    """A member says that the cause is gone."""

    TOPIC = "case.resolved_by_member.v1"
    resolved_at: int


class CaseIgnoredByMember(Event, frozen=True):
    """A member takes the case out of attention."""

    TOPIC = "case.ignored_by_member.v1"
    ignored_at: int


class CaseReopened(Event, frozen=True):
    """A member brings a closed case back."""

    TOPIC = "case.reopened.v1"
    reopened_at: int


class CaseOverflowReopened(Event, frozen=True):
    """A member brings an ignored overflow case back into attention. It still wakes no automation (G-205)."""

    TOPIC = "case.overflow_reopened.v1"
    reopened_at: int


class CaseAssigned(Event, frozen=True):
    """A member is to look after the case; None: nobody."""

    TOPIC = "case.assigned.v1"
    user_id: str | None
    assigned_at: int


class CaseMerged(Event, frozen=True):
    """What arrives under this fingerprint goes into another case from now on."""

    TOPIC = "case.merged.v1"
    into_case_id: str
    merged_at: int


class CaseSplitOff(Event, frozen=True):
    """What arrives under this fingerprint is a case of its own again."""

    TOPIC = "case.split_off.v1"
    from_case_id: str
    split_at: int


class CaseAbsorbed(Event, frozen=True):
    """Another case was merged into this one."""

    TOPIC = "case.absorbed.v1"
    case_id: str
    absorbed_at: int


class CaseReleased(Event, frozen=True):
    """A case that was merged into this one goes elsewhere: it was split off, or led on with this one."""

    TOPIC = "case.released.v1"
    case_id: str
    released_at: int


_SETTLED = [Status.OPEN, Status.RESOLVED, Status.IGNORED]
TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [CaseOpened.TOPIC, Status.ABSENT, Status.OPEN],
        [CaseOpenedIgnored.TOPIC, Status.ABSENT, Status.IGNORED],
        [CaseOpenedResolved.TOPIC, Status.ABSENT, Status.RESOLVED],
        [CaseImported.TOPIC, Status.ABSENT, Status.OPEN],
        [CaseImportedResolved.TOPIC, Status.ABSENT, Status.RESOLVED],
        [CaseImportedIgnored.TOPIC, Status.ABSENT, Status.IGNORED],
        [CaseRegressed.TOPIC, Status.RESOLVED, Status.OPEN],
        [CaseIgnored.TOPIC, Status.OPEN, Status.IGNORED],
        [CaseOverflowOpened.TOPIC, Status.ABSENT, Status.OVERFLOW],
        [CaseIgnored.TOPIC, Status.OVERFLOW, Status.IGNORED],
        [CaseResolved.TOPIC, Status.OPEN, Status.RESOLVED],
        [CaseResolvedByMember.TOPIC, [Status.OPEN, Status.IGNORED], Status.RESOLVED],
        [CaseIgnoredByMember.TOPIC, [Status.OPEN, Status.RESOLVED, Status.OVERFLOW], Status.IGNORED],
        [CaseReopened.TOPIC, [Status.RESOLVED, Status.IGNORED], Status.OPEN],
        [CaseOverflowReopened.TOPIC, Status.IGNORED, Status.OVERFLOW],
        [CaseAssigned.TOPIC, _SETTLED, None],
        [CaseMerged.TOPIC, [*_SETTLED, Status.MERGED], Status.MERGED],
        [CaseSplitOff.TOPIC, Status.MERGED, Status.OPEN],
        [CaseAbsorbed.TOPIC, _SETTLED, None],
        [CaseReleased.TOPIC, _SETTLED, None],
    ],
)


class Case(msgspec.Struct, frozen=True):
    """What decisions about a case depend on. `revision` is the one that clients see.

    `members` are the cases that were merged into this one, `merged_into` the one that this was merged into;
    `resolved_at` is in epoch seconds, while it is resolved, and `deployed_at` the time of the deploy behind that.
    """

    status: Status = Status.ABSENT
    revision: int = 0
    fingerprint: str = ""
    grouping_version: int = 0
    suppression_id: str | None = None  # the rule behind the present status
    resolved_at: int | None = None
    assignee: str | None = None
    merged_into: str | None = None
    members: tuple[str, ...] = ()
    deployed_at: int | None = None
    imported: bool = False  # opened by an error of an export


class CaseConflict(Rejection):
    """The case has moved on from what the command expects."""

    code = "case_revision_stale"


class CaseNotActionable(Rejection):
    """An overflow, merged or full case: it does not take this (G-178)."""

    code = "case_not_actionable"


def moves_on_error(state: Case) -> bool:
    """Whether an arriving error may change the case; otherwise it is only counted."""
    return state.status is Status.ABSENT or state.status is Status.RESOLVED


def arrived_late(state: Case, occurred_at: int, received_at: int) -> bool:
    """Whether an error happened before its resolved case was repaired, and arrived within a day of that (G-193).

    Times are epoch seconds. A late error of an older release does not reopen a case at any time (G-144).
    """
    repaired_at = state.resolved_at if state.deployed_at is None else state.deployed_at
    return repaired_at is not None and occurred_at < repaired_at and received_at <= repaired_at + LATE


def decide_error(
    state: Case, fingerprint: str, grouping_version: int, rule: Rule | None, now: int, *, outdated: bool = False
) -> list[Event]:
    """Take in an error. `rule` is the one of auto_ignore and auto_resolve that applies, or None (G-053).

    `outdated`: its release was replaced before the case was resolved (G-144), or it arrived late (G-193). Either way it
    says nothing about the case.
    """
    if state.status is Status.RESOLVED:
        closes = rule is not None and rule.action is Action.AUTO_RESOLVE
        return [] if closes or outdated else [CaseRegressed(now)]
    if state.status is not Status.ABSENT:
        return []
    if rule is None:
        return [CaseOpened(fingerprint, grouping_version, now)]
    if rule.action is Action.AUTO_RESOLVE:
        return [CaseOpenedResolved(fingerprint, grouping_version, rule.id, now)]
    return [CaseOpenedIgnored(fingerprint, grouping_version, rule.id, now)]


def decide_import(
    state: Case, fingerprint: str, grouping_version: int, wished: Status, rule: Rule | None, now: int
) -> list[Event]:
    """Take in an error of an export, whose issue is `wished` open, resolved or ignored. A known case stays as it is.

    `rule` is as in decide_error, and decides where the issue was open.
    """
    if state.status is not Status.ABSENT:
        return []
    rule_id = None
    if wished is Status.OPEN and rule is not None:
        rule_id, wished = rule.id, Status.RESOLVED if rule.action is Action.AUTO_RESOLVE else Status.IGNORED
    match wished:
        case Status.RESOLVED:
            return [CaseImportedResolved(fingerprint, grouping_version, rule_id, now)]
        case Status.IGNORED:
            return [CaseImportedIgnored(fingerprint, grouping_version, rule_id, now)]
        case _:
            return [CaseImported(fingerprint, grouping_version, now)]


def decide_overflow(state: Case, hour: int, now: int) -> list[Event]:
    """Take in an error that is too new for a case of its own. No rule speaks against showing that there are such."""
    return [CaseOverflowOpened(overflow_fingerprint(hour), hour, now)] if state.status is Status.ABSENT else []


def decide_suppress(state: Case, rule: Rule, now: int) -> list[Event]:
    """Apply a new rule that matches. A case that is not open stays as it is; one of overflow can only be ignored."""
    if state.status is Status.OVERFLOW and rule.action is Action.AUTO_IGNORE:
        return [CaseIgnored(suppression_id=rule.id, case_run_id=None, ignored_at=now)]
    if state.status is not Status.OPEN:
        return []
    match rule.action:
        case Action.AUTO_IGNORE:
            return [CaseIgnored(suppression_id=rule.id, case_run_id=None, ignored_at=now)]
        case Action.AUTO_RESOLVE:
            return [CaseResolved(suppression_id=rule.id, run_id=None, resolved_at=now)]
        case Action.PROMPT_HINT:
            return []


def decide_mark_spurious(state: Case, case_run_id: str, now: int) -> list[Event]:
    """Ignore an open case because somebody found it to be noise."""
    if state.status is not Status.OPEN and state.status is not Status.OVERFLOW:
        return []
    return [CaseIgnored(suppression_id=None, case_run_id=case_run_id, ignored_at=now)]


def decide_resolve(state: Case, run_id: str, now: int, deployed_at: int | None = None) -> list[Event]:
    """Close an open case because its automation run succeeded, whose deploy was at a time (epoch seconds)."""
    if state.status is not Status.OPEN:
        return []
    return [CaseResolved(suppression_id=None, run_id=run_id, resolved_at=now, deployed_at=deployed_at)]


# What members do to cases: resolve, ignore, reopen, assign, merge and split (G-145). Pure decisions over case.py.
# Each names the revision of the case that it was decided on. A merge moves where errors go, under the locks of all
# cases that it touches: the one that is merged, those merged into it before, and the one that takes them in.

MAX_MEMBERS = 50
"""Cases that may be merged into one: each read of it looks at all of them."""

_READ = "Read the case again and decide from its present state."
_EVENTS = Mapping[str, list[Event]]


class Merge(NamedTuple):
    """Merge `case_id` into `into_case_id`."""

    case_id: str
    into_case_id: str


def require_revision(state: Case, case_revision: int) -> None:
    """Refuse unless the case is as whoever asks has seen it. Raises CaseConflict."""
    if state.revision != case_revision:
        raise CaseConflict("The case has changed since you read it.", next_action=_READ, case_revision=state.revision)


def require_actionable(state: Case, event: type[Event]) -> None:
    """Refuse what is done to cases of one kind of error alone. Raises CaseNotActionable.

    An overflow case can be ignored and reopened, and no more (G-205). A merged case can be neither.
    """
    if state.status is Status.MERGED:
        raise CaseNotActionable(
            "The case was merged into another one.",
            next_action="Act on the case named in details.merged_into, or split this one off it first.",
            merged_into=state.merged_into,
            allowed_next=[],
        )
    if is_overflow(state.fingerprint) and event not in {CaseIgnoredByMember, CaseOverflowReopened}:
        ignored = state.status is Status.IGNORED
        raise CaseNotActionable(
            "An overflow case holds many kinds of errors.",
            next_action=f"{'Reopen' if ignored else 'Ignore'} it. Its errors open cases of their own once the limit "
            "allows.",
            allowed_next=[(CaseOverflowReopened if ignored else CaseIgnoredByMember).TOPIC],
        )


def decide_resolve_by_member(state: Case, now: int) -> list[Event]:
    """Close a case; one that is resolved stays as it is. Raises CaseNotActionable."""
    require_actionable(state, CaseResolvedByMember)
    return [] if state.status is Status.RESOLVED else [CaseResolvedByMember(now)]


def decide_ignore_by_member(state: Case, now: int) -> list[Event]:
    """Ignore a case; one that is ignored stays as it is. Raises CaseNotActionable."""
    require_actionable(state, CaseIgnoredByMember)
    return [] if state.status is Status.IGNORED else [CaseIgnoredByMember(now)]


def decide_reopen(state: Case, now: int) -> list[Event]:
    """Bring a case back; one that is open, or of overflow, stays as it is. Raises CaseNotActionable."""
    event = CaseOverflowReopened if is_overflow(state.fingerprint) else CaseReopened
    require_actionable(state, event)
    if state.status is Status.OPEN or state.status is Status.OVERFLOW:
        return []
    return [event(now)]


def decide_assign(state: Case, user_id: str | None, now: int) -> list[Event]:
    """Assign a case to a member; who does already is not recorded again. Raises CaseNotActionable."""
    require_actionable(state, CaseAssigned)
    return [] if state.assignee == user_id else [CaseAssigned(user_id, now)]


def merge_cases(wish: Merge, cases: Mapping[str, Case], now: int) -> _EVENTS:
    """Let what comes for a case, and for those merged into it, go into another; a repeat records nothing.

    `cases` are the states of both and of those merged into the first. Raises CaseConflict, CaseNotActionable, and Moved
    when one that was merged into the first meanwhile is not among them.
    """
    merged, target = cases[wish.case_id], cases[wish.into_case_id]
    if merged.status is Status.MERGED and merged.merged_into == wish.into_case_id:
        return {}
    led_on = merged.members
    if not cases.keys() >= set(led_on):
        raise Moved
    _require_mergeable(wish, merged, target)
    if len(target.members) + 1 + len(led_on) > MAX_MEMBERS:
        raise CaseConflict(
            "The case has reached its limit of merged cases.",
            next_action="Merge into another case, or split some off first.",
            most=MAX_MEMBERS,
        )
    moved = (wish.case_id, *led_on)
    released: list[Event] = [CaseReleased(member, now) for member in led_on]
    events: dict[str, list[Event]] = {member: [CaseMerged(wish.into_case_id, now)] for member in led_on}
    events[wish.case_id] = [*released, CaseMerged(wish.into_case_id, now)]
    events[wish.into_case_id] = [CaseAbsorbed(case_id, now) for case_id in moved]
    return events


def _require_mergeable(wish: Merge, merged: Case, target: Case) -> None:
    if wish.case_id == wish.into_case_id:
        raise CaseConflict("A case cannot be merged into itself.", next_action="Name another case.")
    require_actionable(merged, CaseMerged)
    if target.status is Status.MERGED:
        raise CaseNotActionable(
            "The case to merge into was merged into another one itself.",
            next_action="Merge into the case named in details.merged_into.",
            merged_into=target.merged_into,
        )
    if is_overflow(target.fingerprint):
        raise CaseNotActionable(
            "The target of the merge is an overflow case.",
            next_action="Merge into a case of one kind of error.",
        )


def split_off(case_id: str, member_id: str, state: Case, member: Case, now: int) -> _EVENTS:
    """Let what comes for a case that was merged be a case of its own again.

    Raises CaseConflict when it is not merged into this one.
    """
    if member_id not in state.members or member.merged_into != case_id:
        raise CaseConflict(
            "No errors of this fingerprint were merged into the case.",
            next_action="Read the case. `merged` lists the cases you can split off.",
        )
    return {case_id: [CaseReleased(member_id, now)], member_id: [CaseSplitOff(case_id, now)]}


def evolve(state: Case, event: Event) -> Case:
    """Fold an event of a case."""
    status = Status[destination(TABLE, event, state.status)]
    change = msgspec.structs.replace
    match event:
        case CaseOpened() | CaseImported():
            imported = isinstance(event, CaseImported)
            return Case(status, 1, event.fingerprint, event.grouping_version, imported=imported)
        case CaseOverflowOpened():
            return Case(status, 1, event.fingerprint)
        case CaseOpenedIgnored() | CaseOpenedResolved() | CaseImportedIgnored() | CaseImportedResolved():
            imported = isinstance(event, CaseImportedIgnored | CaseImportedResolved)
            resolved_at = event.opened_at if status is Status.RESOLVED else None
            opened = Case(status, 1, event.fingerprint, event.grouping_version, event.suppression_id, resolved_at)
            return change(opened, imported=imported)
        case CaseAssigned():
            return change(state, assignee=event.user_id)
        case CaseAbsorbed() | CaseReleased():
            others = tuple(member for member in state.members if member != event.case_id)
            return change(state, members=(*others, event.case_id) if isinstance(event, CaseAbsorbed) else others)
    return change(
        state,
        status=status,
        revision=state.revision + (status is not state.status),
        suppression_id=event.suppression_id if isinstance(event, CaseIgnored | CaseResolved) else None,
        resolved_at=event.resolved_at if isinstance(event, CaseResolved | CaseResolvedByMember) else None,
        merged_into=event.into_case_id if isinstance(event, CaseMerged) else None,
        deployed_at=event.deployed_at if isinstance(event, CaseResolved) else None,
    )


MACHINE = StateMachine("case", TABLE, Case(), evolve, CaseConflict, Case, version=3)
