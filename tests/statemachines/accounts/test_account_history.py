"""Events of accounts, projects and credentials as they were released stay readable, and are still written so."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import rfc8785

from statemachines.accounts import account, sign_in
from statemachines.credentials import credential
from statemachines.kernel.machine import Event
from statemachines.projects import project

GOLDEN = Path(__file__).parents[2] / "golden" / "events"
HASH = "0123456789abcdef" * 4
RELEASED: list[Event] = [
    account.PersonRegistered("email", "ann@example.com", True, "Ann", False, 1_800_000_000),
    account.PersonProfileChanged("ann@example.org", False, None),
    account.PersonFenced(1_800_000_001),
    account.PersonDeleted(1_800_000_002),
    account.KeyMinted("usr_1", HASH, "service_sk_abcde", "dev_1", 1_800_000_000),
    account.KeyRevoked(1_800_000_001),
    account.OwnerAdded("usr_1", 1_800_000_000),
    account.MemberAdded("usr_1", 1_800_000_000),
    account.MembershipRemoved(1_800_000_001),
    sign_in.SignInStarted(HASH, "laptop", 1_800_000_000, 1_800_000_900),
    sign_in.SignInAuthorized("usr_1", True, 1_800_000_001),
    sign_in.SignInRefused(1_800_000_001),
    sign_in.SignInRedeemed("key_1", 1_800_000_002),
    project.ProjectCreated("shop", "usr_1", False, HASH, "service_dsn_01234567", 1_800_000_000),
    project.DsnRotated(HASH, "service_dsn_abcdefgh", 1_800_000_001),
    project.ProjectFenced("del_1", 1_800_000_002),
    project.ProjectPurged(1_800_000_003),
    credential.CredentialCreated(
        kind="automation_runner",
        name="nightly",
        scopes=["runs:read", "runs:write"],
        automation_id="error-to-draft-pr",
        runner_id="runner_1",
        secret_hash=HASH,
        prefix="service_runner_a",
        created_by="usr_1",
        request=HASH,
        created_at=1_800_000_000,
        expires_at=1_807_776_000,
    ),
    credential.CredentialRevoked("leaked", 1_800_000_001),
]


@pytest.mark.parametrize("event", RELEASED, ids=lambda event: event.TOPIC)
def test_a_released_event_keeps_its_shape(event: Event):
    golden = (GOLDEN / f"{event.TOPIC}.json").read_bytes()
    assert msgspec.json.decode(golden, type=type(event)) == event
    assert rfc8785.dumps(msgspec.to_builtins(event)) == golden


def test_every_event_of_these_machines_has_been_released_once():
    modules = (account, sign_in, project, credential)
    kinds = {v for m in modules for v in vars(m).values() if isinstance(v, type) and issubclass(v, Event)} - {Event}
    assert kinds == {type(event) for event in RELEASED}
