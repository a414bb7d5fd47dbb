"""Reading at the provider what it may have told in vain: a lost notification is no lost purchase (R-BILL-10, G-073).

Each look reads the provider's newest subscriptions, where what was bought lately is, and goes on with the others from
where the look before ended: round after round each of them is read, whoever it belongs to. What differs from what is
recorded goes through the machine like a notification, as told at the time of the reading: what was told since then
stands, and what comes late is known by then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import structlog

from projections.billing.subscription import SUBSCRIPTIONS, SubscriptionRow
from service.auth.system import carry_out
from service.billing import commands
from service.billing.notifications import read_seen, whose
from service.billing.payments import PaymentProviderUnavailable, Payments, SeenSubscriptions
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from service.settingvalues import Plan
from statemachines.billing.subscription import Notification, Standing

log = structlog.get_logger(__name__)

PAGES = 4  # of a look, the first one among them
_STEP = "billing.reconcile"
_PLACE = load_sql("billing", "place")
_LEAVE = load_sql("billing", "leave_places")
_KEEP = load_sql("billing", "keep_place")


class Reconciled(NamedTuple):
    """What came of a look: the subscriptions that were read, and those of them that were not as recorded.

    Not `complete`: the provider did not answer, and the next look goes on where this one has ended.
    """

    read: int = 0
    corrected: int = 0
    complete: bool = True


async def reconcile(store: EventStore, payments: Payments, plans: Mapping[str, Plan]) -> Reconciled:
    """Look once; without a provider nothing is read. Raises what the store raises."""
    if not payments.configured:
        return Reconciled()
    read = corrected = 0
    complete = True
    place, after = await _place(store), None
    try:
        for page in range(PAGES):
            seen = await payments.list_subscriptions(after)
            after = None if seen is None else seen.last_id
            if page == 0 and place is not None and after is not None:
                after = place
            await _keep(store, after)  # before what is read is gone into: no page holds up those behind it
            if seen is not None:
                read += len(seen.subscriptions)
                corrected += await _compare(store, seen, plans)
            if after is None:
                break
    except PaymentProviderUnavailable:
        complete = False
    if corrected:
        log.warning("subscriptions_corrected", number=corrected)
    return Reconciled(read, corrected, complete)


async def _compare(store: EventStore, seen: SeenSubscriptions, plans: Mapping[str, Plan]) -> int:
    """Record what is not as the provider shows it; returns how many subscriptions that were."""
    found = [known for about in seen.subscriptions if (known := read_seen(about, plans, seen.at)) is not None]
    ids = [known.said.subscription_id for known in found]
    rows = {row.subscription_id: row for row in await store.find(SUBSCRIPTIONS, "t.subscription_id = any(%s)", ids)}
    corrected = 0
    for known in found:
        if not _differs(rows.get(known.said.subscription_id), known.said):
            continue
        user_id = await whose(store, known)
        if user_id is not None:
            intent = commands.tell(user_id, known.said)
            corrected += bool(await carry_out(store, "payment provider", "reconcile", intent))
    return corrected


def _differs(row: SubscriptionRow | None, said: Notification) -> bool:
    """Whether something is to be recorded; of what began and ended unheard there is nothing."""
    if said.standing is Standing.CANCELED:
        return row is not None and row.status != said.standing.value
    if row is None:
        return True
    recorded = (row.status, row.plan, row.customer_id, row.current_period_end)
    return recorded != (said.standing.value, said.plan, said.customer_id, said.current_period_end)


async def _place(store: EventStore) -> str | None:
    rows = await store.fetch(_PLACE, step=_STEP)
    return str(rows[0][0]) if rows else None


async def _keep(store: EventStore, place: str | None) -> None:
    """Keep where the round goes on; None: it is at its end."""
    async with store.facts.connection() as connection, connection.transaction():
        await connection.execute(_LEAVE.encode(), {"step": _STEP, "place": place or ""})
        if place is not None:
            await connection.execute(_KEEP.encode(), {"step": _STEP, "place": place})
