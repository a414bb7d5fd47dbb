"""A restore does not undo an erasure: what the ledger names is erased again before the service is ready."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from projections.deletion import DeletionRow
from service.accounts import membership
from service.auth.authority import carry_out
from service.deletion import removal
from service.deletion.advancing import Advancer, to_erase_again
from service.deletion.ledger import Erasure, erasures, remember
from service.eventstore.store import EventStore
from service.ids import new_id
from service.registry import registry
from statemachines.deletion.removal import AskForDeletion
from tests.support.accounts_store import make_project
from tests.support.cluster import TestCluster
from tests.support.ending import holding, left_of, problems
from tests.support.ingest import Sql
from tests.support.server import ServerHandle


@pytest.fixture
def backup(cluster: TestCluster, tmp_path: Path) -> Iterator[ServerHandle]:
    """A server that would serve from a copy of the database, with a ledger of its own; not started."""
    with cluster.database("template0") as url:
        handle = ServerHandle(tmp_path, database_url=url, env={"SERVICE_ERASURE_LEDGER": str(tmp_path / "ledger")})
        yield handle
        handle.stop()


async def fenced(store: EventStore, kind: Any, scope: str, owner: str) -> DeletionRow:
    wish = AskForDeletion(kind, scope, owner, "k" * 64)
    if kind == "account":
        fence = removal.fence_account(wish, new_id("del"), await removal.owned_by(store, scope))
    else:
        fence = removal.fence_project(wish, new_id("del"))
    return await carry_out(store, "test", "delete", fence)


async def to_its_end(store: EventStore, ledger: Path, row: DeletionRow) -> DeletionRow:
    advancer = Advancer(store, ledger)
    while row.phase != "deleted":
        row = await advancer.advance(row, 5)
    return row


async def deleted(store: EventStore, ledger: Path, kind: Any, scope: str, owner: str) -> DeletionRow:
    return await to_its_end(store, ledger, await fenced(store, kind, scope, owner))


async def test_a_backup_does_not_bring_back_what_was_erased(
    database_url: str, backup: ServerHandle, cluster: TestCluster
):
    """Backup, erase, restore, start: projects and person are erased again, and nobody else is touched.

    One of the projects was behind its fence already when the backup was made.
    """
    ledger = Path(backup.env["SERVICE_ERASURE_LEDGER"])
    store = EventStore(database_url, registry())
    await store.start()
    key = await membership.create_key(store, membership.email_identity("gone-canary@example.com"))
    kept = await membership.create_key(store, membership.email_identity("kept-canary@example.com"))
    project, other = await make_project(store, key.user_id), await make_project(store, kept.user_id)
    gone, waiting = await make_project(store, kept.user_id), await make_project(store, kept.user_id)
    row = await fenced(store, "project", waiting, kept.user_id)
    await store.stop()
    assert backup.database_url is not None
    copy(cluster, database_url, backup.database_url)
    before = left_of(database_url, other)

    store = EventStore(database_url, registry())
    await store.start()
    await deleted(store, ledger, "project", gone, kept.user_id)
    await deleted(store, ledger, "project", project, key.user_id)
    await deleted(store, ledger, "account", key.user_id, key.user_id)
    await to_its_end(store, ledger, row)
    await store.stop()
    remember(ledger, Erasure("proj_of_another_installation", "del_elsewhere", 5))
    assert [erasure.scope_id for erasure in erasures(ledger)][:3] == [gone, project, key.user_id]
    assert to_erase_again(database_url, ledger) == []

    assert holding(backup.database_url, "gone-canary")
    assert {scope for scope, *_ in to_erase_again(backup.database_url, ledger)} == {gone, project, key.user_id, waiting}
    backup.start()
    assert holding(backup.database_url, "gone-canary") == {}
    assert [left_of(backup.database_url, scope) for scope in (project, gone, waiting)] == [{}] * 3
    assert left_of(backup.database_url, other) == before
    assert holding(backup.database_url, "kept-canary").keys() == {"kept-canary"}
    assert "erased again before the service is ready" in backup.log()
    assert problems(backup.database_url) == []
    assert to_erase_again(backup.database_url, ledger) == []


async def test_somebody_who_has_signed_in_again_is_not_erased(database_url: str, tmp_path: Path):
    """The ledger names the account of before: the one of now came after its time."""
    ledger = tmp_path / "ledger"
    store = EventStore(database_url, registry())
    await store.start()
    identity = membership.email_identity("again@example.com")
    key = await membership.create_key(store, identity)
    remember(ledger, Erasure(key.user_id, "del_of_before", 1))
    assert to_erase_again(database_url, ledger) == []
    await store.stop()


async def test_an_erasure_that_this_database_has_carried_out_stays_known(database_url: str, tmp_path: Path, sql: Sql):
    """By the history of its deletion, when the receipt is gone: whoever signed in again since is left alone."""
    ledger = tmp_path / "ledger"
    store = EventStore(database_url, registry())
    await store.start()
    identity = membership.email_identity("back@example.com")
    key = await membership.create_key(store, identity)
    row = await deleted(store, ledger, "account", key.user_id, key.user_id)
    again = await membership.create_key(store, identity)
    await store.stop()
    assert again.user_id == key.user_id
    [[now]] = sql.execute("select floor(extract(epoch from service_now()))::bigint").fetchall()
    ledger.unlink()
    remember(ledger, Erasure(key.user_id, row.id, now))
    for _ in range(2):
        assert to_erase_again(database_url, ledger) == []
        sql.execute("delete from deletions where id = %s", (row.id,))
    remember(ledger, Erasure(key.user_id, "del_unknown", now))
    assert [erasure.deletion_id for erasure in to_erase_again(database_url, ledger)] == ["del_unknown"]


def copy(cluster: TestCluster, source: str, target: str) -> None:
    """Replace a database by a copy of another one."""
    names = [url.rpartition("?")[0].rpartition("/")[2] for url in (source, target)]
    with psycopg.connect(cluster.attachment.layout.admin_url, autocommit=True) as admin:
        admin.execute(f'drop database "{names[1]}" with (force)'.encode())
        owner = admin.execute("select pg_get_userbyid(datdba) from pg_database where datname = %s", (names[0],))
        [[role]] = owner.fetchall()
        admin.execute(f'create database "{names[1]}" owner "{role}" template "{names[0]}"'.encode())
