"""The kit: plays scenarios to a runner, several at a time, on one service, and reports."""

import shlex
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from service.conformance.play import Played, Scenario, play
from service.conformance.trial import Booking
from service.conformance.world import ServiceUnderPlay
from service.testing.installation import OwnInstallation

# The kit: plays scenarios to a runner, several at a time, on one service.

AT_ONCE = 4
TIMEOUT_SECONDS = 60.0


def play_all(
    scenarios: Sequence[Scenario],
    installation: ServiceUnderPlay,
    command: str,
    directory: Path,
    *,
    timeout: float = TIMEOUT_SECONDS,
    at_once: int = AT_ONCE,
    tell: Callable[[Played], None] = lambda _: None,
) -> list[Played]:
    """Play scenarios, each in a directory of its own. `tell` hears of each end. Raises WorldFailed.

    Movers of the clock come last. Otherwise they would end the leases of others.
    """

    def one(scenario: Scenario) -> Played:
        order = Booking(command, scenario.bounds, directory / scenario.name)
        return play(scenario, installation, order, timeout)

    played: dict[str, Played] = {}
    for group in ([one for one in scenarios if not one.moves_clock], [one for one in scenarios if one.moves_clock]):
        with ThreadPoolExecutor(at_once) as pool:
            waiting = [pool.submit(one, scenario) for scenario in group]
            try:
                for done in as_completed(waiting):
                    played[done.result().scenario.name] = done.result()
                    tell(done.result())
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
    return [played[scenario.name] for scenario in scenarios]


# A service of the kit's own, with its database, on loopback.


class OwnService(NamedTuple):
    """A running service, and room for files beside it."""

    installation: ServiceUnderPlay
    directory: Path


@contextmanager
def own_service() -> Iterator[OwnService]:
    """Start it as the demo does, without rate limits: the kit plays those itself. Raises WorldFailed."""
    with OwnInstallation() as world:
        world.environment["SERVICE_RATE_LIMITS"] = "0"
        world.start_service()
        directory = world.directory / "scenarios"
        directory.mkdir()
        yield OwnService(ServiceUnderPlay(world.base_url, world.internal_token, world.test_token), directory)


# The output of the kit: a line for each scenario with its breaches below, or JSON.

MOST_BREACHES = 4
"""How many breaches of one scenario are shown to people."""


def lines_of(played: Played) -> list[str]:
    """One scenario for people."""
    name, rule = played.scenario.name, played.scenario.rule
    verdict = "PASS" if played.passed else "FAIL"
    amounts = f"{played.requests} requests, {played.starts} starts, {played.seconds:.0f} s"
    lines = [f"{verdict}  {name:13} {rule:10} {amounts}"]
    for breach in played.breaches[:MOST_BREACHES]:
        lines.append(f"      {breach.rule}: {breach.says}")
        if breach.request:
            lines.append(f"        {breach.request}")
    if len(played.breaches) > MOST_BREACHES:
        lines.append(f"      and {len(played.breaches) - MOST_BREACHES} more")
    return lines


def sum_up(all_played: Sequence[Played]) -> str:
    """The last line for people."""
    failed = [played for played in all_played if not played.passed]
    if not failed:
        return f"The runner passed all {len(all_played)} scenarios."
    rules = dict.fromkeys(breach.rule for played in failed for breach in played.breaches)
    return f"The runner broke {', '.join(rules)} in {len(failed)} of {len(all_played)} scenarios."


def document(command: str, all_played: Sequence[Played]) -> dict[str, Any]:
    """Everything, for programs."""
    return {
        "runner": shlex.split(command),
        "passed": all(played.passed for played in all_played),
        "scenarios": [
            {
                "name": played.scenario.name,
                "rule": played.scenario.rule,
                "passed": played.passed,
                "seconds": round(played.seconds, 1),
                "starts": played.starts,
                "requests": played.requests,
                "breaches": [breach._asdict() for breach in played.breaches],
            }
            for played in all_played
        ],
    }


def listed(scenarios: Sequence[Scenario]) -> list[str]:
    """The scenarios, each with the conduct of a right runner."""
    lines = []
    for scenario in scenarios:
        lines += [f"{scenario.name:13} {scenario.rule:10} {scenario.plays}", f"{'':24} {scenario.right}"]
    return lines
