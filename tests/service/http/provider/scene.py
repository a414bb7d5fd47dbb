"""A service whose operator has an account at a stand-in for the provider, and a project of ours."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.support.api import Api, Person, World
from tests.support.provider.api import FakeApi, FakeProject


class Provided:
    """A project with its owner, at a service that may provision."""

    def __init__(self, world: World, api: FakeApi, owner: Person, project: dict[str, Any]) -> None:
        self.world = world
        self.api = api
        self.owner = owner
        self.project_id: str = project["id"]
        self.path = f"/v1/projects/{self.project_id}"
        self.dsn = Api(world.client, project["dsn"])

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        """Send a request below the project; a failure of the provider is an answer too."""
        sent = {"authorization": f"Bearer {self.owner.secret}", **headers}
        more = {} if body is None else {"json": body}
        return await self.world.client.request(method, self.path + path, headers=sent, **more)

    async def provision(self, **headers: str) -> httpx2.Response:
        return await self.ask("POST", "/provider/provision", {}, **headers)

    async def configure(self, **members: Any) -> httpx2.Response:
        return await self.ask("POST", "/provider/session-replay/configure", members)

    async def status(self) -> dict[str, Any]:
        answer = await self.ask("GET", "/provider/session-replay/status")
        assert answer.status_code == 200, answer.text
        shown: dict[str, Any] = answer.json()
        return shown

    async def events(self) -> list[str]:
        """Topics of what was recorded of the team."""
        rows = await self.world.sql(
            "select topic from events where project_id = %s and stream_id like 'team_%%' order by revision",
            self.project_id,
        )
        return [topic for (topic,) in rows]

    @property
    def team(self) -> FakeProject:
        """The project's team at the provider."""
        [number] = self.api.named(f"service-{self.project_id}")
        return self.api.projects[number]
