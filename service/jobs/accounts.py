"""Background work of authentication: forgetting sign-ins and sessions whose time is over (G-020)."""

from collections.abc import Mapping
from typing import Any

from service.accounts import person
from service.services import Services, Task


async def forget_sign_ins(services: Services, _: Mapping[str, Any]) -> None:
    """Delete the sign-ins, polls and sessions that are over."""
    await person.forget_sign_ins(services.settings.database_url)


TASKS = [Task("auth.forget_sign_ins", forget_sign_ins, cron="*/10 * * * *")]
