"""What members do to cases: resolve, ignore, reopen, assign, merge and split (G-145). Pure decisions over case.py.

Each names the revision of the case that it was decided on. A merge moves where errors go, under the locks of all cases
that it touches: the one that is merged, those merged into it before, and the one that takes them in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from statemachines.cases.case import (
    Case,
    CaseAbsorbed,
    CaseAssigned,
    CaseConflict,
    CaseIgnoredByMember,
    CaseMerged,
    CaseNotActionable,
    CaseOverflowReopened,
    CaseReleased,
    CaseReopened,
    CaseResolvedByMember,
    CaseSplitOff,
    Status,
    is_overflow,
)
from statemachines.kernel.machine import Event
from statemachines.kernel.moved import Moved

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
