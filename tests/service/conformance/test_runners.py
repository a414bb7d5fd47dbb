"""The kit passes the program of the guide, and finds each broken runner by the rule that it breaks."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from service.conformance.kit import play_all
from service.conformance.play import Played
from service.conformance.scenarios import SCENARIOS
from service.conformance.world import ServiceUnderPlay
from tests.support.runners import BROKEN, MAIN, Broken, command_of, reference
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server

SECONDS = 120.0
AT_ONCE = 4
BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


@pytest.fixture(scope="module")
def installation(shared_server: ServerHandle) -> ServiceUnderPlay:
    return ServiceUnderPlay(shared_server.base_url, shared_server.internal_token, shared_server.test_token)


@pytest.fixture(scope="module")
def reference_played(installation: ServiceUnderPlay, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    """How the reference fared in the main scenarios."""
    directory = tmp_path_factory.mktemp("reference")
    command = command_of(reference(), directory)
    played = play_all(
        [BY_NAME[name] for name in MAIN], installation, command, directory, timeout=SECONDS, at_once=AT_ONCE
    )
    return {one.scenario.name: one for one in played}


@pytest.fixture(scope="module")
def broken_played(installation: ServiceUnderPlay, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    """How each broken runner fared in its scenario, those that move the clock after all others."""
    place = tmp_path_factory.mktemp("broken")

    def one(broken: Broken) -> tuple[str, Played]:
        directory = place / broken.does.replace(" ", "-")
        directory.mkdir()
        command = command_of(broken.program(), directory)
        [played] = play_all([BY_NAME[broken.scenario]], installation, command, directory, timeout=SECONDS)
        return broken.does, played

    moving = [broken for broken in BROKEN if BY_NAME[broken.scenario].moves_clock]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = dict(pool.map(one, [broken for broken in BROKEN if broken not in moving]))
    return found | dict(map(one, moving))


@pytest.mark.parametrize("name", MAIN)
def test_the_program_of_the_guide_breaks_no_rule(name: str, reference_played: dict[str, Played]) -> None:
    assert reference_played[name].breaches == []


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.does)
def test_a_broken_runner_is_found_by_its_rule(broken: Broken, broken_played: dict[str, Played]) -> None:
    """The first rule named is the one that it breaks."""
    breaches = broken_played[broken.does].breaches
    assert broken.rule in {breach.rule for breach in breaches}, breaches
    assert breaches[0].rule == broken.rule, breaches


def test_each_scenario_finds_somebody() -> None:
    """A scenario that no runner fails proves nothing."""
    assert {broken.scenario for broken in BROKEN} == set(BY_NAME)
