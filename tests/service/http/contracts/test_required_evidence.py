"""Whose evidence a contract needs to be enabled: the gap, the refusal, and its fence (G-183, G-202)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import httpx2
import pytest

from tests.service.http.contracts.test_contract import HEAL, ONE, enable, make_ready, saved
from tests.support.automation_world import World, closed, open_world
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server
GAP = "evidence_source_not_met"


@pytest.fixture
def world(server: ServerHandle) -> Iterator[World]:
    with open_world(server) as made:
        yield made


def require(world: World, source: str | None, etag: str | None = None, **how: Any) -> dict[str, Any]:
    """Change the setting."""
    body = {"required_evidence_source": source}
    answer = world.call("PATCH", f"/v1/projects/{world.project_id}/settings", body, etag=etag, **how)
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    assert shown["required_evidence_source"] == source
    return shown


def gaps(world: World) -> list[str]:
    """Codes of the gaps of a contract before it is saved."""
    answer = world.call("POST", f"{world.contract}/validate", ONE, who="member")
    assert answer.status_code == 200, answer.text
    return [gap["code"] for gap in answer.json()["readiness"]["gaps"]]


def test_a_local_proof_is_a_gap_where_the_providers_is_required(world: World) -> None:
    """Validate shows it, and enable refuses with it, from the answer of the change on."""
    make_ready(world)
    artifact = saved(world, ONE)
    assert gaps(world) == []
    shown = require(world, "provider_cloud")
    assert shown["automations_disabled"] == []
    assert gaps(world) == [GAP]
    error = closed(enable(world, artifact["etag"], key="early"), 409, "readiness_incomplete")
    assert [(gap["automation_id"], gap["code"]) for gap in error["details"]["gaps"]] == [(HEAL, GAP)]
    require(world, None, shown["etag"])
    assert gaps(world) == []
    assert enable(world, artifact["etag"]).status_code == 200


def test_the_gap_stands_before_any_proof(world: World) -> None:
    require(world, "provider_cloud")
    assert gaps(world)[:2] == ["signal_map_not_verified", GAP]


def test_a_proof_at_the_provider_satisfies(world: World) -> None:
    make_ready(world, source="provider_cloud")
    require(world, "provider_cloud")
    assert gaps(world) == []
    assert enable(world, saved(world, ONE)["etag"]).status_code == 200


def test_to_require_less_turns_an_enabled_contract_off(world: World) -> None:
    """To require more leaves it: it was enabled under the rules of then."""
    make_ready(world)
    assert enable(world, saved(world, ONE)["etag"]).status_code == 200
    strict = require(world, "provider_cloud")
    assert world.call("GET", world.contract).json()["enabled"] is True
    assert require(world, "provider_cloud", strict["etag"])["etag"] == strict["etag"], "it is so already"
    assert require(world, None, strict["etag"])["automations_disabled"] == [HEAL]
    off = world.call("GET", world.contract).json()
    assert [one["disabled_reason"] for one in off["automations"]] == ["settings_loosened"]


class Race:
    """Enables and one demand for the provider's evidence, sent at once through two processes."""

    def __init__(self, world: World, contract_tag: str, settings_tag: str | None, number: int) -> None:
        self.world = world
        self.contract_tag = contract_tag
        self.settings_tag = settings_tag
        self.number = number
        self.barrier = Barrier(4)

    def switch(self, client: httpx2.Client, place: int) -> int:
        """Enable. Where that is refused for readiness, this gap alone is named."""
        self.barrier.wait()
        key = f"on-{self.number}-{place}"
        answer = enable(self.world, self.contract_tag, key=key, client=client)
        assert answer.status_code in {200, 409, 412}, answer.text
        if answer.status_code == 409:
            assert [gap["code"] for gap in answer.json()["error"]["details"]["gaps"]] == [GAP]
        return answer.status_code

    def demand(self, client: httpx2.Client) -> str:
        """Require the provider's evidence. Returns the tag of the settings."""
        self.barrier.wait()
        return str(require(self.world, "provider_cloud", self.settings_tag, client=client)["etag"])

    def run(self, one: httpx2.Client, other: httpx2.Client) -> tuple[set[int], str]:
        """What the enables were answered, and the tag of the settings after it."""
        with ThreadPoolExecutor(4) as pool:
            strict = pool.submit(self.demand, other)
            found = set(pool.map(self.switch, (one, other, one), range(3)))
            return found, strict.result()


def test_no_enable_commits_after_the_answer_of_the_change(
    world: World, server: ServerHandle, second: ServerHandle
) -> None:
    """What was enabled came first in the log, and all else is refused."""
    make_ready(world)
    contract_tag, settings_tag = saved(world, ONE)["etag"], None
    for number in range(8):
        with server.client() as one, second.client() as other:
            found, settings_tag = Race(world, contract_tag, settings_tag, number).run(one, other)
        late = enable(world, contract_tag, key=f"late-{number}")
        assert late.status_code == (412 if 200 in found else 409), late.text
        settings_tag = require(world, None, settings_tag)["etag"]
        off = world.call("GET", world.contract).json()
        assert off["enabled"] is False
        contract_tag = off["etag"]
    rows = world.run(
        lambda store: store.fetch(
            "select topic, payload->>'required_evidence_source' from events where project_id = %s and topic in "
            "('automation_contract.enabled.v1', 'project_settings.changed.v1') order by seq",
            world.project_id,
        )
    )
    required = None
    for topic, source in rows:
        if topic == "project_settings.changed.v1":
            required = source
        else:
            assert required is None, "it was enabled under what was no longer in force"
