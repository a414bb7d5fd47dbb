"""Rules that steer attention: made, taken away, and applied to what is there (R-CASE-12, G-053).

A new rule counts at once for errors: intake reads the rules under its locks. The cases that are there already are gone
through in the background, each under its own lock and by the rule that counts by then.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

from projections.cases import SUPPRESSIONS, SuppressionRule
from schemas.cases import suppression as wire
from service.auth.authority import carry_out
from service.auth.refusals import refusal
from service.eventstore.connect.facts import DAY
from service.eventstore.declare.commands import Intent, Unit
from service.eventstore.read.reader import END, PageEnd
from service.eventstore.store import EventStore
from service.ids import new_id
from service.sql import load_query
from statemachines.cases import case as cases
from statemachines.cases import suppression as suppressions

PAGE = 500
AT_ONCE = 8

_ATTENTION = load_query("cases", "attention")


class SuppressionWish(NamedTuple):
    """A rule to make."""

    fingerprint_pattern: str
    action: suppressions.Action
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
                suppressions.Rule(rule.id, rule.fingerprint_pattern, suppressions.Action(rule.action))
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


# What a pattern of a rule would have met, counted within a second however much a project has (R-CASE-12, G-053).
# Where a case had no error before a window began, or none since, its counter tells how many are within it. The rows
# of all others are counted together, newest first, a stretch of time after the other, each in a statement of its
# own: what is counted when the time is over is exact from there on, and the answer says from where. Rows of a case
# are told apart by their own fingerprints only where it may have those of others: one that nobody has acted on has
# its own alone. A preview holds one connection, gives it up between its statements, and waits until its tenant's
# other one is done.

WINDOWS = (7, 30, 90)  # days
SECONDS = 0.7  # that a preview takes: a request has one for all of its reads
COMPARING = 0.4  # of them, at most, for the fingerprints of cases
LONGEST = 16 * DAY  # that a statement looks at
QUICK = 0.02  # a statement that took less may be followed by one that looks at twice as much
CASES = 5_000  # whose fingerprints a statement compares
MOST_CASES = 2_000  # whose rows are counted, those with the most errors
ROWS = 50_000  # that a statement counts by the index alone
ROWS_READ = 10_000  # that a statement tells apart by their fingerprints

_COMPARE = load_query("cases", "compare")
_COUNT = load_query("cases", "count_matching")
_KEPT_FROM = load_query("cases", "kept_from")


class LookedAt(NamedTuple):
    """How many errors of the last `days` match: all since `counted_from` (epoch seconds; None: not even the latest).

    They are no more than `at_most`; None: that is not known.
    """

    days: int
    events: int
    complete: bool
    counted_from: int | None
    at_most: int | None


class Preview(NamedTuple):
    """What a pattern would have met: cases, and errors by window.

    Cases that were opened before `compared_from` (epoch seconds) were not looked at; None: all were.
    """

    cases: int
    compared_from: int | None
    windows: list[LookedAt]


class _Found:
    """What the comparing has found: sums that counters tell, and the cases whose rows tell the rest.

    `own` are cases with errors of their own alone, each with the moment from which its rows are counted; `mixed` are
    those that may have others. Both with their number of errors.
    """

    def __init__(self, since: list[int]) -> None:
        self.since = since
        self.cases = 0
        self.compared_from: int | None = None
        self.events = [0] * len(since)
        self.most = [0] * len(since)
        self.own: dict[str, tuple[int, int]] = {}
        self.mixed: dict[str, int] = {}
        self.taken = False  # retention has taken rows that would have to be counted

    def add(self, case: Sequence[Any]) -> None:
        """Take in a case that matches."""
        case_id, _, own, merged_into, count, first, last, taken, merged_count = case
        self.cases += 1
        if own:
            for place, moment in enumerate(self.since):
                self.events[place] += count if first >= moment else 0
                self.most[place] += count if last >= moment else 0
            straddled = [moment for moment in self.since if first < moment <= last]
            if straddled:
                self.own[case_id] = (count, min(straddled))
                self.taken = self.taken or taken
            return
        self.mixed[case_id] = count
        self.taken = self.taken or taken
        if merged_into is not None:  # What came for it after that is among the errors of the other one.
            self.mixed.setdefault(merged_into, merged_count or 0)

    def narrow(self) -> bool:
        """Keep the cases with the most errors, as many as are counted by rows; returns whether others are left out."""
        sizes = {**self.mixed, **{case_id: count for case_id, (count, _) in self.own.items()}}
        kept = set(sorted(sizes, key=lambda case_id: -sizes[case_id])[:MOST_CASES])
        self.own = {case_id: one for case_id, one in self.own.items() if case_id in kept}
        self.mixed = {case_id: count for case_id, count in self.mixed.items() if case_id in kept}
        return len(kept) < len(sizes)


async def preview(store: EventStore, project_id: str, pattern: str) -> Preview:
    """Count what a pattern would have met. Raises ReadNotDone when too many previews of the tenant wait."""
    now = await store.now()
    async with store.long_read():
        deadline = asyncio.get_running_loop().time() + SECONDS
        found, like = _Found([now - days * DAY for days in WINDOWS]), _like(pattern)
        await _compare(store, project_id, like, found, deadline - SECONDS + COMPARING)
        of_mixed = sum(found.mixed.values())
        counted_from = await _count(store, project_id, like, found, now, deadline)
    windows = []
    for days, moment, events, most in zip(WINDOWS, found.since, found.events, found.most, strict=True):
        complete = counted_from is not None and counted_from <= moment
        at_most = events if complete else None if found.compared_from is not None else max(events, most + of_mixed)
        since = None if counted_from is None else max(counted_from, moment)
        windows.append(LookedAt(days, events, complete, since, at_most))
    return Preview(found.cases, found.compared_from, windows)


async def _compare(store: EventStore, project_id: str, like: str, found: _Found, deadline: float) -> None:
    """Compare fingerprints, the newest cases first, until all are compared or the time is over."""
    place = END
    try:
        while True:
            async with asyncio.timeout_at(deadline):
                rows = await store.fetch(
                    _COMPARE, project_id=project_id, like=like, at=place.at, id=place.id, most=CASES
                )
            for _, _, *case in rows:
                if case[1]:
                    found.add(case)
            if not rows or rows[0][0] < CASES:
                return
            place = PageEnd(rows[-1][1], rows[-1][2])
    except TimeoutError:
        found.compared_from = place.at


async def _count(store: EventStore, project_id: str, like: str, found: _Found, now: int, deadline: float) -> int | None:
    """Add what the rows tell, newest first; returns since when everything is counted, None where nothing is."""
    complete = not found.narrow() and found.compared_from is None
    bottom = found.since[-1] if found.mixed else min((since for _, since in found.own.values()), default=now + 1)
    edge, span = now + 1, DAY
    first, second, third = found.since
    running = asyncio.get_running_loop()
    try:
        while edge > bottom:
            low, began = max(bottom, edge - span), running.time()
            own = {case_id: since for case_id, (_, since) in found.own.items() if since < edge}
            async with asyncio.timeout_at(deadline):
                [[of_own, of_mixed, *events]] = await store.fetch_planned(
                    _COUNT,
                    project_id=project_id,
                    first=first,
                    second=second,
                    third=third,
                    own=list(own),
                    own_since=list(own.values()),
                    most=ROWS,
                    like=like,
                    mixed=list(found.mixed),
                    most_mixed=ROWS_READ,
                    low=low,
                    edge=edge,
                )
            if of_own == ROWS or of_mixed == ROWS_READ:  # There may be more in so long a time.
                if edge - low == 1:
                    break
                span = max(1, (edge - low) // 4)
                continue
            found.events = [sum(pair) for pair in zip(found.events, events, strict=True)]
            edge = low
            if running.time() - began < QUICK:
                span = min(2 * span, LONGEST)
    except TimeoutError:
        pass
    if not complete:
        return None
    kept_from = await _kept_from(store, project_id) if found.taken else 0
    return max(edge if edge > bottom else 0, kept_from)


async def _kept_from(store: EventStore, project_id: str) -> int:
    """Since when there are rows: what retention has taken is counted nowhere but in the counters of its cases."""
    [[moment]] = await store.fetch_planned(_KEPT_FROM, project_id=project_id)
    return int(moment or 0)


def _like(pattern: str) -> str:
    """The pattern as `like` takes it, which never backtracks either (`matches` of the state machine says the same)."""
    for special in ("\\", "%", "_"):
        pattern = pattern.replace(special, f"\\{special}")
    return pattern.replace("*", "%")


# Suppression rules on the wire.

_NEXT = {
    "auto_ignore": "Nothing to do. Matching cases leave the open list. Their errors still count.",
    "auto_resolve": "Nothing to do. Matching cases are closed, and further errors do not open them.",
    "prompt_hint": "Nothing to do. Matching cases show the hint.",
}


def listed(project_id: str, rules: Sequence[SuppressionRule]) -> wire.SuppressionList:
    """Show all rules of a project."""
    shown = [wire.Suppression(**_members(rule)) for rule in rules]
    following = (
        "Delete a rule with DELETE on its id." if shown else "Try a pattern with the preview before making a rule."
    )
    return wire.SuppressionList(project_id, shown, len(shown), following)


def created(project_id: str, rule: SuppressionRule) -> wire.SuppressionCreated:
    """Show a rule that was just made."""
    return wire.SuppressionCreated(**_members(rule), project_id=project_id, next_action=_NEXT[rule.action])


def removed(project_id: str, suppression_id: str) -> wire.SuppressionRemoved:
    """Show that a rule is no more."""
    following = "Reopen the cases it closed or ignored if they matter again."
    return wire.SuppressionRemoved(id=suppression_id, project_id=project_id, next_action=following)


def previewed(project_id: str, pattern: str, preview: Preview) -> wire.SuppressionPreview:
    """Show what a pattern would have met."""
    complete = preview.compared_from is None
    if complete and not preview.cases:
        following = "Nothing matches: try a broader pattern."
    elif complete and all(window.complete for window in preview.windows):
        following = "Create the rule if these are the cases you mean."
    else:
        following = "Create the rule if these are the cases you mean. Incomplete counts are lower bounds."
    return wire.SuppressionPreview(
        project_id=project_id,
        fingerprint_pattern=pattern,
        cases=preview.cases,
        complete=complete,
        compared_from=preview.compared_from,
        windows=[wire.PreviewWindow(*window) for window in preview.windows],
        next_action=following,
    )


def _members(rule: SuppressionRule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "fingerprint_pattern": rule.fingerprint_pattern,
        "action": cast("Any", rule.action),
        "reason": rule.reason,
        "hint_text": rule.hint_text,
        "created_at": rule.created_at,
    }
