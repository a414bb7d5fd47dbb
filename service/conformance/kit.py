"""The kit: plays scenarios to a runner, several at a time, on one service."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from service.conformance.play.part import Scenario
from service.conformance.play.playing import Played, play
from service.conformance.stage.trial import Booking
from service.conformance.world.played_service import ServiceUnderPlay

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
    """Play scenarios, each in a directory of its own. `tell` hears of each end. Raises CannotPlay.

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
