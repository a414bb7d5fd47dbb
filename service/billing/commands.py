"""What is recorded of an account's subscriptions (R-BILL-10)."""

from __future__ import annotations

from collections.abc import Sequence

from projections.accounts.person import PROJECTION as PEOPLE
from projections.deletion.removal import DELETIONS
from service.eventstore.declare.commands import Lookup, Unit
from service.eventstore.declare.intents import Intent
from statemachines.billing import subscription as subscriptions
from statemachines.billing.subscription import Notification, decide_tell
from statemachines.kernel.machine import Event


def tell(user_id: str, said: Notification, deletion_id: str | None = None) -> Intent[Sequence[Event] | None]:
    """Record what the provider tells of a subscription; returns what is recorded, None when the account takes nothing.

    Carried out under the account's gate. Of an account that goes nothing is recorded but what its deletion, while it
    waits for its subscriptions to end, has brought about itself: its rows are about to be removed.
    """
    stream = subscriptions.stream(user_id, said.subscription_id)

    def decide(unit: Unit) -> Sequence[Event] | None:
        person = unit.row(PEOPLE.table, user_id, user_id)
        deletion = unit.row(DELETIONS, deletion_id, deletion_id) if deletion_id is not None else None
        waits = deletion is not None and deletion.scope_id == user_id and deletion.phase == "fenced"
        if person is None or (person.status != "active" and not waits):
            return None
        recorded = decide_tell(unit.state(stream), said, unit.now)
        unit.append(stream, recorded)
        return recorded

    lookups = [Lookup(PEOPLE.table, user_id, user_id)]
    if deletion_id is not None:
        lookups.append(Lookup(DELETIONS, deletion_id, deletion_id))
    return Intent([stream], decide, lookups=lookups, gates=[user_id])
