"""What the bench measures really happens: whole chains, races with one winner, a ledger that never overspends."""

from __future__ import annotations

import pytest

from scripts import verify_proof
from scripts.bench import chains, claims
from scripts.load import automation_world, worlds
from tests.support.server import ServerHandle


@pytest.fixture
def service(server: ServerHandle) -> worlds.Service:
    """The test server, as the bench sees a service."""
    assert server.database_url is not None
    running = worlds.Service(server.port, server.database_url, server.internal_token, server.test_token)
    running.sign_in()
    return running


def test_a_wave_carries_every_chain_to_a_verified_deploy(
    service: worlds.Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In as many commands as it says, every one of them a step; and the proof of each run holds."""
    monkeypatch.setattr(chains, "CHAINS_OF_A_RUNNER", 2)
    shops = automation_world.open_shops(service, 2, max_cases_per_sweep=1)
    stats = chains.run_wave(service, shops, tally := chains.Tally())
    assert tally.chains == 4
    assert set(stats.statuses) == {200, 201, 202}
    rows = service.query("select id, outcome from automation_runs")
    assert [outcome for _, outcome in rows] == ["succeeded"] * 4
    for run_id, _ in rows:
        path = f"/v1/automation-runs/{run_id}/proof"
        verify_proof.check(service.call("GET", path, None, service.owner_key))
    query = (
        "select count(distinct command_id) from events where project_id = any(%s) and stream_id not like 'case_%%' "
        "and (stream_id like 'trc_%%' or stream_id like 'claim_%%' or stream_id like 'run_%%')"
    )
    [[commands]] = service.query(query, [shop.id for shop in shops])
    assert commands == 4 * chains.STEPS


def test_rivals_for_a_case_have_one_winner(service: worlds.Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "RIVALS", 6)
    monkeypatch.setattr(claims, "ROUNDS", 2)
    slowest, statuses = claims.race_for_cases(service)
    assert slowest > 0
    assert (statuses[201], statuses[409]) == (2, 10)


def test_starts_at_once_spend_exactly_the_budget(service: worlds.Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "STARTS", 12)
    monkeypatch.setattr(claims, "CAP", 5)
    monkeypatch.setattr(claims, "AT_ONCE", 8)
    rate, statuses = claims.race_for_budget(service)
    assert rate > 0
    assert (statuses[201], statuses[409]) == (5, 7)
