"""Projects and their DSN, past every door: what is made, kept and opened again (R-PROJ-03 to R-PROJ-06)."""

from __future__ import annotations

import os

import pytest

from service.accounts import membership
from service.auth.authority import carry_out
from service.auth.secrets import alias_of, digest, make_dsn
from service.eventstore.read.reader import END, PageEnd
from service.eventstore.store import EventStore
from service.projects import project as dsn_commands
from service.projects import project as project_commands
from service.projects.project import CheckedDsn, IssuedDsn, dsn_of, projects_of
from statemachines.accounts.person import synthetic_identity
from statemachines.projects.project import ProjectNotFound
from tests.support.accounts_store import make_project

KEY, OTHER_KEY = os.urandom(32), os.urandom(32)
ANN = membership.email_identity("ann@example.com")


async def create(store: EventStore, user_id: str, key: bytes | None = KEY) -> IssuedDsn:
    return await carry_out(store, "test", "create", project_commands.create(user_id, "shop", key))


async def verify(store: EventStore, project_id: str, dsn: str, key: bytes | None = KEY) -> CheckedDsn:
    return await carry_out(store, "test", "verify", dsn_commands.verify(project_id, dsn, key), project=project_id)


async def test_a_new_project_belongs_to_its_person(accounts: EventStore) -> None:
    """With an owner, a DSN that can be read again, and the mark of a test run where its person has it."""
    ann = (await membership.create_key(accounts, ANN)).user_id
    robot = (await membership.create_key(accounts, synthetic_identity("run-1"))).user_id
    made, plain = await create(accounts, ann), await create(accounts, ann, None)
    await create(accounts, robot)
    assert (made.recoverable, plain.recoverable) == (True, False)
    listed = await projects_of(accounts, ann, END, 10)
    assert {(p.id, p.name, p.role, p.dsn_prefix, p.copied) for p in listed} == {
        (made.project_id, "shop", "owner", made.prefix, True),
        (plain.project_id, "shop", "owner", plain.prefix, False),
    }
    first = await projects_of(accounts, ann, END, 1)
    assert [*first, *await projects_of(accounts, ann, PageEnd(first[0].created_at, first[0].id), 1)] == listed
    rows = await accounts.fetch("select created_by, synthetic, dsn_hash = %s from projects", digest(made.key))
    assert sorted(rows) == sorted([(ann, False, True), (ann, False, False), (robot, True, False)])


async def test_a_copy_opens_under_the_key_that_sealed_it(accounts: EventStore) -> None:
    """Verifying the right DSN seals it anew; a wrong one, and one without a key, leaves what is there."""
    made = await create(accounts, (await membership.create_key(accounts, ANN)).user_id)
    project_id = made.project_id
    assert (await dsn_of(accounts, project_id, KEY))[:2] == (made.prefix, made.key)
    for key in (OTHER_KEY, None):
        assert (await dsn_of(accounts, project_id, key))[:2] == (made.prefix, None)
    wrong = await verify(accounts, project_id, made.key[:-1] + "x", OTHER_KEY)
    foreign = await verify(accounts, project_id, make_dsn("https://s.example", made.key, "proj_another"), OTHER_KEY)
    keyless = await verify(accounts, project_id, made.key, None)
    assert [(c.matches, c.sent_project_id, c.copied) for c in (wrong, foreign, keyless)] == [
        (False, None, False),
        (False, str(alias_of("proj_another")), False),
        (True, None, False),
    ]
    assert (await dsn_of(accounts, project_id, KEY))[:2] == (made.prefix, made.key)
    for dsn in (f"https://{made.key}@s.example/{project_id}", make_dsn("https://s.example", made.key, project_id)):
        again = await verify(accounts, project_id, dsn, OTHER_KEY)
        assert again == CheckedDsn(project_id, True, made.prefix, project_id, True)
    of_id = await verify(accounts, project_id, f"https://{made.key}@s.example/proj_another", OTHER_KEY)
    assert (of_id.matches, of_id.sent_project_id) == (False, "proj_another")
    assert (await dsn_of(accounts, project_id, OTHER_KEY)).key == made.key


async def test_a_rotation_replaces_dsn_and_copy_as_a_fence(accounts: EventStore) -> None:
    """The copy of the DSN before opens nothing any more, also when the new one cannot be kept."""
    made = await create(accounts, (await membership.create_key(accounts, ANN)).user_id)
    project_id, before = made.project_id, made
    for key in (KEY, None):
        intent = dsn_commands.rotate(project_id, key)
        assert intent.fence is True
        rotated = await carry_out(accounts, "test", "rotate", intent, project=project_id)
        assert (rotated.project_id, rotated.name, rotated.recoverable) == (project_id, "shop", key is not None)
        assert (await dsn_of(accounts, project_id, KEY))[:2] == (rotated.prefix, key and rotated.key)
        assert not (await verify(accounts, project_id, before.key, None)).matches
        assert (await verify(accounts, project_id, rotated.key, None)).matches
        before = rotated


async def test_there_is_no_dsn_of_no_project(accounts: EventStore) -> None:
    """Nor a copy of one that was never sealed."""
    project_id = await make_project(accounts, (await membership.create_key(accounts, ANN)).user_id)
    assert (await dsn_of(accounts, project_id, KEY)).key is None
    with pytest.raises(ProjectNotFound):
        await dsn_of(accounts, "proj_nothing", KEY)
