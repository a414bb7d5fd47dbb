"""A back-test on the wire, with what it assumes and what it could have cost at most."""

from __future__ import annotations

from decimal import Decimal

from schemas.runs import backtest as wire
from service.runs.background.backtesting import Backtest
from service.runs.background.past_facts import PastFacts
from service.runs.show.decision import decision
from statemachines.contracts.authority import policy_of
from statemachines.contracts.documents import Document
from statemachines.contracts.policy import Limits
from statemachines.runs.ledger import WINDOW_SECONDS, plain

ASSUMPTIONS = [
    "Every automation of the contract was enabled for the whole period, whatever it still needs today.",
    "No receipt was claimed: each held its case until it expired, and no run changed or closed a case.",
    (
        "The service looked for work at the recorded times: those of the automation with the same "
        "id, or else those of every sweep of the project."
    ),
    "An error in the same second as a look counts as seen.",
    "A case with unknown facts is left out, and another may have come in its place.",
    "Cases changed as they really did, also where a run of another contract closed them.",
]
_NOTHING = (
    "The service did not look for work in this period. It does so for enabled automations only. "
    "Enable one, and try later."
)
_NEXT = "Compare receipts and limits with your expectations, adjust the thresholds and try again."


def backtest(project_id: str, document: Document, past: PastFacts, result: Backtest) -> wire.Backtest:
    """Put the answer together."""
    unknown = [wire.BacktestUnknown(case_id, list(missing)) for case_id, missing in past.unknown]
    if not past.looks:
        unknown.insert(0, wire.BacktestUnknown(None, ["looks"]))
    shown = wire.MAX_SHOWN
    return wire.Backtest(
        project_id=project_id,
        period_start=past.start,
        period_end=past.end,
        looks=result.looks,
        looked_from=past.looks[0].at if past.looks else None,
        looked_until=past.looks[-1].at if past.looks else None,
        considered=result.considered,
        automations=[
            _use(saved.automation_id, policy_of(saved).limits, result.receipts) for saved in document.automations
        ],
        receipts=result.receipts[:shown],
        receipts_truncated=len(result.receipts) > shown,
        decisions=[decision(row) for row in result.decisions[:shown]],
        decisions_truncated=len(result.decisions) > shown,
        unknown=unknown[:shown],
        unknown_truncated=len(unknown) > shown,
        assumptions=ASSUMPTIONS,
        next_action=_NEXT if past.looks else _NOTHING,
    )


def _use(automation_id: str, limits: Limits, receipts: list[wire.BacktestReceipt]) -> wire.BacktestUse:
    """The most that could have been used: a run for each receipt, as many as the windows of a day hold."""
    own = [receipt for receipt in receipts if receipt.automation_id == automation_id]
    span = max((receipt.expires_at for receipt in own), default=0) - min((r.issued_at for r in own), default=0)
    windows = -(-span // WINDOW_SECONDS)
    runs = min(len(own), windows * limits.max_runs_per_day)
    return wire.BacktestUse(
        automation_id=automation_id,
        receipts=len(own),
        max_runs=runs,
        max_prs=min(runs, windows * limits.max_prs_per_day),
        max_cost_usd=plain(runs * Decimal(limits.max_cost_usd_per_run)),
    )
