"""The browser of an auditor."""

from __future__ import annotations

from service.accounts import membership as admin
from statemachines.accounts.membership import Role
from tests.support.api import World
from tests.support.console import Browser, browser_of


async def auditor_of(world: World, project_id: str) -> Browser:
    """The browser of somebody who has become an auditor of a project."""
    person = await world.sign_in()
    await world.operate(lambda store: admin.set_member(store, project_id, person.user_id, Role.AUDITOR))
    return await browser_of(person)
