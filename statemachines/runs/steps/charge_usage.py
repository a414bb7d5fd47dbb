"""What a runner is about to use is charged to its automation's budgets before it is used (R-AUT-35)."""

from __future__ import annotations

import msgspec

from statemachines.runs import events as e
from statemachines.runs import ledger as ledgers
from statemachines.runs import run as runs
from statemachines.runs.ledger import Amounts
from statemachines.runs.steps.advance_run import enter, not_allowed
from statemachines.runs.steps.book import Book, Effects, FencingToken, merge


class Usage(msgspec.Struct, frozen=True):
    """What a runner is about to use."""

    amounts: Amounts
    label: str | None = None


_CHARGED: dict[runs.Status, type[e.Charge]] = {
    runs.Status.STARTED: e.RunCharged,
    runs.Status.RUNNING: e.RunCharged,
    runs.Status.IN_REVIEW: e.RunChargedInReview,
    runs.Status.PROOF_PENDING: e.RunChargedAwaitingProof,
    runs.Status.PR_OPENED: e.RunChargedAwaitingDeploy,
}


def decide_usage(book: Book, token: FencingToken, usage: Usage, now: int) -> Effects:
    """Charge what is about to be used, all of it or nothing (R-AUT-35).

    Raises what enter raises, RunTransitionNotAllowed, BudgetExhausted.
    """
    book, effects = enter(book, token, now)
    charged = _CHARGED.get(book.run.status)
    if charged is None:
        raise not_allowed(book)
    amounts = usage.amounts
    charges = ledgers.decide_charge_usage(book.ledger, book.run.terms.limits, book.run_id, amounts, now)
    event = charged(amounts.turns, amounts.cost_usd, amounts.runtime_seconds, usage.label, now)
    return merge(effects, {book.ledger_id: charges, book.run_id: [event]})
