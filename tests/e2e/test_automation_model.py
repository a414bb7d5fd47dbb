"""The game of the loop against the real server: thousands of moves over HTTP, and no rule broken at any prefix (P23).

The same actors and rules play it in memory (tests/statemachines/runs/test_model.py), where they also lose when
a guard is taken away. Here the moves meet the real database, the worker's sweep and requests that are truly at once.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from tests.support.loop.actors import Owner
from tests.support.loop.arena import problems_of
from tests.support.loop.game import Game
from tests.support.loop.http_port import HttpPort
from tests.support.loop.http_scene import contract_of, open_scene
from tests.support.loop.rules import Rules
from tests.support.server import ServerHandle

STEPS, SEED = 2500, 5
OPENING = 500
SEEDS = {"review_required": 8, "auto_merge": 7}
"""Of the short games: soon something is enabled, and a run begins."""
CHECK_EVERY = 50
MODES = ("review_required", "auto_merge")
EXPECTED = {
    "interleaved": 50,
    "repeated": 20,
    "lost": 20,
    "pause:200": 2,
    "automation_contract.enabled.v1": 3,
    "trigger_receipt.issued.v1": 5,
    "claim.created.v1": 3,
    "run.started.v1": 2,
    "grant.authorized.v1": 1,
    "run.failed.v1": 1,
}
"""Minimum counts of what must happen in a game, so that it cannot pass vacuously."""
EXPECTED_EARLY = {
    "interleaved": 5,
    "repeated": 1,
    "lost": 1,
    "automation_contract.enabled.v1": 1,
    "trigger_receipt.issued.v1": 1,
}
"""Likewise in the short one."""


def contracts(mode: str) -> list[dict[str, Any]]:
    """The contracts that the owner of a game chooses from; the same as in memory."""
    usual = {"max_runs_per_day": 12}
    return [
        contract_of(mode, **usual),
        contract_of(mode, **usual, max_prs_per_day=1),
        contract_of(mode, max_turns_per_run=40, max_runs_per_day=3),
    ]


def play(server: ServerHandle, mode: str, seed: int, steps: int) -> Counter[str]:
    """Play one game on a project of its own, and check every rule; returns what happened how often."""
    with open_scene(server, mode) as scene:
        scene.prepare(max_runs_per_day=12)
        port = HttpPort(scene)
        try:
            game = Game(port, Random(seed), documents=contracts(mode), mode=mode, automations=["heal"], backwards=False)
            owner, pauser = game.actors[0], 6
            assert isinstance(owner, Owner)
            owner.etag = scene.must(scene.call("GET", scene.world.contract, who="owner"))["etag"]
            game.weights[pauser] = 3
            rules = Rules()

            def check() -> None:
                if game.steps % CHECK_EVERY == 0:
                    rules.check(port.log())

            game.run(steps, check)
            rules.check(port.settled_log())
            rules.check_replies(game.history)
            assert problems_of(scene.world.url) == []
        finally:
            port.close()
    return game.happened + Counter(entry.event.TOPIC for entry in port.entries)


GAMES = [
    *(pytest.param(mode, seed, OPENING, EXPECTED_EARLY, id=f"{mode}-opening") for mode, seed in SEEDS.items()),
    *(pytest.param(mode, SEED, STEPS, EXPECTED, id=f"{mode}-whole") for mode in MODES),
]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "seed", "steps", "expected"), GAMES)
def test_nothing_that_may_happen_breaks_a_rule(
    server: ServerHandle, mode: str, seed: int, steps: int, expected: dict[str, int]
):
    """Lost answers, duplicates, reordering, true concurrency, clock steps: every rule holds at every prefix."""
    happened = play(server, mode, seed, steps)
    for what, least in expected.items():
        assert happened[what] >= least, (what, happened)
