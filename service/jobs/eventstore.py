"""Background work of the event store: forgetting idempotency records whose time is over (G-008)."""

from collections.abc import Mapping
from typing import Any

from service.eventstore.connect.facts import NOW
from service.eventstore.write.lane import forget
from service.services import Services, Task

# Made by the server to recognise its own write: nobody can repeat them once their request is over.
OWN = f"not client_key and created_at < {NOW} - interval '1 hour'"
# Kept as long as what they made: credentials, enabling, runs and their cancelling, deletions.
KEPT = (
    "operation ~ '(/credentials|/automation-contract/enable|/automation-runs|/cancel|/self_delete)$' "
    "or operation ~ '^DELETE '"
)
CLIENTS = f"client_key and created_at < {NOW} - interval '24 hours' and not ({KEPT})"


async def forget_records(services: Services, _: Mapping[str, Any]) -> None:
    """Delete the records that nobody can repeat any more."""
    over = [("idempotency", OWN), ("idempotency", CLIENTS)]
    await forget(services.settings.database_url, over, "idempotency_records_forgotten")


TASKS = [Task("eventstore.forget_records", forget_records, cron="*/10 * * * *")]
