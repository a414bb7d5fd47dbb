"""The row of a credential shows the stream, and of the secret only its prefix and hash."""

from __future__ import annotations

import pytest

from projections.credentials import CREDENTIALS
from statemachines.credentials import credential as credentials
from statemachines.kernel.machine import Event
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
