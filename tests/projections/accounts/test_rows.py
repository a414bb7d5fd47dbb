"""The read models of accounts show what their streams say, and of secrets only what may be stored."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from projections.accounts import key as keys
from projections.accounts import membership as memberships
from projections.accounts import person as people
from projections.accounts import sign_in as sign_ins
from projections.credentials import credential as credentials
from projections.kernel.projection import AnyProjection
from projections.projects import project as projects
from statemachines.accounts import account, sign_in
from statemachines.credentials import credential
from statemachines.kernel.machine import Event, Recorded
from statemachines.projects import project

PEOPLE = [
    account.PersonRegistered("email", "a@b.c", True, "A", False, 5),
    account.PersonProfileChanged("a@b.d", False, None),
    account.PersonFenced(7),
]
KEYS = [account.KeyMinted("usr_1", "0" * 64, "service_sk_abcde", "dev_1", 5), account.KeyRevoked(6)]
MEMBERSHIPS = [account.OwnerAdded("usr_1", 5), account.MemberAdded("usr_1", 6)]
SIGN_INS = [
    sign_in.SignInStarted("0" * 64, "laptop", 5, 905),
    sign_in.SignInAuthorized("usr_1", True, 6),
    sign_in.SignInRedeemed("key_1", 7),
]
PROJECTS = [
    project.ProjectCreated("shop", "usr_1", False, "0" * 64, "service_dsn_01234567", 5),
    project.DsnRotated("1" * 64, "service_dsn_abcdefgh", 6),
    project.ProjectFenced("del_1", 7),
]
CREDENTIALS = [
    credential.CredentialCreated(
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
    credential.CredentialRevoked("leaked", 9),
]


def fold(projection: AnyProjection, events: list[Event]) -> Any:
    row = None
    for revision, event in enumerate(events, 1):
        row = projection.fold(row, Recorded("id_1", revision, event, "scope_1", 1_000, "key:key_1"))
        if row is not None:
            assert (row.project_id, row.id, row.revision) == ("scope_1", "id_1", revision)
    return row


def shown(row: Any) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(row).items() if name not in {"project_id", "id"}}


@pytest.mark.parametrize(
    ("projection", "events", "expected"),
    [
        (
            people.PROJECTION,
            PEOPLE,
            {
                "revision": 3,
                "provider": "email",
                "email": "a@b.d",
                "email_verified": False,
                "name": None,
                "synthetic": False,
                "status": "fenced",
                "created_at": 5,
                "fenced_at": 7,
            },
        ),
        (
            keys.PROJECTION,
            KEYS,
            {
                "revision": 2,
                "key_hash": "0" * 64,
                "key_prefix": "service_sk_abcde",
                "sign_in_id": "dev_1",
                "created_at": 5,
                "revoked_at": 6,
            },
        ),
        (memberships.PROJECTION, MEMBERSHIPS, {"revision": 2, "user_id": "usr_1", "role": "member", "created_at": 5}),
        (
            sign_ins.PROJECTION,
            SIGN_INS,
            {
                "revision": 3,
                "device_code_hash": "0" * 64,
                "client_name": "laptop",
                "status": "redeemed",
                "started_at": 5,
                "expires_at": 905,
                "user_id": "usr_1",
                "is_new": True,
            },
        ),
        (
            projects.PROJECTION,
            PROJECTS,
            {
                "revision": 3,
                "name": "shop",
                "created_by": "usr_1",
                "synthetic": False,
                "status": "fenced",
                "dsn_hash": "1" * 64,
                "dsn_prefix": "service_dsn_abcdefgh",
                "created_at": 5,
                "fenced_at": 7,
            },
        ),
        (
            credentials.PROJECTION,
            CREDENTIALS,
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
        ),
    ],
)
def test_a_row_shows_its_stream(projection: AnyProjection, events: list[Event], expected: dict[str, Any]):
    assert shown(fold(projection, events)) == expected


@pytest.mark.parametrize(
    ("projection", "events"),
    [
        (people.PROJECTION, [*PEOPLE, account.PersonDeleted(8)]),
        (memberships.PROJECTION, [*MEMBERSHIPS, account.MembershipRemoved(8)]),
        (projects.PROJECTION, [*PROJECTS, project.ProjectPurged(8)]),
    ],
)
def test_what_has_ended_has_no_row_and_may_begin_again(projection: AnyProjection, events: list[Event]):
    assert fold(projection, events) is None
    again = fold(projection, [*events, events[0]])
    assert shown(again) == {**shown(fold(projection, events[:1])), "revision": len(events) + 1}


def test_a_later_sign_in_takes_the_row_over():
    row = fold(sign_ins.PROJECTION, [*SIGN_INS, sign_in.SignInStarted("1" * 64, None, 2_000, 2_900)])
    assert (row.status, row.user_id, row.is_new, row.device_code_hash) == ("pending", None, False, "1" * 64)
    assert fold(sign_ins.PROJECTION, [SIGN_INS[0], sign_in.SignInRefused(6)]).status == "denied"


@pytest.mark.parametrize(("now", "active"), [(604, True), (605, False)])
def test_a_credential_is_active_until_it_expires(now: int, active: bool):
    assert fold(credentials.PROJECTION, CREDENTIALS[:1]).active(now) is active
    assert not fold(credentials.PROJECTION, CREDENTIALS).active(now)


@pytest.mark.parametrize(
    "projection",
    [
        people.PROJECTION,
        keys.PROJECTION,
        memberships.PROJECTION,
        sign_ins.PROJECTION,
        projects.PROJECTION,
        credentials.PROJECTION,
    ],
)
def test_a_fold_never_refuses_a_history_that_begins_in_the_middle(projection: AnyProjection):
    """A stream whose first payloads were erased still folds."""
    for events in (PEOPLE, KEYS, MEMBERSHIPS[1:], SIGN_INS, PROJECTS, CREDENTIALS):
        for event in events[1:]:
            assert projection.fold(None, Recorded("id_1", 2, event, "scope_1", 1_000, "key:key_1")) is None
