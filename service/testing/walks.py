"""Random walks through onboarding: driver and model take the same steps, and agree after each."""

from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from service.testing.onboarding_model import OnboardingModel, SentHash, SentTag, Step, StepAnswer

# Strategies: steps of an owner, and bodies from a product.

_NAMES = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=30)
_WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)
_USERS = st.builds(lambda number: {"id": f"user-{number}"}, st.integers(0, 999))


def steps(model: OnboardingModel) -> st.SearchStrategy[Step]:
    """Every step with an answer of its own here, also stale and foreign ones."""
    return st.sampled_from(model.steps())


def forward_steps(model: OnboardingModel) -> st.SearchStrategy[Step]:
    """Steps with the current tag and hash. Few random steps lead far without them."""
    now = {SentTag.CURRENT, SentTag.NONE}
    forward = [one for one in model.steps() if one.tag in now and getattr(one, "hash", None) is not SentHash.OTHER]
    return st.sampled_from(forward)


def error_reports() -> st.SearchStrategy[dict[str, Any]]:
    """Bodies for `POST /v1/logs/`: any text, with or without user and tags."""
    return st.fixed_dictionaries(
        {"message": _WORDS, "level": st.sampled_from(["warning", "error", "fatal"])},
        optional={"user": _USERS, "tags": st.dictionaries(_NAMES, _WORDS, max_size=3)},
    )


def product_events() -> st.SearchStrategy[dict[str, Any]]:
    """Bodies for `POST /v1/analytics/`: any name, with numbers, texts and truth values as properties."""
    values = st.integers(-(2**31), 2**31) | st.booleans() | _WORDS
    return st.fixed_dictionaries(
        {"event": _NAMES, "distinct_id": st.builds("user-{}".format, st.integers(0, 999))},
        optional={"properties": st.dictionaries(_NAMES, values, max_size=3)},
    )


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
