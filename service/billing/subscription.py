"""Subscriptions of an account: recorded, settled, and reconciled with the provider (R-BILL-10)."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import structlog

from projections.accounts import PEOPLE
from projections.billing import SUBSCRIPTIONS, SubscriptionRow
from projections.deletion import DELETIONS
from service.auth.authority import carry_out
from service.billing.payments import PaymentProviderUnavailable, Payments, SeenSubscriptions, read_seen, whose
from service.eventstore.declare.commands import Intent, Lookup, Unit
from service.eventstore.store import EventStore
from service.settingvalues import Plan
from service.sql import load_query
from statemachines import billing as subscriptions
from statemachines.kernel.machine import Event

# What is recorded of an account's subscriptions (R-BILL-10).


def tell(
    user_id: str, said: subscriptions.Notification, deletion_id: str | None = None
) -> Intent[Sequence[Event] | None]:
    """Record what the provider tells of a subscription; returns what is recorded, None when the account takes nothing.

    Carried out under the account's gate. Of an account that goes nothing is recorded but what its deletion, while it
    waits for its subscriptions to end, has brought about itself: its rows are about to be removed.
    """
    stream = subscriptions.stream(user_id, said.subscription_id)

    def decide(unit: Unit) -> Sequence[Event] | None:
        person = unit.row(PEOPLE, user_id, user_id)
        deletion = unit.row(DELETIONS, deletion_id, deletion_id) if deletion_id is not None else None
        waits = deletion is not None and deletion.scope_id == user_id and deletion.phase == "fenced"
        if person is None or (person.status != "active" and not waits):
            return None
        recorded = subscriptions.decide_tell(unit.state(stream), said, unit.now)
        unit.append(stream, recorded)
        return recorded

    lookups = [Lookup(PEOPLE, user_id, user_id)]
    if deletion_id is not None:
        lookups.append(Lookup(DELETIONS, deletion_id, deletion_id))
    return Intent([stream], decide, lookups=lookups, gates=[user_id])


# Ending at the provider what nobody is to pay for any more. That is what a newer subscription has replaced, and what
# was of somebody whose account goes. A provider that is away is asked again with the next look.

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
        said = subscriptions.Notification(
            row.subscription_id, row.customer_id, subscriptions.Standing.CANCELED, "", None, subscriptions.BEFORE_ALL
        )
        going = await store.find(DELETIONS, _GOING, row.project_id, limit=1)
        intent = tell(row.project_id, said, going[0].id if going else None)
        await carry_out(store, "billing", "end subscription", intent)
        ended += 1
    if ended:
        log.info("subscriptions_ended", number=ended)
    return ended


# Reading at the provider what it may have told in vain: a lost notification is no lost purchase (R-BILL-10, G-073).
# Each look reads the provider's newest subscriptions, where what was bought lately is, and goes on with the others
# from where the look before ended: round after round each of them is read, whoever it belongs to. What differs from
# what is recorded goes through the machine like a notification, as told at the time of the reading: what was told
# since then stands, and what comes late is known by then.

PAGES = 4  # of a look, the first one among them
_STEP = "billing.reconcile"
_PLACE = load_query("billing", "place")
_LEAVE = load_query("billing", "leave_places")
_KEEP = load_query("billing", "keep_place")


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
            intent = tell(user_id, known.said)
            corrected += bool(await carry_out(store, "payment provider", "reconcile", intent))
    return corrected


def _differs(row: SubscriptionRow | None, said: subscriptions.Notification) -> bool:
    """Whether something is to be recorded; of what began and ended unheard there is nothing."""
    if said.standing is subscriptions.Standing.CANCELED:
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
        await connection.execute(_LEAVE, {"step": _STEP, "place": place or ""})
        if place is not None:
            await connection.execute(_KEEP, {"step": _STEP, "place": place})
