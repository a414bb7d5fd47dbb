"""Whose evidence proved a project: our own records or the connected provider, in all reads and in the event (G-183)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psycopg

from projections.install import INSTALLS
from projections.onboarding import ONBOARDING, SIGNAL_MAPS
from service.history.audit import check_projection
from service.history.rebuild import rebuild
from statemachines.kernel.machine import source_told
from statemachines.kernel.topics import decode_event
from tests.service.http.analytics.test_connection import captured, proving
from tests.service.http.analytics.test_connection import provider as provider  # noqa: PLC0414 (found by name)
from tests.service.http.analytics.test_connection import running as running  # noqa: PLC0414
from tests.service.http.analytics.test_connection import server as server  # noqa: PLC0414
from tests.service.http.analytics.test_connection import world as world  # noqa: PLC0414
from tests.service.http.install.scene import Installed, report_body
from tests.support.api import World, ok
from tests.support.connecting import connect
from tests.support.onboarding import Onboarding, onboard
from tests.support.provider import FakeProvider

GOLDEN = Path(__file__).parents[3] / "golden" / "events"
READS = ("setup", "verify-report", "automation-control", "health")


async def sources(onb: Onboarding | Installed, reads: tuple[str, ...] = READS) -> set[str]:
    """The source in all reads."""
    found = [ok(await onb.owner.get(f"/v1/projects/{onb.project_id}/{tail}")) for tail in reads]
    return {one["evidence_source"] for one in found}


async def recorded(world: World, project_id: str) -> dict[str, Any]:
    """The source in the events of verification, by topic."""
    rows = await world.sql(
        "select topic, payload->>'evidence_source' from events where project_id = %s and topic like %s",
        project_id,
        "%.verified.v1",
    )
    return dict(rows)


def rebuilt_equals_live(world: World) -> None:
    """The source stands in the rows after a rebuild as before."""
    for projection in (ONBOARDING, SIGNAL_MAPS, INSTALLS):
        rebuild(world.server.database_url, projection)
        with psycopg.connect(world.server.database_url, autocommit=True) as connection:
            assert list(check_projection(connection, projection)) == []


async def test_a_proof_in_our_own_records_is_local_for_good(world: World, provider: FakeProvider) -> None:
    """A connection that is made later has not proven what stood before it."""
    onb = await onboard(world)
    assert await sources(onb, ("setup", "automation-control", "health")) == {"local"}
    begun = await onb.to_proving()
    await onb.exercise(begun)
    done = ok(await onb.verify(begun["state"]))
    assert "evidence_source" not in done["state"]["receipt"], "the closed shapes are as they were"
    await connect(onb, provider, provider_project_id=42)
    assert await sources(onb) == {"local"}
    assert await recorded(world, onb.project_id) == {
        "onboarding.verified.v1": "local",
        "signal_map.verified.v1": "local",
    }


async def test_a_proof_at_the_provider_is_the_providers(world: World, provider: FakeProvider) -> None:
    onb, begun = await proving(world, provider)
    assert await sources(onb) == {"provider_cloud"}, "a proof would be read there"
    captured(provider, begun)
    assert ok(await onb.verify(begun["state"]))["ok"]
    assert await sources(onb) == {"provider_cloud"}
    found = await recorded(world, onb.project_id)
    assert found == {"onboarding.verified.v1": "provider_cloud", "signal_map.verified.v1": "provider_cloud"}
    await asyncio.to_thread(rebuilt_equals_live, world)


async def test_an_install_is_verified_by_whose_events_were_read(world: World, provider: FakeProvider) -> None:
    onb = await onboard(world)
    installed = Installed(world, onb.owner, {"id": onb.project_id, "dsn": onb.dsn})
    sha = (await installed.put_map())["plan_sha256"]
    ok(await installed.report(report_body(sha)), 201)
    await installed.exercise()
    assert (await installed.verify())["ok"]
    await connect(onb, provider)
    assert await sources(installed) == {"local"}
    assert await recorded(world, onb.project_id) == {"install.verified.v1": "local"}
    assert not (await installed.verify())["ok"], "the provider has no event"
    assert await sources(installed) == {"provider_cloud"}
    [[now]] = await world.sql("select service_seconds()")
    provider.capture("order_created", now - 20, order_kind="book")
    assert (await installed.verify())["ok"]
    rows = await world.sql(
        "select payload->>'evidence_source' from events where project_id = %s and topic = %s order by revision",
        onb.project_id,
        "install.verified.v1",
    )
    assert [source for (source,) in rows] == ["local", "provider_cloud"]
    assert await sources(installed) == {"provider_cloud"}
    await asyncio.to_thread(rebuilt_equals_live, world)


def test_older_events_are_of_our_own_records() -> None:
    """Releases before this one did not tell where they had read."""
    for topic in ("onboarding.verified.v1", "signal_map.verified.v1", "install.verified.v1", "run.verified.v1"):
        stored = (GOLDEN / f"{topic}.json").read_bytes()
        assert b"evidence_source" not in stored
        event: Any = decode_event(topic, stored)
        source = event.verdict.source if topic == "run.verified.v1" else source_told(event.evidence_source)
        assert source == "local"
