"""The storm of neighbours for `make torture`: all shapes one after the other, or one of them by its name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from tests.torture.neighbours.attacks import SHAPES
from tests.torture.neighbours.storm import FULL as MARKS
from tests.torture.neighbours.storm import street
from tests.torture.neighbours.world import FULL as EXTENT
from tests.torture.runs import Size, Theatre

Run = Callable[[Theatre, Size], Awaitable[list[str]]]


async def _attacked(theatre: Theatre, size: Size, shapes: Iterable[str]) -> list[str]:
    """Carry shapes out; one that misses a mark is carried out once more, and judged by that (see test_neighbours)."""
    wrong: list[str] = []
    marks = replace(MARKS, attack=size.seconds, through=size.least["through"])
    async with street(theatre.cluster, theatre.directory, EXTENT) as built:
        idle = await built.quiet(marks)
        wrong += [f"idle: {problem}" for problem in idle.wrong]
        for shape in shapes:
            verdict = await built.attack(shape, idle, marks)
            if verdict.wrong:
                theatre.say(f"once more, after {verdict}: {'; '.join(verdict.wrong)}")
                # What an account may bring in an hour, the first attempt has had.
                left = replace(marks, through=max(0, marks.through - verdict.tally.through))
                verdict = await built.attack(shape, idle, left)
            theatre.say(f"{'WRONG ' if verdict.wrong else ''}{verdict}{'' if verdict.built else ' (not built)'}")
            wrong += [f"{shape}: {problem}" for problem in verdict.wrong]
    return wrong


async def p25(theatre: Theatre, size: Size) -> list[str]:
    """One caller does the worst that is legal, in all shapes: its neighbours' work stays as quick as it was."""
    return await _attacked(theatre, size, SHAPES)


def _alone(shape: str) -> Run:
    async def run(theatre: Theatre, size: Size) -> list[str]:
        return await _attacked(theatre, size, [shape])

    run.__doc__ = SHAPES[shape].__doc__
    return run


RUNS: dict[str, Run] = {"P25": p25}
EACH: dict[str, Run] = {f"P25-{shape}": _alone(shape) for shape in SHAPES}
"""For choosing by name: what P25 consists of."""
FULL = dict.fromkeys([*RUNS, *EACH], Size(0, MARKS.attack, least={"through": MARKS.through}))
