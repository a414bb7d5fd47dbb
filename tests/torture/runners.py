"""Runners and the conformance kit: `service-runner`, the program of the guide and each broken one in every scenario."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from service.conformance.kit import play_all
from service.conformance.play import Played
from service.conformance.scenarios import SCENARIOS
from service.conformance.world import ServiceUnderPlay
from tests.support.runners import BROKEN, SERVICE_RUNNER, command_of, reference
from tests.support.server import ServerHandle
from tests.torture.runs import Size, Theatre

SECONDS = 120.0


async def runners(theatre: Theatre, size: Size) -> list[str]:
    """Every runner in every scenario: the right ones break no rule, and each broken one breaks its own."""
    return await asyncio.to_thread(_play, theatre, size.keys)


def _play(theatre: Theatre, broken: int) -> list[str]:
    directory = theatre.directory / "runners"
    directory.mkdir()
    with ExitStack() as stack:
        url = stack.enter_context(theatre.cluster.database())
        server = ServerHandle(directory, database_url=url)
        stack.callback(server.stop)
        server.start()
        service = ServiceUnderPlay(server.base_url, server.internal_token, server.test_token)

        def played(name: str, program: str = "") -> dict[str, Played]:
            place = directory / name.replace(" ", "-")
            place.mkdir()
            command = command_of(program, place) if program else SERVICE_RUNNER
            ours = [one for one in SCENARIOS if not (program and one.on_request)]
            found = play_all(ours, service, command, place, timeout=SECONDS)
            failed = [one.scenario.name for one in found if not one.passed]
            theatre.say(f"{name}: {', '.join(failed) or 'breaks no rule'}")
            return {one.scenario.name: one for one in found}

        right = {"service-runner": played("service-runner"), "the guide's": played("follows the guide", reference())}
        wrong = [
            f"The right runner ({whose}) in {name}: {one.breaches}"
            for whose, scenarios in right.items()
            for name, one in scenarios.items()
            if not one.passed
        ]
        for one in BROKEN[:broken]:
            rules = {breach.rule for breach in played(one.does, one.program())[one.scenario].breaches}
            if one.rule not in rules:
                wrong.append(f"A runner that {one.does} was not found by {one.rule} in {one.scenario}")
    return wrong


RUNS = {"runners": runners}
FULL = {"runners": Size(1, keys=len(BROKEN))}
