"""What all parts share: callers, ids and the clock."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from service.demo.theatre.stage import Api, Stage
from service.demo.theatre.workshop import Workshop
from service.demo.theatre.world import World
from service.testing.shop import WorldFailed
from statemachines.runs import run

T = TypeVar("T")
WAIT_SECONDS = 30
LOOK_SECONDS = 0.2
OWNER = "owner@example.invalid"


@dataclass
class Scene:
    """The state of the demo. `node` is the program that runs Node; the fields below are set by who creates them."""

    stage: Stage
    world: World
    node: str
    owner: Api = field(init=False)
    project: dict[str, Any] = field(init=False)
    ci_credential: str = field(init=False)
    workshop: Workshop = field(init=False)
    runner_secret: str = field(init=False)
    policy: dict[str, Any] = field(init=False)
    healed: str = field(init=False)
    webhook: str = field(init=False)
    webhook_secret: str = field(init=False)

    @property
    def path(self) -> str:
        """Path of the project."""
        return f"/v1/projects/{self.project['id']}"

    def as_runner(self, name: str) -> Api:
        """A client with the credential of the runner."""
        return Api(self.world.base_url, self.runner_secret, self.stage, name)

    def move_clock(self, seconds: int, why: str) -> None:
        """Advance the clock of the service, and print it."""
        self.stage.say(f"The demo moves the service's clock {seconds} s ahead: {why}")
        operator = Api(self.world.base_url, self.world.test_token, self.stage, "operator")
        operator.call("POST", "/v1/test-clock/advance", {"seconds": seconds})
        operator.close()

    def restart_shop(self, marker: str | None = None) -> None:
        """Run what the shop's repository has checked out."""
        self.world.run_shop(self.project["dsn"], self.world.git("rev-parse", "HEAD")[:12], marker)

    def buy(self, *customers: str) -> None:
        """Place orders as customers, from the account to the paid order."""
        for customer in customers:
            self.world.visit("/accounts", user=customer)
            self.world.visit("/cart", user=customer, item="tea", quantity=2)
            answered = self.world.visit("/checkout", user=customer, card="good")
            self.stage.show(customer, f"paid for an order; the shop answered {answered}")


def wait_for(what: str, look: Callable[[], T | None]) -> T:
    """Poll until something is there. Raises WorldFailed on timeout."""
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        found = look()
        if found is not None:
            return found
        time.sleep(LOOK_SECONDS)
    raise WorldFailed(f"Waited {WAIT_SECONDS} s in vain for {what}.")


def require(condition: object, otherwise: str) -> None:
    """End the demo unless something holds."""
    if not condition:
        raise WorldFailed(otherwise)


# Small drawings of what was recorded.

ACTORS = {"key": "a person", "runner": "the runner", "ci": "CI"}


def actor_of(event: Mapping[str, Any]) -> str:
    """Who did it, for people."""
    return ACTORS.get(event["actor_kind"], f"the service itself ({event['actor_id']})")


def path_of(bundle: Mapping[str, Any], run_id: str) -> Iterator[str]:
    """Draw the way of a run through its machine, a line for each move; what moved nothing is a loop after it."""
    [stream] = [stream for stream in bundle["streams"] if stream["stream_id"] == run_id]
    now, line = run.MACHINE.initial.status.name, ""
    for event in stream["events"]:
        before, now = now, status_after(event["topic"], now)
        name = event["topic"].removeprefix("run.").removesuffix(".v1")
        if now == before:
            line += f"{',' if '↺' in line else '  ↺'} {name} ({actor_of(event)})"
            continue
        if line:
            yield line
        line = f"{before.lower():>13} ──▶ {now.lower():13} {name}: {actor_of(event)}"
    yield line


def status_after(topic: str, status: str) -> str:
    """Where an event leads: the machine's table says, and it is the same place from everywhere."""
    destinations = {row.dest for row in run.TABLE.get_transitions(topic)}
    assert len(destinations) == 1, f"{topic} leads to {destinations}"
    return str(destinations.pop() or status)
