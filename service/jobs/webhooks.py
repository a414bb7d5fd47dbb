"""Background work of webhooks: ending and forgetting deliveries (G-159, G-161). The outbox sends them."""

from collections.abc import Mapping
from typing import Any

from service.services import Services, Task
from service.webhooks.sending import tidy


async def tidy_deliveries(services: Services, _: Mapping[str, Any]) -> None:
    """End and forget what is over."""
    await tidy(services.settings.database_url)


TASKS = [Task("webhooks.tidy", tidy_deliveries, cron="* * * * *")]
