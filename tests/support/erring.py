"""A project whose product errs, seen by its people in the console."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from service.accounts.membership import set_member
from statemachines.accounts.membership import Role
from tests.support.api import Api, Person, World, ok
from tests.support.console import Browser, browser_of

SCRIPT = "<script>alert(1)</script>"
BIDI = "\u202egnp.exe\u2066"
HOSTILE = f'{SCRIPT}"><img src=x onerror=alert(2)>{BIDI} javascript:alert(3)'
"""A text that is worth an attack wherever it is not shown as a text."""


@dataclass
class ErringShop:
    """A project with its owner and the DSN that sends its errors."""

    world: World
    owner: Person
    browser: Browser
    id: str
    dsn: Api

    async def err(self, message: str = "Card refused", **members: Any) -> str:
        """Send an error; returns the id of its case."""
        return str(
            ok(await self.dsn.post("/v1/logs/", {"level": "error", "message": message, **members}), 202)["case_id"]
        )

    async def join(self, role: Role) -> tuple[Person, Browser]:
        """Add a person with a role."""
        person = await self.world.sign_in()
        await self.world.operate(lambda store: set_member(store, self.id, person.user_id, role))
        return person, await browser_of(person)

    async def case(self, case_id: str) -> dict[str, Any]:
        """A case as the API shows it."""
        return ok(await self.owner.get(f"/v1/cases/{case_id}"))


async def erring_shop(world: World) -> ErringShop:
    """Create the project of a new person."""
    owner = await world.sign_in()
    project = await owner.create_project()
    return ErringShop(world, owner, await browser_of(owner), project["id"], world.having(project["dsn"]))
