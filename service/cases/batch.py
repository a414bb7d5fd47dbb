"""One act on many cases: a preview of what it would do, and a command for each case under its own fence.

A refused case holds up none of the others. The commands of a batch share its id as correlation id. Each has an
idempotency record of its own, so a repeat of the whole replays those that were carried out and goes on with the rest.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from projections.cases import CASE_BATCHES, CaseBatchRow
from schemas.cases import batch as wire
from service.auth.refusals import refusal
from service.cases import acting
from service.cases import view as views
from service.cases.case import status_of
from service.cases.listing import ListedCase
from service.eventstore.declare.commands import Intent, Unit
from service.eventstore.store import EventStore
from service.ids import new_id
from service.sql import load_query
from statemachines.cases import batch as batches
from statemachines.cases import case as cases
from statemachines.cases import suppression as suppressions
from statemachines.cases.view import ViewFilter
from statemachines.kernel.machine import Rejection

TOGETHER = 50
"""Commands that are queued at once, which one transaction may commit together."""
SECONDS = 5.0
"""After which a request begins no further commands. Its repeat goes on."""

REFUSED = frozenset({"case_revision_stale", "case_not_actionable"})
"""Codes of refusals of one case alone."""

_COUNT_KNOWN = load_query("cases", "count_known")


class Wish(NamedTuple):
    """An act on cases. `user_id` counts for `assign` alone."""

    action: batches.BatchAct
    user_id: str | None


class ActedCase(NamedTuple):
    """A case after its command. `moved`: something was recorded."""

    acted: acting.Acted
    moved: bool


def act(project_id: str, wish: Wish, case_id: str, case_revision: int) -> Intent[ActedCase]:
    """Act on one case of a batch. Raises as the acts of members do, and TooManyRules."""
    stream, intent = cases.stream(project_id, case_id), _intent(project_id, wish, case_id, case_revision)

    def decide(unit: Unit) -> ActedCase:
        before = unit.revision(stream)
        acted = intent.decide(unit)
        assert isinstance(acted, acting.Acted), "acts of members commit no refusal"
        return ActedCase(acted, unit.revision(stream) > before)

    return Intent(intent.streams, decide, lookups=intent.lookups)


def _intent(project_id: str, wish: Wish, case_id: str, case_revision: int) -> Intent[acting.Acted]:
    match wish.action:
        case batches.BatchAct.RESOLVE:
            return acting.resolve(project_id, case_id, case_revision)
        case batches.BatchAct.IGNORE:
            return acting.ignore(project_id, case_id, case_revision)
        case batches.BatchAct.ASSIGN:
            return acting.assign(project_id, case_id, case_revision, wish.user_id)
        case batches.BatchAct.SUPPRESS:
            return _suppress(project_id, case_id, case_revision)


def _suppress(project_id: str, case_id: str, case_revision: int) -> Intent[acting.Acted]:
    """Make a rule that ignores the fingerprint of a case, unless one does, and apply it to the case."""
    case, rules, made_id = cases.stream(project_id, case_id), suppressions.stream(project_id), new_id("sup")

    def decide(unit: Unit) -> acting.Acted:
        state = acting.seen(unit, case, case_revision)
        cases.require_actionable(state, cases.CaseIgnored)
        found = suppressions.settling_rule(unit.state(rules).rules, state.fingerprint)
        if found is None or found.action is not suppressions.Action.AUTO_IGNORE:
            made = suppressions.decide_create(
                unit.state(rules),
                id=made_id,
                fingerprint_pattern=state.fingerprint,
                action=suppressions.Action.AUTO_IGNORE,
                reason=None,
                hint_text=None,
                now=unit.now,
            )
            found = suppressions.settling_rule(unit.append(rules, made).rules, state.fingerprint)
        assert found is not None, "the rule was just made"
        return acting.Acted(case_id, project_id, unit.append(case, cases.decide_suppress(state, found, unit.now)))

    return Intent([case, rules], decide)


def end(project_id: str, batch_id: str, wish: Wish, *, cases: int, moved: int) -> Intent[CaseBatchRow | None]:
    """Record the end of a batch. A repeat records nothing."""
    stream = batches.stream(project_id, batch_id)

    def decide(unit: Unit) -> CaseBatchRow | None:
        state = unit.state(stream)
        events = batches.decide_end(state, wish.action, wish.user_id, cases=cases, moved=moved, now=unit.now)
        unit.append(stream, events)
        return unit.row(CASE_BATCHES, *stream.name)

    return Intent([stream], decide)


async def require_known(store: EventStore, project_id: str, case_ids: Sequence[str]) -> None:
    """Refuse a batch that names a case of another project, or none. Raises the refusal `case_not_found`."""
    [[known]] = await store.fetch(_COUNT_KNOWN, project_id=project_id, case_ids=list(case_ids))
    if known < len(case_ids):
        raise refusal("case_not_found")


async def find(
    store: EventStore, project_id: str, view_id: str | None, wanted: ViewFilter | None
) -> tuple[list[ListedCase], bool]:
    """Read the cases that a view or a filter finds, up to a batch, and whether there are more.

    Raises CaseViewNotFound.
    """
    if wanted is None:
        assert view_id is not None, "one of the two is named"
        wanted = (await views.find_view(store, project_id, view_id)).filter
    found = await views.cases_of(store, project_id, wanted, wire.MAX_CASES + 1)
    return found[: wire.MAX_CASES], len(found) > wire.MAX_CASES


# Batches on the wire.

_STAYS = {
    "resolve": frozenset({"resolved"}),
    "ignore": frozenset({"ignored"}),
    "suppress": frozenset({"resolved", "ignored"}),
    "assign": frozenset[str](),
}
"""The statuses in which an act leaves the status of a case as it is."""
_RETRY = "Repeat the request with its Idempotency-Key: it goes on with the cases in left."
_AGAIN = "Preview the act again for the refused cases, and decide from their present state."


def effect_of(action: wire.BatchAction, case: ListedCase) -> Literal["moves", "unchanged", "refused"]:
    """What an act would do to a case as it is listed."""
    if case.status == "merged" or (cases.is_overflow(case.fingerprint) and action != "ignore"):
        return "refused"
    return "unchanged" if case.status in _STAYS[action] else "moves"


def previewed(
    project_id: str, action: wire.BatchAction, found: Sequence[ListedCase], *, more: bool
) -> wire.CaseBatchPreview:
    """Show the effects of an act."""
    shown = [
        wire.PreviewedCase(
            case_id=case.id,
            case_revision=case.revision,
            title=case.title,
            status=status_of(case.status),
            effect=effect_of(action, case),
        )
        for case in found
    ]
    effects = [case.effect for case in shown]
    return wire.CaseBatchPreview(
        project_id=project_id,
        action=action,
        cases=shown,
        count=len(shown),
        more=more,
        moves=effects.count("moves"),
        unchanged=effects.count("unchanged"),
        refused=effects.count("refused"),
        next_action="Send the cases with their revisions, if these are the ones you mean."
        if shown
        else "Nothing to do.",
    )


def part(done: ActedCase) -> wire.CaseBatchPart:
    """Show a case after its command."""
    state = done.acted.state
    return wire.CaseBatchPart(
        case_id=done.acted.case_id,
        outcome="moved" if done.moved else "unchanged",
        status=status_of(state.status.value),
        case_revision=state.revision,
    )


def refused(case_id: str, rejection: Rejection) -> wire.CaseBatchPart:
    """Show why a case was refused, with its present revision where the refusal tells it."""
    revision = rejection.details.get("case_revision")
    return wire.CaseBatchPart(
        case_id=case_id,
        outcome="refused",
        case_revision=revision if isinstance(revision, int) else None,
        code=rejection.code,
        message=str(rejection),
    )


def ended(
    project_id: str, batch_id: str, action: wire.BatchAction, parts: list[wire.CaseBatchPart], left: list[str]
) -> wire.CaseBatch:
    """Show the outcome for the cases of a batch."""
    outcomes = [one.outcome for one in parts]
    following = _RETRY if left else _AGAIN if "refused" in outcomes else "Nothing to do."
    return wire.CaseBatch(
        batch_id=batch_id,
        project_id=project_id,
        action=action,
        parts=parts,
        moved=outcomes.count("moved"),
        unchanged=outcomes.count("unchanged"),
        refused=outcomes.count("refused"),
        left=left,
        complete=not left,
        next_action=following,
    )
