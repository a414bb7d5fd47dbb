"""Rules that steer attention: made, taken away, and applied to what is there (R-CASE-12, G-053).

A new rule counts at once for errors: intake reads the rules under its locks. The cases that are there already are gone
through in the background, each under its own lock and by the rule that counts by then.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from projections.cases import SUPPRESSIONS, SuppressionRule
from service.auth.authority import carry_out
from service.auth.refusals import refusal
from service.eventstore.declare.commands import Intent, Unit
from service.eventstore.read.reader import PageEnd
from service.eventstore.store import EventStore
from service.ids import new_id
from service.sql import load_query
from statemachines.cases import case as cases
from statemachines.cases import suppression as suppressions
from statemachines.cases.suppression import Action

PAGE = 500
AT_ONCE = 8

_ATTENTION = load_query("cases", "attention")


class SuppressionWish(NamedTuple):
    """A rule to make."""

    fingerprint_pattern: str
    action: Action
    reason: str | None
    hint_text: str | None


async def rules_of(store: EventStore, project_id: str) -> list[SuppressionRule]:
    """Read all rules of a project, newest first."""
    row = await store.get(SUPPRESSIONS, project_id, suppressions.stream(project_id).id)
    return [] if row is None else row.rules[::-1]


def create(project_id: str, wish: SuppressionWish) -> Intent[SuppressionRule]:
    """Make a rule under a new id. Raises HintMissing and TooManyRules."""
    stream, made_id = suppressions.stream(project_id), new_id("sup")

    def decide(unit: Unit) -> SuppressionRule:
        unit.append(
            stream,
            suppressions.decide_create(
                unit.state(stream),
                id=made_id,
                fingerprint_pattern=wish.fingerprint_pattern,
                action=wish.action,
                reason=wish.reason,
                hint_text=wish.hint_text,
                now=unit.now,
            ),
        )
        row = unit.row(SUPPRESSIONS, *stream.name)
        assert row is not None, "the rules have a row once there is one"
        return row.rules[-1]

    return Intent([stream], decide)


def remove(project_id: str, suppression_id: str) -> Intent[str]:
    """Take a rule away; what it did to cases stays done. Raises a refusal for a rule that is not there."""
    stream = suppressions.stream(project_id)

    def decide(unit: Unit) -> str:
        events = suppressions.decide_remove(unit.state(stream), suppression_id, unit.now)
        if not events:
            raise refusal("not_found")
        unit.append(stream, events)
        return suppression_id

    return Intent([stream], decide)


async def apply_rules(store: EventStore, project_id: str) -> int:
    """Apply the rules of a project to every case that has attention; returns how many were taken out of it.

    A second one at once, or one that begins again after a kill, finds less to do and records nothing twice.
    """
    applied = 0
    for status in (cases.Status.OPEN.value, cases.Status.OVERFLOW.value):
        place = PageEnd(-1, "")
        while True:
            stream = suppressions.stream(project_id)
            row = await store.get(SUPPRESSIONS, project_id, stream.id)
            rules = [
                suppressions.Rule(rule.id, rule.fingerprint_pattern, Action(rule.action))
                for rule in (row.rules if row else ())
            ]
            found = await store.fetch(
                _ATTENTION, project_id=project_id, status=status, at=place.at, id=place.id, most=PAGE
            )
            due = [case_id for _, case_id, fingerprint in found if suppressions.settling_rule(rules, fingerprint)]
            for first in range(0, len(due), AT_ONCE):
                together = due[first : first + AT_ONCE]
                applied += sum(await asyncio.gather(*(_apply(store, project_id, case_id) for case_id in together)))
            if len(found) < PAGE:
                break
            place = PageEnd(found[-1][0], found[-1][1])
    return applied


async def _apply(store: EventStore, project_id: str, case_id: str) -> bool:
    """Apply the rule that counts for a case by now, if there still is one."""
    stream, rules = cases.stream(project_id, case_id), suppressions.stream(project_id)

    def decide(unit: Unit) -> bool:
        state = unit.state(stream)
        rule = suppressions.settling_rule(unit.state(rules).rules, state.fingerprint)
        events = [] if rule is None else cases.decide_suppress(state, rule, unit.now)
        unit.append(stream, events)
        return bool(events)

    return await carry_out(store, "rules", "apply suppressions", Intent([stream], decide, [rules]), project=project_id)
