"""Ending at the provider what nobody is to pay for any more.

That is what a newer subscription has replaced, and what was of somebody whose account goes. A provider that is away
is asked again with the next look.
"""

from __future__ import annotations

import structlog

from projections.billing.subscription import SUBSCRIPTIONS
from projections.deletion.removal import DELETIONS
from service.auth.system import carry_out
from service.billing import commands
from service.billing.payments import PaymentProviderUnavailable, Payments
from service.eventstore.store import EventStore
from statemachines.billing.subscription import BEFORE_ALL, Notification, Standing

log = structlog.get_logger(__name__)

TOGETHER = 50
MOST_FAILURES = 2
"""With which a look ends, so that a provider that hangs does not hold up who waits for it."""
_SURPLUS = (
    "t.status in ('active', 'past_due', 'suspended') and ("
    "exists (select from people p where p.project_id = t.project_id and p.id = t.project_id and p.status <> 'active') "
    "or t.status <> 'suspended' and exists (select from subscriptions n where n.project_id = t.project_id "
    "and n.status in ('active', 'past_due') and (n.created_at, n.id) > (t.created_at, t.id)))"
)
_GOING = "t.scope_id = %s and t.phase = 'fenced'"


async def settle(store: EventStore, payments: Payments) -> int:
    """End what is surplus, and record that; returns how many have ended. Raises what the store raises."""
    if not payments.configured:
        return 0
    ended = failed = 0
    for row in await store.find(SUBSCRIPTIONS, _SURPLUS, order_by="t.created_at, t.id", limit=TOGETHER):
        try:
            await payments.cancel(row.subscription_id)
        except PaymentProviderUnavailable:
            failed += 1
            if failed == MOST_FAILURES:
                break
            continue
        said = Notification(row.subscription_id, row.customer_id, Standing.CANCELED, "", None, BEFORE_ALL)
        going = await store.find(DELETIONS, _GOING, row.project_id, limit=1)
        intent = commands.tell(row.project_id, said, going[0].id if going else None)
        await carry_out(store, "billing", "end subscription", intent)
        ended += 1
    if ended:
        log.info("subscriptions_ended", number=ended)
    return ended
