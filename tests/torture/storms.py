"""The storms, each at any size: the requests of clients, the faults, and the minimum counts.

The minimums guard against vacuous passes: a run in which every call fails keeps every promise.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from tests.support.proxy import Fault, HttpProxy, PostgresProxy, with_odds
from tests.torture.registers import Register, Writer
from tests.torture.stage import Stage


def pick(registers: Sequence[Register], hot: int) -> Register:
    """One of the few hot ones, or one of all, with equal probability."""
    return random.choice(registers[:hot] if random.random() < 0.5 else registers)


async def durability(stage: Stage, *, seconds: float, gaps: tuple[float, float], **at_least: int) -> None:
    """P1: fenced writers, while processes are killed. Some requests without an answer are repeated, some are not."""
    hot = max(1, len(stage.registers) // 5)

    async def turn(writer: Writer, _: int) -> None:
        register = pick(stage.registers, hot)
        op = await writer.write(register, persist=random.random() < 0.3)
        if op.outcome != "ok":
            await writer.read(register)

    def strike() -> None:
        if not stage.counts(**at_least):  # a kill may find nobody waiting for an answer
            stage.kill_api(everyone=random.random() < 0.35)

    async with stage.struck(strike, gaps):
        await stage.run(16, seconds, turn, lambda: stage.counts(**at_least))
    assert stage.counts(**at_least), f"too little happened: {stage.summary()}"


async def ambiguity(stage: Stage, database: PostgresProxy, http: HttpProxy, *, seconds: float, **at_least: int) -> None:
    """P3: answers are lost at COMMIT and on their way to the client, commits come late; each client asks on.

    No operation is left in doubt, and none is refused whose work is in the log.
    """
    hot = max(1, len(stage.registers) // 4)

    async def turn(writer: Writer, _: int) -> None:
        register = pick(stage.registers, hot)
        op = await writer.write(register, persist=True)
        if op.outcome != "ok":
            await writer.read(register)

    def fired() -> bool:
        stage.fired.update({f"commit {name}": n - stage.fired[f"commit {name}"] for name, n in database.fired.items()})
        stage.fired.update({f"answer {name}": n - stage.fired[f"answer {name}"] for name, n in http.fired.items()})
        return stage.counts(**at_least)

    dice = random.Random(1)
    database.choose = with_odds({Fault.EAT: 0.01, Fault.ZOMBIE: 0.005})
    http.choose = lambda request: request.startswith(b"POST") and dice.random() < 0.01
    try:
        await stage.run(16, seconds, turn, fired)
    finally:
        database.choose = lambda: None
        http.choose = lambda _: False
    assert fired(), f"too little happened: {stage.summary()}"
    assert stage.journal.outcomes["info"] == 0, "an operation was left in doubt"
    assert set(stage.journal.statuses) <= {200, 412}, stage.summary()


async def registers(stage: Stage, *, seconds: float, **at_least: int) -> list[str]:
    """P4: rivals on a few registers, under the right fence, an old one, one of the future, one of another register.

    Returns what went wrong at once; the rest is in the journal.
    """
    wrong: list[str] = []

    async def turn(writer: Writer, _: int) -> None:
        register, other = random.sample(stage.registers, 2)
        kind = random.random()
        refusals = {412}
        if kind < 0.55:
            op = await writer.write(register)
        elif kind < 0.7:
            op = await writer.write(register, expected=max(0, register.revision - random.randint(1, 3)))
        elif kind < 0.85:
            op = await writer.write(register, expected=register.revision + random.randint(1, 9))
            refusals.add(409)  # That revision exists meanwhile, with a plan that this client has not seen.
        else:
            op = await writer.write(register, tag=other.etag())
            if op.outcome == "ok":
                wrong.append(f"{op.id} was let in by the tag of another register")
        if op.outcome != "ok":
            if op.status not in refusals:
                wrong.append(f"{op.id} was refused with {op.status}")
            state = await writer.read(register)
            if state is None or state["plan"]["business_question"] == op.id:
                wrong.append(f"{op.id} was refused with {op.status} and is what is read")

    await stage.run(32, seconds, turn, lambda: stage.counts(**at_least))
    assert stage.counts(**at_least), f"too little happened: {stage.summary()}"
    return wrong
