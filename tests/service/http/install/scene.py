"""Drives the install flow over HTTP as an owner and the instrumented product."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.support.api import Api, Person, World, ok
from tests.support.plans import plan_body, snapshot_body

GATES = [
    "signal_map_missing",
    "implementation_report_missing",
    "no_events_received",
    "no_deploy_recorded",
    "no_error_received",
]


def report_body(sha: str, /, **changes: Any) -> dict[str, Any]:
    return {
        "plan_sha256": sha,
        "source_snapshot": snapshot_body("d" * 40, "e" * 64),
        "files": [{"file": "src/pay.py", "anchor": "payments.add(payment)"}],
        "summary_md": "The payment is captured after its commit.",
        "tests": [{"command": "pytest", "passed": True}],
    } | changes


class Installed:
    """A project without onboarding, its owner and its product."""

    def __init__(self, world: World, owner: Person, project: dict[str, Any]) -> None:
        self.world = world
        self.owner = owner
        self.project_id: str = project["id"]
        self.path = f"/v1/projects/{self.project_id}"
        self.product = Api(world.client, project["dsn"])

    async def put_map(self, plan: Any = None, status: int = 201, **more: Any) -> dict[str, Any]:
        return ok(await self.owner.call("PUT", f"{self.path}/signal-map", plan or plan_body(), **more), status)

    async def report(self, body: Any, **more: Any) -> httpx2.Response:
        return await self.owner.call("PUT", f"{self.path}/implementation-report", body, **more)

    async def draft(self, **more: Any) -> httpx2.Response:
        body = {"project_id": self.project_id, "business_question": "How many visitors pay?"}
        return await self.owner.post("/v1/install/plan", body, **more)

    async def verify(self, **more: Any) -> dict[str, Any]:
        return ok(await self.owner.post(f"{self.path}/install/verify", **more))

    async def state(self) -> str:
        found = ok(await self.owner.get(f"{self.path}/setup"))["install_state"]
        assert isinstance(found, str)
        return found

    async def send_event(self, event: str, **properties: Any) -> None:
        body = {"event": event, "distinct_id": "visitor", "properties": properties}
        ok(await self.product.post("/v1/analytics/", body), 202)

    async def send_error(self, marker: str | None = None, level: str = "error") -> None:
        tags = {} if marker is None else {"failure_marker": marker}
        ok(await self.product.post("/v1/logs/", {"level": level, "message": "The bank said no.", "tags": tags}), 202)

    async def send_deploy(self, environment: str = "production") -> None:
        ok(await self.product.post("/v1/deploys/", {"version": "1.0.0", "environment": environment}), 202)

    async def exercise(self) -> None:
        """Send everything that the plan of these tests names."""
        await self.send_event("order_created", order_kind="book")
        await self.send_event("order_paid", amount=12, currency="eur")
        await self.send_error("payment_declined")
        await self.send_deploy()

    async def topics(self) -> list[str]:
        """Topics of what was recorded of the install."""
        rows = await self.world.sql(
            "select topic from events where project_id = %s and topic like 'install.%%' order by revision",
            self.project_id,
        )
        return [topic for (topic,) in rows]


async def install(world: World) -> Installed:
    """Sign a new owner in, with a project."""
    owner = await world.sign_in()
    return Installed(world, owner, await owner.create_project())


def codes(found: list[dict[str, Any]]) -> list[str]:
    return [one["code"] for one in found]
