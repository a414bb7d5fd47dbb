"""Drives an onboarding over HTTP as its owner, its product and its CI."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from typing import Any

import httpx2
import msgspec

from schemas.onboarding import OnboardingState
from tests.support.api import Api, Person, World, ok
from tests.support.plans import plan_body, snapshot_body

_numbers = itertools.count(1)


@dataclass
class Onboarding:
    """One project's onboarding. `begun` below is the answer of a proof start."""

    world: World
    owner: Person
    project_id: str
    dsn: str
    ci: str | None = field(default=None)

    @property
    def path(self) -> str:
        return f"/v1/projects/{self.project_id}/onboarding"

    @property
    def map_path(self) -> str:
        return f"/v1/projects/{self.project_id}/signal-map"

    async def read(self) -> httpx2.Response:
        return await self.owner.get(self.path)

    async def start(self, plan: Any, **more: Any) -> httpx2.Response:
        return await self.owner.post(self.path, {"intent": "start", "plan": plan}, **more)

    async def approve(self, state: Any, **more: Any) -> httpx2.Response:
        body = {"decision": "approve", "plan_sha256": state["plan_sha256"]}
        return await self.owner.post(f"{self.path}/review", body, headers={"if-match": state["etag"]}, **more)

    async def replace(self, state: Any, plan: Any, **more: Any) -> httpx2.Response:
        body = {"decision": "replace", "plan_sha256": state["plan_sha256"], "replacement_plan": plan}
        return await self.owner.post(f"{self.path}/review", body, headers={"if-match": state["etag"]}, **more)

    async def prove(self, state: Any, snapshot: Any = None, **more: Any) -> httpx2.Response:
        body = {"implementation_source_snapshot": snapshot or snapshot_body("d" * 40, "e" * 64)}
        return await self.owner.post(f"{self.path}/proof", body, headers={"if-match": state["etag"]}, **more)

    async def verify(self, state: Any, **more: Any) -> httpx2.Response:
        return await self.owner.post(f"{self.path}/verify", headers={"if-match": state["etag"]}, **more)

    async def to_approved(self, plan: Any = None) -> dict[str, Any]:
        planned = ok(await self.start(plan or plan_body()), 201)
        return ok(await self.approve(planned))

    async def to_proving(self, plan: Any = None) -> dict[str, Any]:
        return ok(await self.prove(await self.to_approved(plan)), 201)

    async def send_event(self, begun: Any, event: str, /, **properties: Any) -> None:
        """Send an analytics event under the runtime marker, as the instrumented product does."""
        marker = begun["one_time_markers"]["runtime"]
        body = {
            "event": event,
            "distinct_id": "visitor",
            "properties": {**properties, marker["property_name"]: marker["value"]},
        }
        ok(await self.world.having(self.dsn).post("/v1/analytics/", body), 202)

    async def send_error(
        self, begun: Any, message: str = "boom", tags: dict[str, Any] | None = None, extra: dict[str, Any] | None = None
    ) -> None:
        """Send an error under the runtime marker."""
        marker = begun["one_time_markers"]["runtime"]
        body = {
            "level": "error",
            "message": message,
            "tags": {**(tags or {}), marker["property_name"]: marker["value"]},
            "extra": extra or {},
        }
        ok(await self.world.having(self.dsn).post("/v1/logs/", body), 202)

    async def deploy(
        self, begun: Any, sha: str | None = "", secret: str | None = None, **changes: Any
    ) -> dict[str, Any]:
        """Record a deploy of the session's commit unless `sha` is another one, by CI unless `secret` is another's."""
        if secret is None and self.ci is None:
            created = await self.owner.create_credential(self.project_id, f"ci-{next(_numbers)}")
            self.ci = created["credential"]
        marker = begun["one_time_markers"]["ci"]
        if sha == "":
            sha = begun["state"]["implementation_source_snapshot"]["git_head_sha"] or "f" * 40
        body = {"version": "1.0.0", "environment": "production", "sha": sha} | changes
        caller: Api = self.world.having(secret or self.ci)
        return ok(await caller.post("/v1/deploys/", body, headers={marker["header_name"]: marker["value"]}), 202)

    async def exercise(self, begun: Any, deploy_with: str | None = None) -> None:
        """Send everything that the plan of these tests requires."""
        await self.send_event(begun, "order_created", order_kind="book")
        await self.send_event(begun, "order_paid", amount=12, currency="eur")
        await self.send_error(
            begun, message="The bank said no.", tags={"failure_marker": "payment_declined", "decline_code": "51"}
        )
        await self.deploy(begun, secret=deploy_with)

    async def add_member(self) -> Person:
        """Add a person who is not an owner, as the operator does."""
        from service.accounts import membership as admin
        from statemachines.accounts.membership import Role

        member = await self.world.sign_in()
        await self.world.operate(lambda store: admin.set_member(store, self.project_id, member.user_id, Role.MEMBER))
        return member


async def onboard(world: World) -> Onboarding:
    """Sign a new owner in, with a project."""
    owner = await world.sign_in()
    project = await owner.create_project()
    return Onboarding(world, owner, project["id"], project["dsn"])


def tag(state: dict[str, Any]) -> dict[str, str]:
    return {"if-match": state["etag"]}


def shown(answer: Any, status: int = 200) -> dict[str, Any]:
    """The state in an answer, checked against its contract and the answer's header."""
    state = ok(answer, status)
    msgspec.convert(state, OnboardingState)
    assert answer.headers["etag"] == state["etag"]
    assert re.fullmatch(r'"onb:onb_[0-9a-z]{26}:[0-9]+"', state["etag"])
    assert state["etag"] == f'"onb:{state["onboarding_id"]}:{state["revision"]}"'
    return state
