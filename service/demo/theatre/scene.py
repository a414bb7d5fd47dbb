"""What all parts share: callers, ids and the clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from service.demo.theatre.stage import Api, DemoFailed, Stage
from service.demo.theatre.workshop import Workshop
from service.demo.theatre.world import World

T = TypeVar("T")
WAIT_SECONDS = 30
LOOK_SECONDS = 0.2


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
    """Poll until something is there. Raises DemoFailed on timeout."""
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        found = look()
        if found is not None:
            return found
        time.sleep(LOOK_SECONDS)
    raise DemoFailed(f"Waited {WAIT_SECONDS} s in vain for {what}.")


def require(condition: object, otherwise: str) -> None:
    """End the demo unless something holds."""
    if not condition:
        raise DemoFailed(otherwise)
