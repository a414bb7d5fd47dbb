"""Deletions at full size: the race that the tests run short, in fresh projects, again and again."""

from __future__ import annotations

from tests.e2e import test_deletion_races as races
from tests.torture.automation import race_in_projects
from tests.torture.runs import Size, Theatre

KILLS = 6


async def deletion(theatre: Theatre, size: Size) -> list[str]:
    """Projects deleted amid 20 runs, 16 writers, a flood, rebuilds and kills: nothing follows, nothing is left."""

    async def race(arena: races.Arena) -> None:
        seen = await races.race(arena, kills=KILLS)
        theatre.say(f"{seen.before.total()} successes before the fence, {seen.codes.total()} answers")

    return await race_in_projects(theatre, size.keys, race)


RUNS = {"deletion": deletion}
FULL = {"deletion": Size(0, keys=20)}
