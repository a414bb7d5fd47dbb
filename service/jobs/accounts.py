"""Background work of authentication: forgetting sign-ins whose time is over (G-020).

Their history stays. What goes are the rows that polls look up, and what is noted of the pace of polling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from projections.accounts.sign_in import KEPT, PROJECTION, SIGN_IN_POLLS
from service.eventstore.clock import NOW_SECONDS
from service.eventstore.forgetting import forget
from service.services import Services
from service.tasks import Task
from statemachines.accounts.sign_in import LIFETIME

OVER = {
    PROJECTION.name: f"expires_at < {NOW_SECONDS} - {KEPT}",
    SIGN_IN_POLLS.name: f"last_polled_at < {NOW_SECONDS} - {LIFETIME + KEPT}",
}


async def forget_sign_ins(services: Services, _: Mapping[str, Any]) -> None:
    """Delete the sign-ins and the polls that are over."""
    await forget(services.settings.database_url, OVER.items(), "sign_ins_forgotten")


TASKS = [Task("auth.forget_sign_ins", forget_sign_ins, cron="*/10 * * * *")]
