"""The game: which actor sends when, faults of the network, and steps of the clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, NamedTuple

from tests.support.loop.actors import Actor, Canceller, Ci, Owner, Pauser, Runner, Seen, Sweep, Telemetry
from tests.support.loop.port import Port, Reply, Request

IN_FLIGHT = 10
STEPS_AHEAD = (0, 1, 1, 1, 5, 5, 10, 30, 30, 60, 60, 120, 300, 600)
LEAPS = (43200, 86400, 200000, 2600000)


class Delivered(NamedTuple):
    """A request that reached the service, and what it answered."""

    request: Request
    reply: Reply


class Game:
    """Eight actors over a port. Every choice comes from one seed."""

    def __init__(
        self, port: Port, rng: Random, *, documents: list[Any], mode: str, automations: Sequence[str], backwards: bool
    ) -> None:
        self.port = port
        self.rng = rng
        self.backwards = backwards
        seen, names = Seen(), list(automations)
        rngs = [Random(self.rng.random()) for _ in range(8)]
        self.actors: list[Actor] = [
            Owner("owner", rngs[0], documents),
            Runner(f"{names[0]}/runner_1", rngs[1], seen, mode),
            Runner(f"{names[-1]}/runner_2", rngs[2], seen, mode),
            Ci("ci", rngs[3], seen),
            Sweep("sweep", rngs[4], names),
            Telemetry("telemetry", rngs[5]),
            Pauser("pauser", rngs[6], names),
            Canceller("canceller", rngs[7], seen),
        ]
        self.weights = [4, 14, 14, 9, 3, 6, 0.8, 0.4]
        self.sent: list[Request] = []  # in flight to the service
        self.answers: list[Delivered] = []  # in flight back
        self.history: list[Delivered] = []
        self.steps = 0
        self.happened: Counter[str] = Counter()

    def run(self, steps: int, after: Callable[[], None] | None = None) -> None:
        """Play. `after` is called after every step."""
        for _ in range(steps):
            self.step(self.rng.random())
            if after is not None:
                after()

    def step(self, roll: float) -> None:
        """One move: send, deliver, answer, repeat, lose, or advance the clock."""
        self.steps += 1
        if roll < 0.36:
            self.send(self.rng.choices(self.actors, self.weights)[0])
        elif roll < 0.66:
            self.deliver()
        elif roll < 0.94:
            self.answer()
        elif roll < 0.96:
            self.repeat()
        elif roll < 0.975:
            self.lose()
        else:
            self.tick()

    def send(self, actor: Actor) -> None:
        if len(self.sent) < IN_FLIGHT and (request := actor.next()) is not None:
            self.sent.append(request)

    def deliver(self, depth: int = 0) -> None:
        """Deliver one request, in any order; another may run between its reads and its locks."""
        if not self.sent:
            return
        request = self.sent.pop(self.rng.randrange(len(self.sent)))

        def interleave() -> None:
            if depth == 0 and self.rng.random() < 0.2:
                self.happened["interleaved"] += 1
                self.deliver(depth + 1)

        reply = self.port.send(request, interleave)
        self.happened[f"{request.operation}:{reply.code or reply.status}"] += 1
        self.answers.append(Delivered(request, reply))
        self.history.append(self.answers[-1])

    def answer(self) -> None:
        if self.answers:
            request, reply = self.answers.pop(self.rng.randrange(len(self.answers)))
            next(actor for actor in self.actors if actor.name == request.actor).learn(request, reply)

    def repeat(self) -> None:
        """A request arrives twice, or a delivered one once more much later."""
        source = self.sent or [item.request for item in self.history[-50:]]
        if source:
            self.happened["repeated"] += 1
            self.sent.append(self.rng.choice(source))

    def lose(self) -> None:
        """A request or an answer is lost; a runner that misses an answer sends its start again."""
        lost = self.rng.choice([self.sent, self.answers])
        if lost:
            self.happened["lost"] += 1
            lost.pop(self.rng.randrange(len(lost)))

    def tick(self) -> None:
        if self.rng.random() < 0.03:
            self.port.advance(self.rng.choice(LEAPS))
        elif self.backwards and self.rng.random() < 0.1:
            self.port.advance(-self.rng.randint(1, 120))
        else:
            self.port.advance(self.rng.choice(STEPS_AHEAD))
