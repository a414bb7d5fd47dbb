"""The row of a credential shows the stream, and of the secret only its prefix and hash."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from projections.credentials import CI_BINDINGS, CREDENTIALS, EXCHANGED, exchanged_lasts
from statemachines.credentials import credential as credentials
from statemachines.credentials.binding import Binding, CiBindingAdded, CiBindingRemoved, Workflow
from statemachines.credentials.exchanged import CiCredentialExchanged
from statemachines.kernel.machine import CiRun, Event
from tests.projections.rows import check_middle, check_row, fold

EVENTS: list[Event] = [
    credentials.CredentialCreated(
        kind="automation_runner",
        name="nightly",
        scopes=["runs:read"],
        automation_id="error-to-draft-pr",
        runner_id="runner_1",
        secret_hash="0" * 64,
        prefix="service_runner_a",
        created_by="usr_1",
        request="f" * 64,
        created_at=5,
        expires_at=605,
    ),
    credentials.CredentialRevoked("leaked", 9),
]


def test_a_row_shows_its_stream():
    check_row(
        CREDENTIALS,
        EVENTS,
        {
            "revision": 2,
            "kind": "automation_runner",
            "name": "nightly",
            "scopes": ["runs:read"],
            "automation_id": "error-to-draft-pr",
            "runner_id": "runner_1",
            "secret_hash": "0" * 64,
            "prefix": "service_runner_a",
            "created_by": "usr_1",
            "created_at": 5,
            "expires_at": 605,
            "revoked_at": 9,
            "revoke_reason": "leaked",
        },
    )


def test_a_history_that_begins_in_the_middle_folds():
    check_middle(CREDENTIALS, EVENTS)


@pytest.mark.parametrize(("now", "active"), [(604, True), (605, False)])
def test_a_credential_is_active_until_it_expires(now: int, active: bool):
    assert fold(CREDENTIALS, EVENTS[:1]).active(now) is active
    assert not fold(CREDENTIALS, EVENTS).active(now)


WORKFLOW = Workflow("https://ci.example", "740001", "65001", "refs/heads/main", ".gitlab-ci.yml", None)
BOUND: list[Event] = [
    CiBindingAdded("cib_1", "shop", WORKFLOW, "usr_1", 5),
    CiBindingAdded("cib_2", "till", replace(WORKFLOW, repository_id="740002"), "usr_2", 6),
    CiBindingRemoved("cib_1", "usr_1", 7),
]
RUN = CiRun("cib_1", "https://ci.example", "acme/shop", "refs/heads/main", ".gitlab-ci.yml", None, "9001")
EXCHANGE: list[Event] = [CiCredentialExchanged(RUN, ["deploys:write"], "service_ci_aaaaa", 5, 905)]


def test_the_row_of_bindings_has_those_in_force() -> None:
    second = Binding("cib_2", "till", replace(WORKFLOW, repository_id="740002"), "usr_2", 6)
    check_row(CI_BINDINGS, BOUND, {"revision": 3, "bindings": [msgspec.to_builtins(second)]})
    row = fold(CI_BINDINGS, BOUND)
    assert [row.holds(name) for name in ("cib_1", "cib_2")] == [False, True]


def test_the_row_of_an_exchange_has_no_secret_and_lasts_a_day_longer() -> None:
    check_row(
        EXCHANGED,
        EXCHANGE,
        {
            "revision": 1,
            "binding_id": "cib_1",
            "run": msgspec.to_builtins(RUN),
            "scopes": ["deploys:write"],
            "prefix": "service_ci_aaaaa",
            "created_at": 5,
            "expires_at": 905,
        },
    )
    check_middle(EXCHANGED, EXCHANGE)
    row = fold(EXCHANGED, EXCHANGE)
    assert [exchanged_lasts(row, now) for now in (905, 905 + 86_399, 905 + 86_400)] == [True, True, False]
