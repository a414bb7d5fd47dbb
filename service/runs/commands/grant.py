"""Grants: authorize one bounded effect, spend it once, settle it (G-109, R-AUT-31, R-AUT-32, R-AUT-38)."""

from __future__ import annotations

from projections.runs import GrantRow, RunRow
from service.eventstore.declare.commands import Intent
from service.runs.commands.scope import Ran, RunScope
from statemachines.runs import grant as grants
from statemachines.runs.events import GrantKind
from statemachines.runs.grant import AutoMergeBinding, DraftPrBinding
from statemachines.runs.steps import use_grant
from statemachines.runs.steps.book import Book, Effects, FencingToken
from statemachines.runs.steps.end_run import settle_grant


def authorize_draft_pr(row: RunRow, token: FencingToken, binding: DraftPrBinding) -> Intent[Ran[str]]:
    """Authorize one pull request; the result is the grant's id."""
    scope = RunScope.of(row, new_grant=grants.grant_id(row.id, "draft_pr", token.state_revision))
    return scope.intent(lambda book, now: use_grant.authorize_draft_pr(book, token, binding, now))


def authorize_auto_merge(row: RunRow, token: FencingToken, binding: AutoMergeBinding) -> Intent[Ran[str]]:
    """Authorize the provider's auto-merge; the result is the grant's id."""
    scope = RunScope.of(row, new_grant=grants.grant_id(row.id, "auto_merge", token.state_revision))
    return scope.intent(lambda book, now: use_grant.authorize_auto_merge(book, token, binding, now))


def consume(row: RunRow, token: FencingToken, kind: GrantKind, grant_id: str) -> Intent[Ran[bool]]:
    """Spend a grant; the result is whether the provider may be called."""

    def act(book: Book, now: int) -> tuple[bool, Effects]:
        consumed = use_grant.consume(book, token, kind, grant_id, now)
        return consumed.call_authorized, consumed.effects

    return RunScope.of(row).intent(act)


def settle(row: RunRow, grant: GrantRow) -> Intent[Ran[None]]:
    """Record what has become of a grant (G-119)."""
    return RunScope.of(row, new_grant=grant.id).intent(lambda book, now: (None, settle_grant(book, grant.id, now)))
