"""The model of G-080 against the real server: every step in every situation, and random walks, over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx2
import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from schemas.onboarding.lifecycle import OnboardingState
from tests.statemachines.onboarding.test_lifecycle import SITUATIONS
from tests.support import onboarding_model as model
from tests.support import seen
from tests.support.api import World
from tests.support.onboarding import Onboarding, onboard
from tests.support.plans import plan_body, snapshot_body
from tests.support.server import ServerHandle

SESSION_SECONDS = 7200


class HttpDriver:
    """Carries out the model's steps through the API of a running service."""

    def __init__(self, onb: Onboarding) -> None:
        self.onb = onb
        self.state: dict[str, Any] | None = None
        self.begun: dict[str, Any] = {}

    async def refresh(self) -> dict[str, Any] | None:
        """Read the onboarding, checked against its contract."""
        answer = await self.onb.read()
        self.state = answer.json() if answer.status_code == 200 else None
        if self.state is not None:
            msgspec.convert(self.state, OnboardingState)
            assert answer.headers["etag"] == self.state["etag"]
        return self.state

    def headers(self, tag: model.Tag) -> dict[str, str]:
        id_ = self.state["onboarding_id"] if self.state else "onb_0000"
        revision = self.state["revision"] if self.state else 0
        sent = {
            model.Tag.CURRENT: revision,
            model.Tag.PREVIOUS: revision - 1,
            model.Tag.OLDER: revision - 2,
            model.Tag.FUTURE: revision + 1,
        }
        if tag is model.Tag.NONE:
            return {}
        return {"if-match": f'"onb:{id_}:{sent[tag]}"' if tag in sent else f'"onb:onb_other:{revision}"'}

    async def perform(self, step: model.Step) -> model.Answer:
        """Send the step's request."""
        sha = self.state["plan_sha256"] if self.state else "1" * 64
        path, headers = self.onb.path, self.headers(step.tag)
        owner = self.onb.owner
        match step:
            case model.Start(plan, _):
                answer = await owner.post(path, {"intent": "start", "plan": plan_body(plan)}, headers=headers)
            case model.Approve(hash_, _):
                body = {"decision": "approve", "plan_sha256": sha if hash_ is model.Hash.CURRENT else "0" * 64}
                answer = await owner.post(f"{path}/review", body, headers=headers)
            case model.Replace(hash_, plan, _):
                body = {"decision": "replace", "plan_sha256": sha if hash_ is model.Hash.CURRENT else "0" * 64}
                answer = await owner.post(
                    f"{path}/review", {**body, "replacement_plan": plan_body(plan)}, headers=headers
                )
            case model.Proof(commit, _):
                proof = {"implementation_source_snapshot": snapshot_body(commit)}
                answer = await owner.post(f"{path}/proof", proof, headers=headers)
                if answer.status_code == 201:
                    self.begun = answer.json()
            case model.Verify():
                answer = await owner.post(f"{path}/verify", headers=headers)
        return told(answer)

    async def exercise(self) -> None:
        await self.onb.exercise(self.begun)

    async def expire(self) -> None:
        await self.onb.world.wait(SESSION_SECONDS)


def told(answer: httpx2.Response) -> model.Answer:
    """An answer in the model's terms; the state in it carries the tag of its header."""
    body = answer.json()
    if answer.status_code >= 400:
        assert set(body["error"]) <= {"code", "message", "next_action", "details"}
        return model.Answer(answer.status_code, body["error"]["code"])
    state = body.get("state", body)
    assert answer.headers["etag"] == state["etag"]
    return model.Answer(answer.status_code, ok=body.get("ok"))


def agrees(state: dict[str, Any] | None, expected: model.Model) -> None:
    """Assert that service and model show the same."""
    if expected.status == "none":
        assert state is None
        return
    assert state is not None
    assert (state["status"], state["revision"]) == (expected.status, expected.revision)
    assert state["plan"] == plan_body(expected.plan)
    if expected.snapshot:
        assert state["implementation_source_snapshot"]["git_head_sha"] == expected.snapshot


@pytest.fixture(scope="module")
def run(server: ServerHandle) -> Iterator[Callable[[Callable[[World], Awaitable[Any]]], Any]]:
    """Run a coroutine against the service from a synchronous test."""
    with asyncio.Runner() as runner:
        client = runner.run(_client(server))
        world = World(client, server)
        yield lambda work: runner.run(work(world))
        runner.run(client.aclose())


async def _client(server: ServerHandle) -> httpx2.AsyncClient:
    return seen.async_client(server.base_url, timeout=30)


async def reach(world: World, situation: str) -> tuple[HttpDriver, model.Model]:
    driver, expected = HttpDriver(await onboard(world)), model.Model()
    for step in SITUATIONS[situation]:
        match step:
            case model.Exercise():
                await driver.exercise()
                expected = replace(expected, proven=True)
            case model.Expire():
                await driver.expire()
                expected = replace(expected, expired=True)
            case _:
                expected, answer = expected.after(step)
                assert await driver.perform(step) == answer
                await driver.refresh()
    return driver, expected


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_step_in_every_situation(run: Any, situation: str) -> None:
    """Every step is answered as the table says; what it refuses changes nothing that can be read."""

    async def walk(world: World) -> None:
        driver, expected = await reach(world, situation)
        for step in expected.steps():
            after, answer = expected.after(step)
            before = await driver.refresh()
            assert await driver.perform(step) == answer, step
            state = await driver.refresh()
            agrees(state, after)
            if after == expected:
                assert state == before, step
            else:
                driver, expected = await reach(world, situation)

    run(walk)


def test_random_walks(run: Any) -> None:
    """Long random sequences of steps: service and model agree after each step."""

    class Walk(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            async def make(world: World) -> HttpDriver:
                return HttpDriver(await onboard(world))

            self.driver = run(make)
            self.model = model.Model()

        @rule(data=st.data(), forward=st.booleans())
        def step(self, data: st.DataObject, forward: bool) -> None:
            steps = self.model.steps()
            if forward:
                now = {model.Tag.CURRENT, model.Tag.NONE}
                steps = [s for s in steps if s.tag in now and getattr(s, "hash", None) is not model.Hash.OTHER]
            step = data.draw(st.sampled_from(steps))
            self.model, answer = self.model.after(step)
            assert run(lambda _: self.driver.perform(step)) == answer

        @precondition(lambda self: self.model.status == "proving" and not self.model.proven and not self.model.expired)
        @rule()
        def exercise(self) -> None:
            run(lambda _: self.driver.exercise())
            self.model = replace(self.model, proven=True)

        @precondition(lambda self: self.model.status == "proving" and not self.model.expired)
        @rule()
        def expire(self) -> None:
            run(lambda _: self.driver.expire())
            self.model = replace(self.model, expired=True)

        @invariant()
        def agree(self) -> None:
            if hasattr(self, "driver"):
                agrees(run(lambda _: self.driver.refresh()), self.model)

    run_state_machine_as_test(
        Walk,
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
