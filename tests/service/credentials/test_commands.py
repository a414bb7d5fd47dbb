"""The commands of credentials, past every door: one credential a wish, one secret, the first end counts (R-CRED)."""

from __future__ import annotations

import asyncio

import pytest

from service.accounts import membership
from service.auth.authority import carry_out
from service.auth.secrets import SecretKind, digest, kind_of
from service.credentials import credential as credentials
from service.credentials.credential import NewCredential, credential_replay, credentials_of
from service.eventstore.read.reader import END
from service.eventstore.store import EventStore
from statemachines.credentials.credential import (
    CI,
    RUNNER,
    CredentialAlreadyCreated,
    CredentialKeyReused,
    CredentialNotFound,
    CredentialWish,
)
from tests.support.accounts_store import make_project

CI_WISH = CredentialWish(CI, "release", None, 300)
RUNNER_WISH = CredentialWish(RUNNER, "nightly", "error-to-draft-pr", 300)


async def project_of_ann(store: EventStore) -> str:
    ann = await membership.create_key(store, membership.email_identity("ann@example.com"))
    return await make_project(store, ann.user_id)


async def create(
    store: EventStore, project_id: str, credential_id: str, wish: CredentialWish, request: str = "r"
) -> NewCredential:
    intent = credentials.create(project_id, credential_id, wish, created_by="usr_ann", request=request)
    return await carry_out(store, "test", "create", intent, project=project_id)


async def test_rivals_for_one_wish_make_one_credential(accounts: EventStore) -> None:
    """The others are told which one it is; under the same id another wish is refused."""
    project_id = await project_of_ann(accounts)
    answers = await asyncio.gather(
        *(create(accounts, project_id, "cred_1", CI_WISH) for _ in range(8)), return_exceptions=True
    )
    [made] = [answer for answer in answers if isinstance(answer, NewCredential)]
    told = [answer.details for answer in answers if isinstance(answer, CredentialAlreadyCreated)]
    shown = credential_replay(made.standing)
    assert len(told) == 7
    assert all(details["credential"]["prefix"] == shown.prefix for details in told)
    assert all(made.secret not in str(details) for details in told)
    assert [standing.row for standing in await credentials_of(accounts, project_id, END, 10)] == [made.standing.row]
    with pytest.raises(CredentialKeyReused):
        await create(accounts, project_id, "cred_1", CI_WISH, "another")


async def test_a_secret_is_of_the_kind_that_was_wished_for(accounts: EventStore) -> None:
    """Only its hash is kept; a runner's has an id of the runner."""
    project_id = await project_of_ann(accounts)
    ci = await create(accounts, project_id, "cred_ci", CI_WISH)
    runner = await create(accounts, project_id, "cred_runner", RUNNER_WISH)
    assert [kind_of(made.secret) for made in (ci, runner)] == [SecretKind.CI, SecretKind.RUNNER]
    for made in (ci, runner):
        assert made.standing.row.secret_hash == digest(made.secret)
        assert made.standing.row.expires_at == made.standing.now + 300
    assert ci.standing.row.runner_id is None
    assert str(runner.standing.row.runner_id).startswith("runner_")


async def test_the_first_end_counts_and_is_a_fence(accounts: EventStore) -> None:
    """A repeat shows it unchanged, whatever reason it gives."""
    project_id = await project_of_ann(accounts)
    await create(accounts, project_id, "cred_1", CI_WISH)
    ended = []
    for reason in ("leaked", "tidying up"):
        intent = credentials.revoke(project_id, "cred_1", reason)
        assert intent.fence is True
        ended.append(await carry_out(accounts, "test", "revoke", intent, project=project_id))
    assert ended[0].row == ended[1].row
    assert ended[0].row.revoke_reason == "leaked"
    assert not ended[0].row.active(ended[0].now)
    gone = credentials.revoke(project_id, "cred_none", None)
    with pytest.raises(CredentialNotFound):
        await carry_out(accounts, "test", "revoke", gone, project=project_id)
