"""Random walks through onboarding: driver and model take the same steps, and agree after each."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, Protocol

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from service.testing.onboarding_model import OnboardingModel, Step, StepAnswer
from service.testing.strategies import forward_steps, steps


class Shown(NamedTuple):
    """The visible state: status (`none` before the start), revision, and the question of the plan."""

    status: str = "none"
    revision: int = 0
    plan: str = ""


class OnboardingDriver(Protocol):
    """One onboarding under test."""

    def perform(self, step: Step) -> StepAnswer:
        """Carry out a step."""

    def exercise(self) -> None:
        """Send complete evidence under the markers of the session."""

    def expire(self) -> None:
        """Let the session end by time."""

    def show(self) -> Shown:
        """Read the state."""


def agree(driver: OnboardingDriver, model: OnboardingModel) -> None:
    """Assert one state of driver and model."""
    shown = driver.show()
    assert shown == Shown(model.status, model.revision, model.plan), (shown, model)


def advance(driver: OnboardingDriver, model: OnboardingModel, step: Step) -> OnboardingModel:
    """Take a step with both. Asserts one answer, and returns the model after it."""
    after, expected = model.after(step)
    answer = driver.perform(step)
    assert answer == expected, (step, answer, expected)
    return after


class OnboardingWalk(RuleBasedStateMachine):
    """Subclass it with `begin`. Its `TestCase` is a test for pytest or unittest."""

    driver: OnboardingDriver

    def begin(self) -> OnboardingDriver:
        """Make a new onboarding without a plan."""
        raise NotImplementedError

    @initialize()
    def _begin(self) -> None:
        self.driver, self.model = self.begin(), OnboardingModel()

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """Take any step. A refused one changes nothing."""
        before = self.driver.show()
        after = advance(self.driver, self.model, data.draw(steps(self.model)))
        assert after != self.model or self.driver.show() == before
        self.model = after

    @rule(data=st.data())
    def step_forward(self, data: st.DataObject) -> None:
        """Take a valid step."""
        self.model = advance(self.driver, self.model, data.draw(forward_steps(self.model)))

    @precondition(lambda self: self.model.status == "proving" and not self.model.proven and not self.model.expired)
    @rule()
    def exercise(self) -> None:
        """Run the product."""
        self.driver.exercise()
        self.model = replace(self.model, proven=True)

    @precondition(lambda self: self.model.status == "proving" and not self.model.expired)
    @rule()
    def expire(self) -> None:
        """Wait too long."""
        self.driver.expire()
        self.model = replace(self.model, expired=True)

    @invariant()
    def agrees(self) -> None:
        """Driver and model show one state."""
        agree(self.driver, self.model)
