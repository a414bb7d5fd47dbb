"""Onboarding below its door: the whole way as any caller goes it, and what each step leaves (R-ONB-43 to R-ONB-59)."""

from __future__ import annotations

from typing import Any

import pytest

from service.analytics.local import LocalAnalytics
from service.auth.authority import carry_out
from service.onboarding import lifecycle
from statemachines.kernel.machine import PreconditionFailed
from statemachines.onboarding.lifecycle import OnboardingNotStarted, PlanHashMismatch
from statemachines.onboarding.plan import propose
from statemachines.onboarding.proof import hash_marker
from statemachines.onboarding.signal_map import SignalMapNotFound
from tests.support.ingest import PROJECT
from tests.support.plans import make_plan, make_snapshot

PLAN, OTHER_PLAN = propose(make_plan()), propose(make_plan("How many visitors come back?"))


class Providers:
    """The adapters of a service without connections; `asked` counts who wanted one."""

    def __init__(self, store) -> None:
        self.store = store
        self.asked = 0

    async def for_project(self, project_id: str) -> LocalAnalytics:
        self.asked += 1
        return LocalAnalytics(self.store, project_id)


async def do(store, intent) -> Any:
    return await carry_out(store, "test", "onboard", intent, project=PROJECT)


async def test_from_nothing_to_a_proof_that_is_not_complete(sql, store):
    """Each step is shown by its row; the map comes with the approval and goes with the next plan."""
    with pytest.raises(OnboardingNotStarted):
        await lifecycle.read_onboarding(store, PROJECT)
    with pytest.raises(SignalMapNotFound):
        await lifecycle.read_signal_map(store, PROJECT)
    planned, first = await do(store, lifecycle.start(PROJECT, PLAN, None))
    assert (planned.status, first) == ("planned", True)
    assert await do(store, lifecycle.start(PROJECT, PLAN, None)) == (planned, False)
    replaced = await do(store, lifecycle.replace(PROJECT, PLAN.sha256, OTHER_PLAN, planned.etag))
    assert (replaced.status, replaced.plan) == ("planned", OTHER_PLAN.plan)
    with pytest.raises(PlanHashMismatch):
        await do(store, lifecycle.approve(PROJECT, PLAN.sha256, replaced.etag))
    approved = await do(store, lifecycle.approve(PROJECT, OTHER_PLAN.sha256, replaced.etag))
    assert approved == await lifecycle.read_onboarding(store, PROJECT)
    assert lifecycle.shown_signal_map(await lifecycle.read_signal_map(store, PROJECT)).plan_sha256 == OTHER_PLAN.sha256

    begun = await do(store, lifecycle.begin_proof(PROJECT, make_snapshot("d" * 40), approved.etag))
    markers = hash_marker(begun.runtime_marker), hash_marker(begun.ci_marker)
    assert (begun.row.runtime_marker_sha256, begun.row.ci_marker_sha256) == markers
    providers = Providers(store)
    verified = await do(store, await lifecycle.verify(store, providers, PROJECT, begun.row.etag))
    assert (verified.ok, verified.row, providers.asked) == (False, begun.row, 1)
    assert len(verified.remaining.analytics.milestones) == 2

    await do(store, lifecycle.start(PROJECT, PLAN, begun.row.etag))
    with pytest.raises(SignalMapNotFound):
        await lifecycle.read_signal_map(store, PROJECT)


async def test_evidence_is_gathered_for_the_session_that_is_meant(sql, store):
    """A stale tag, or none, costs the provider nothing; it is refused as it would be anyway."""
    planned, _ = await do(store, lifecycle.start(PROJECT, PLAN, None))
    approved = await do(store, lifecycle.approve(PROJECT, PLAN.sha256, planned.etag))
    await do(store, lifecycle.begin_proof(PROJECT, make_snapshot("d" * 40), approved.etag))
    providers = Providers(store)
    intent = await lifecycle.verify(store, providers, PROJECT, approved.etag)
    with pytest.raises(PreconditionFailed):
        await do(store, intent)
    assert providers.asked == 0


async def test_two_proofs_have_nothing_in_common(sql, store):
    """A session and its markers are made for one start and never again."""
    planned, _ = await do(store, lifecycle.start(PROJECT, PLAN, None))
    row = await do(store, lifecycle.approve(PROJECT, PLAN.sha256, planned.etag))
    begun = []
    for _ in range(2):
        begun.append(await do(store, lifecycle.begin_proof(PROJECT, make_snapshot("d" * 40), row.etag)))
        row = begun[-1].row
    secrets = {begun[0].runtime_marker, begun[0].ci_marker, begun[1].runtime_marker, begun[1].ci_marker}
    assert len(secrets) == 4
    assert begun[0].row.proof_session_id != begun[1].row.proof_session_id
