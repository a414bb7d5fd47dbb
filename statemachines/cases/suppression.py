"""Rules that steer attention to cases: one stream per project, so that a new rule and a new case have an order.

An error that would open a case reads this stream under its lock. A rule therefore either is seen by that error or
commits after the case exists, and then finds it.
"""

from collections.abc import Iterable
from enum import Enum

import msgspec

from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)
from statemachines.kernel.shapes import matches

MAX_RULES = 500
"""Rules a project may have: each error that opens a case is held against all of them."""


def stream(project_id: str) -> Stream:
    """History of a project's rules."""
    return Stream(MACHINE, project_id, derived_id("sups", project_id))


class Status(Enum):
    """Whether the project has ever had rules."""

    NONE = "none"
    SOME = "some"


class SuppressionCreated(Event, frozen=True):
    """A member made a rule."""

    TOPIC = "suppression.created.v1"
    DOCUMENT = True
    id: str
    fingerprint_pattern: str
    action: str
    reason: str | None
    hint_text: str | None
    created_at: int


class SuppressionRemoved(Event, frozen=True):
    """A member took a rule away. What it did to cases stays done."""

    TOPIC = "suppression.removed.v1"
    id: str
    removed_at: int


TABLE = transition_table(
    Status,
    Status.NONE,
    [
        [SuppressionCreated.TOPIC, Status.NONE, Status.SOME],
        [SuppressionCreated.TOPIC, Status.SOME, Status.SOME],
        [SuppressionRemoved.TOPIC, Status.SOME, Status.SOME],
    ],
)


class Action(Enum):
    """What a matching rule does (R-CASE-12)."""

    AUTO_IGNORE = "auto_ignore"
    AUTO_RESOLVE = "auto_resolve"
    PROMPT_HINT = "prompt_hint"


class Rule(msgspec.Struct, frozen=True):
    """A rule as decisions need it."""

    id: str
    fingerprint_pattern: str
    action: Action


class Suppressions(msgspec.Struct, frozen=True):
    """The rules of a project, oldest first."""

    status: Status = Status.NONE
    rules: tuple[Rule, ...] = ()


class SuppressionConflict(Rejection):
    """The rule cannot be recorded."""

    code = "invalid_payload"


class TooManyRules(SuppressionConflict):
    """The project has as many rules as it may have."""


class HintMissing(SuppressionConflict):
    """A `prompt_hint` rule says nothing (G-053)."""


def settling_rule(rules: Iterable[Rule], *fingerprints: str) -> Rule | None:
    """Find the newest rule of auto_ignore and auto_resolve that matches a fingerprint. Rules come oldest first.

    An error has the fingerprint of each version of the grouping (G-174), a case the one that opened it.
    """
    found = None
    for rule in rules:
        settles = rule.action is not Action.PROMPT_HINT
        if settles and any(matches(rule.fingerprint_pattern, fingerprint) for fingerprint in fingerprints):
            found = rule
    return found


def decide_create(
    state: Suppressions,
    *,
    id: str,
    fingerprint_pattern: str,
    action: Action,
    reason: str | None,
    hint_text: str | None,
    now: int,
) -> list[Event]:
    """Add a rule. An existing one of this id is not added again. Raises TooManyRules, HintMissing."""
    if any(rule.id == id for rule in state.rules):
        return []
    if action is Action.PROMPT_HINT and not hint_text:
        raise HintMissing("A rule with the action prompt_hint needs a hint_text.", next_action="Add hint_text.")
    if len(state.rules) >= MAX_RULES:
        raise TooManyRules(f"A project has at most {MAX_RULES} rules.", next_action="Use a broader pattern.")
    return [SuppressionCreated(id, fingerprint_pattern, action.value, reason, hint_text, now)]


def decide_remove(state: Suppressions, id: str, now: int) -> list[Event]:
    """Take a rule away. Absent ones are not taken away again."""
    return [SuppressionRemoved(id, now)] if any(rule.id == id for rule in state.rules) else []


def evolve(state: Suppressions, event: Event) -> Suppressions:
    """Fold an event of the rules."""
    status = Status[destination(TABLE, event, state.status)]
    if isinstance(event, SuppressionCreated):
        rule = Rule(event.id, event.fingerprint_pattern, Action(event.action))
        return Suppressions(status, (*state.rules, rule))
    if isinstance(event, SuppressionRemoved):
        return Suppressions(status, tuple(rule for rule in state.rules if rule.id != event.id))
    return state


MACHINE = StateMachine("sups", TABLE, Suppressions(), evolve, SuppressionConflict, Suppressions, version=2)
