"""Inviting people and accepting over HTTP."""

from __future__ import annotations

import itertools
from typing import Any

import httpx2

from tests.support.api import Person, World, ok

_numbers = itertools.count(1)


async def verified(
    world: World, email: str | None = None, *, proven: bool = True, subject: str | None = None
) -> Person:
    """Sign in a person whose address the identity provider has verified; another one each time without an address."""
    address = email or address_of()
    identity = {"provider": "email", "subject": subject or address, "email": address, "email_verified": proven}
    started = ok(await world.post("/v1/auth/device"))
    body = {"user_code": started["user_code"], "identity": identity}
    ok(await world.hosted_app.post("/v1/auth/device/authorize", body))
    key = ok(await world.post("/v1/auth/device/poll", {"device_code": started["device_code"]}))
    return Person(world.client, key["api_key"], key["user_id"], world)


async def synthetic(world: World, run_id: str) -> tuple[Person, str]:
    """Sign in the person of a test run; returns also the address."""
    started = ok(await world.post("/v1/auth/device"))
    body = {"user_code": started["user_code"], "test_run_id": run_id}
    email = ok(await world.test_operator.post("/v1/auth/device/test-authorize", body))["email"]
    key = ok(await world.post("/v1/auth/device/poll", {"device_code": started["device_code"]}))
    return Person(world.client, key["api_key"], key["user_id"], world), str(email)


def address_of() -> str:
    """An address that nobody has yet."""
    return f"guest-{next(_numbers)}@example.com"


class Members:
    """The members of one project."""

    def __init__(self, project_id: str) -> None:
        self.project_id = project_id
        self.path = f"/v1/projects/{project_id}/members"

    async def invite(self, owner: Person, email: str, role: str = "member", **how: Any) -> httpx2.Response:
        return await owner.post(self.path, {"email": email, "role": role}, **how)

    async def invited(self, owner: Person, email: str, role: str = "member") -> str:
        """Id of an invitation that must succeed."""
        return str(ok(await self.invite(owner, email, role), 202)["invitation_id"])

    async def join(self, world: World, owner: Person, role: str = "member") -> Person:
        """Invite somebody new, who accepts."""
        email = address_of()
        guest = await verified(world, email)
        assert ok(await accept(guest, await self.invited(owner, email, role)))["role"] == role
        return guest

    async def remove(self, owner: Person, user_id: str, **how: Any) -> httpx2.Response:
        return await owner.call("DELETE", f"{self.path}/{user_id}", **how)

    async def revoke(self, owner: Person, invitation_id: str, **how: Any) -> httpx2.Response:
        return await owner.call("DELETE", f"{self.path}/invitations/{invitation_id}", **how)

    async def roles(self, owner: Person) -> dict[str, str]:
        """The roles of the members by user id."""
        return {one["user_id"]: one["role"] for one in ok(await owner.get(self.path))["members"]}

    async def open(self, owner: Person) -> list[str]:
        """The ids of what is still offered."""
        return [one["invitation_id"] for one in ok(await owner.get(self.path))["invitations"]]


async def look(guest: Person, invitation_id: str) -> httpx2.Response:
    return await guest.get(f"/v1/members/invitations/{invitation_id}")


async def accept(guest: Person, invitation_id: str, **how: Any) -> httpx2.Response:
    return await guest.post(f"/v1/members/invitations/{invitation_id}/accept", {}, **how)
