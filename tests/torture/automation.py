"""The races of automation at full size: the same ones that the tests run short, in fresh projects, again and again.

Each takes a pair of API processes on a database of its own; after it, every row must be what its history folds to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path

from tests.e2e import test_automation_budgets as budgets
from tests.e2e import test_automation_leases as leases
from tests.e2e import test_automation_model as model
from tests.e2e import test_automation_races as races
from tests.e2e import test_automation_stops as stops
from tests.statemachines.runs import test_model as core
from tests.support.loop.arena import Arena, open_arena, open_pair
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.server import ServerHandle
from tests.torture.runs import Size, Theatre

Race = Callable[[Arena], Awaitable[None]]
OBJECTS = 50  # of one kind, raced one after the other in one project
KILLS = 10
MORE_GAMES = 38  # of the pure core, for each pair of games over HTTP: 300,000 moves at full size


async def p5(theatre: Theatre, size: Size) -> list[str]:
    """Holders, processes and rows are stopped past the end of a lease; a late holder is refused everything."""
    held = leases.test_a_lease_that_ends_while_its_row_is_held_has_ended
    rows: list[Race] = [lambda arena, blocker=blocker: held(arena, blocker) for blocker in leases.BLOCKERS]
    return await race_in_projects(
        theatre,
        size.keys,
        leases.test_a_runner_that_slept_through_its_lease_is_refused_everything,
        leases.test_what_a_stopped_process_still_holds_is_refused,
        leases.test_a_process_stopped_in_its_transaction_harms_nobody,
        *rows,
    )


async def p10(theatre: Theatre, size: Size) -> list[str]:
    """Sixteen workers under pauses at random, twenty a project; nothing that is asked for later has authority."""
    return await race_in_projects(
        theatre,
        size.keys,
        stops.test_nothing_has_authority_after_a_pause,
        stops.test_a_stalled_writer_holds_no_pause_up,
    )


async def p11(theatre: Theatre, size: Size) -> list[str]:
    """Caps of 1, 3 and 100 under parallel starts, pull requests and charges; the window's edge; exact decimals."""
    starts = budgets.test_starts_at_once_are_as_many_as_the_cap
    capped = (
        budgets.test_pull_requests_at_once_are_as_many_as_the_cap,
        budgets.test_charges_at_once_are_as_many_as_the_cap,
    )
    return await race_in_projects(
        theatre,
        size.keys,
        *(lambda arena, cap=cap: starts(arena, cap, max(32, cap + 20)) for cap in (1, 3, 100)),
        *(lambda arena, race=race, cap=cap: race(arena, cap) for race in capped for cap in (1, 3)),
        budgets.test_ten_dimes_are_a_dollar,
        budgets.test_the_window_ends_to_the_second,
    )


async def p12(theatre: Theatre, size: Size) -> list[str]:
    """Receipts, claims and grants, fifty of each a project, under 32 rivals; then under kills of their process."""
    raced = (
        races.test_a_receipt_starts_one_run_whoever_asks,
        races.test_twins_of_a_start_are_told_of_the_same_run,
        races.test_a_case_revision_has_one_claim,
        races.test_a_grant_authorizes_one_call,
    )
    return await race_in_projects(
        theatre,
        size.keys,
        *(lambda arena, race=race: race(arena, rounds=OBJECTS) for race in raced),
        races.test_another_change_is_refused_and_burns_nothing,
        lambda arena: races.test_a_process_may_die_in_any_of_it(arena, rounds=KILLS),
    )


async def p23(theatre: Theatre, size: Size) -> list[str]:
    """The game of eight actors, 300,000 moves of the pure core, then over HTTP; from other seeds than the tests."""
    games = range(core.GAMES, core.GAMES + size.keys * MORE_GAMES)
    for seed in games:
        await asyncio.to_thread(core.play, seed)
    theatre.say(f"{len(games) * core.STEPS} moves of the pure core")
    with ExitStack() as stack:
        servers = await asyncio.to_thread(_enter, stack, theatre)
        for seed in range(size.keys):
            for mode in model.MODES:
                happened = await asyncio.to_thread(model.play, servers[0], mode, seed, model.STEPS)
                theatre.say(f"{mode} from seed {seed}: {happened.total()} things happened")
    return []


async def race_in_projects(theatre: Theatre, times: int, *run: Race) -> list[str]:
    """Run every race so many times, each in a project of its own. A broken promise fails with its evidence."""
    with ExitStack() as stack:
        servers = await asyncio.to_thread(_enter, stack, theatre)
        for _ in range(times):
            for race in run:
                with ExitStack() as scenes:
                    scene = await asyncio.to_thread(_prepare, scenes, servers[0])
                    async with open_arena(scene, servers) as arena:
                        await race(arena)
        theatre.say(f"{times * len(run)} races in as many projects")
    return []


def _enter(stack: ExitStack, theatre: Theatre) -> list[ServerHandle]:
    directory: Path = theatre.directory / "pair"
    return stack.enter_context(open_pair(directory, theatre.cluster))


def _prepare(stack: ExitStack, server: ServerHandle) -> HttpScene:
    return stack.enter_context(open_scene(server)).prepare()


RUNS: dict[str, Callable[[Theatre, Size], Awaitable[list[str]]]] = {
    "P5": p5,
    "P10": p10,
    "P11": p11,
    "P12": p12,
    "P23": p23,
}
FULL = {
    "P5": Size(0, keys=8),
    "P10": Size(0, keys=10),
    "P11": Size(0, keys=3),
    "P12": Size(0, keys=2),
    "P23": Size(0, keys=4),
}
"""How often everything is run, each time in fresh projects."""
