"""The model of G-080 against the real server: every step in every situation, and random walks, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import httpx2
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from service.testing import onboarding_model as model
from service.testing.over_http import HttpDriver
from service.testing.walks import OnboardingWalk, advance, agree
from tests.statemachines.onboarding.test_lifecycle import SITUATIONS
from tests.support.server import ServerHandle


class Begin:
    """Makes new projects on the service of the tests; answers are judged by the served schema."""

    def __init__(self, server: ServerHandle, client: httpx2.Client) -> None:
        self.server, self.client = server, client

    def __call__(self) -> HttpDriver:
        return HttpDriver(self.client, self.server.internal_token, self.server.test_token)

    def reach(self, situation: str) -> tuple[HttpDriver, model.OnboardingModel]:
        """Bring a new onboarding, and its model, into a situation."""
        driver, expected = self(), model.OnboardingModel()
        for step in SITUATIONS[situation]:
            match step:
                case model.Exercise():
                    driver.exercise()
                    expected = replace(expected, proven=True)
                case model.Expire():
                    driver.expire()
                    expected = replace(expected, expired=True)
                case _:
                    expected = advance(driver, expected, step)
        return driver, expected


@pytest.fixture(scope="module")
def begin(server: ServerHandle) -> Iterator[Begin]:
    with server.client() as client:
        yield Begin(server, client)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_every_step_in_every_situation(begin: Begin, situation: str) -> None:
    """Every step is answered as the table says; what it refuses changes nothing that can be read."""
    driver, expected = begin.reach(situation)
    for step in expected.steps():
        driver.show()
        before = driver.state
        after = advance(driver, expected, step)
        agree(driver, after)
        if after == expected:
            assert driver.state == before, step
        else:
            driver, expected = begin.reach(situation)


def test_random_walks(begin: Begin) -> None:
    """Long random sequences of steps: service and model agree after each step."""

    class Walk(OnboardingWalk):
        def begin(self) -> HttpDriver:
            return begin()

    run_state_machine_as_test(
        Walk,
        settings=settings(
            max_examples=25,
            stateful_step_count=25,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
