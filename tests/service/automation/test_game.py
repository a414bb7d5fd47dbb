"""The game of eight actors against the real server: the same rules hold in its log (P23)."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.loop.game import Game
from tests.support.loop.http_port import HttpPort
from tests.support.loop.http_scene import HttpScene, contract_of, open_scene
from tests.support.loop.rules import Rules
from tests.support.server import ServerHandle


def play(at: HttpScene, seed: int, steps: int) -> Game:
    at.prepare()
    port = HttpPort(at)
    documents = [contract_of(at.mode), contract_of(at.mode, max_prs_per_day=1)]
    game = Game(port, Random(seed), documents=documents, mode=at.mode, automations=("heal",), backwards=False)
    try:
        game.run(steps)
        log = port.log()
    finally:
        port.close()
    rules = Rules()
    rules.check(log)
    rules.check_replies(game.history)
    assert game.happened["start:201"] >= 1
    assert not [key for key in game.happened if key.endswith((":500", ":internal_error"))]
    return game


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["review_required", "auto_merge"])
def test_the_rules_hold_over_http(server: ServerHandle, mode: str) -> None:
    """Twice 2,500 moves with real concurrency: what the model promises the server keeps."""
    with open_scene(server, mode) as at:
        play(at, 7, 2500)
