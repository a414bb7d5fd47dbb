"""Rules that steer attention: made, taken away, applied to what is there, and tried before (R-CASE-12, G-053).

A new rule counts at once for errors: intake reads the rules under its locks. The cases that are there already are gone
through in the background, each under its own lock and by the rule that counts by then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from projections.cases.suppressions import PROJECTION as SUPPRESSIONS
from projections.cases.suppressions import SuppressionRule
from service.auth.refusals import refusal
from service.auth.system import carry_out
from service.eventstore.clock import DAY
from service.eventstore.commands import Unit
from service.eventstore.intents import Intent
from service.eventstore.pages import Place
from service.eventstore.store import EventStore
from service.ids import new_id
from statemachines.cases import case as cases
from statemachines.cases import suppressions
from statemachines.cases.suppressions import Action, matches

PAGE = 500
AT_ONCE = 8
WINDOWS = (7, 30, 90)  # days
MOST_CASES = 20_000  # whose fingerprints a preview compares, newest first
MOST_MATCHES = 1_000
MOST_ROWS = 50_000  # errors that a preview looks at

_ATTENTION = """
select c.opened_at, c.id, c.fingerprint from cases c
where c.project_id = %s and c.status = %s and (c.opened_at, c.id) > (%s, %s) order by c.opened_at, c.id limit %s
"""
_FINGERPRINTS = """
select c.id, c.fingerprint, c.merged_into from cases c where c.project_id = %s
order by c.opened_at desc, c.id desc limit %s
"""
_ERRORS = """
select o.id, count(*) as looked_at, coalesce(min(e.received_at), 0) as oldest,
    count(*) filter (where e.wanted and e.received_at >= %s), count(*) filter (where e.wanted and e.received_at >= %s),
    count(*) filter (where e.wanted)
from unnest(%s::text[]) as o(id) cross join lateral (
    select l.received_at, l.fingerprint = any(%s) as wanted from log_events l
    where l.project_id = %s and l.case_id = o.id and l.received_at >= %s
    order by l.received_at desc, l.id desc limit %s) e
group by o.id
"""


class Wish(NamedTuple):
    """A rule to make."""

    fingerprint_pattern: str
    action: Action
    reason: str | None
    hint_text: str | None


class Window(NamedTuple):
    """How many errors of the last `days` match; when it is not `complete`, at least so many."""

    days: int
    events: int
    complete: bool


class Preview(NamedTuple):
    """What a pattern would have met: cases (all of them when `complete`), and errors by window."""

    cases: int
    complete: bool
    windows: list[Window]


async def rules_of(store: EventStore, project_id: str) -> list[SuppressionRule]:
    """Read all rules of a project, newest first."""
    row = await store.get(SUPPRESSIONS.table, project_id, suppressions.stream(project_id).id)
    return [] if row is None else row.rules[::-1]


def create(project_id: str, wish: Wish) -> Intent[SuppressionRule]:
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
        row = unit.row(SUPPRESSIONS.table, *stream.name)
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
        place = Place(-1, "")
        while True:
            stream = suppressions.stream(project_id)
            row = await store.get(SUPPRESSIONS.table, project_id, stream.id)
            rules = [
                suppressions.Rule(rule.id, rule.fingerprint_pattern, Action(rule.action))
                for rule in (row.rules if row else ())
            ]
            found = await store.fetch(_ATTENTION, project_id, status, place.at, place.id, PAGE)
            due = [case_id for _, case_id, fingerprint in found if suppressions.settling_rule(rules, fingerprint)]
            for first in range(0, len(due), AT_ONCE):
                together = due[first : first + AT_ONCE]
                applied += sum(await asyncio.gather(*(_apply(store, project_id, case_id) for case_id in together)))
            if len(found) < PAGE:
                break
            place = Place(found[-1][0], found[-1][1])
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


async def preview(store: EventStore, project_id: str, pattern: str) -> Preview:
    """Count what a pattern would have met, by looking at a bounded number of cases and errors."""
    now = await store.now()
    rows = await store.fetch(_FINGERPRINTS, project_id, MOST_CASES + 1)
    matched = [(case_id, fingerprint, into) for case_id, fingerprint, into in rows if matches(pattern, fingerprint)]
    complete = len(rows) <= MOST_CASES and len(matched) <= MOST_MATCHES
    looked_at = matched[:MOST_MATCHES]
    # What came for a merged case after that is among the errors of the other one.
    named = dict.fromkeys(name for case_id, _, into in looked_at for name in (case_id, into) if name is not None)
    each = MOST_ROWS // max(1, len(named))
    since = [now - days * DAY for days in WINDOWS]
    fingerprints = [fingerprint for _, fingerprint, _ in looked_at]
    counts = (
        await store.fetch(_ERRORS, since[0], since[1], list(named), fingerprints, project_id, since[2], each)
        if named
        else []
    )
    return Preview(len(matched), complete, [_window(place, counts, each, since, complete) for place in range(3)])


def _window(place: int, counts: Sequence[Sequence[Any]], each: int, since: Sequence[int], complete: bool) -> Window:
    """Sum a window up; one that begins before the oldest error that was looked at of a case may have more of it."""
    cut = any(looked_at >= each and oldest >= since[place] for _, looked_at, oldest, *_ in counts)
    return Window(WINDOWS[place], sum(row[3 + place] for row in counts), complete and not cut)
