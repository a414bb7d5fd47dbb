"""What the automation modules of the edge share beside runs: whose objects a caller sees, pages by true status."""

from __future__ import annotations

from functools import partial
from typing import Any

from schemas.kernel.shape import PageQuery
from service.eventstore.read.reader import PageEnd
from service.http.edge.answer.paging import read_page
from service.http.edge.declare.call import Call
from service.runs import control as reads
from service.runs.control import ReceiptNow
from statemachines.runs.claim import require_own


def require_visible(call: Call[Any, Any], automation_id: str) -> None:
    """Refuse a runner that reads another automation's object (R-AUT-55). Raises AutomationMismatch."""
    runner = call.runner
    if runner is not None:
        require_own(automation_id, runner)


def seen_automation(call: Call[Any, Any], asked: str | None) -> str | None:
    """The automation that a list is bound to: a runner's own, whatever it asks for. Raises AutomationMismatch."""
    runner = call.runner
    if runner is None:
        return asked
    if asked is not None:
        require_own(asked, runner)
    return runner.automation_id


async def read_receipts(
    call: Call[Any, Any], query: PageQuery, automation_id: str | None, status: str | None
) -> tuple[list[ReceiptNow], str | None]:
    """Read a page of receipts, those of a runner's own automation only."""
    seen = seen_automation(call, automation_id)
    return await read_page(
        query,
        partial(reads.receipts, call.services.store, call.project_id, automation_id=seen, status=status),
        lambda item: PageEnd(item.row.issued_at, item.row.id),
        lambda item: status in (None, item.state.status.value),
    )
