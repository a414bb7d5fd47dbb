"""Sign-ins are forgotten when their time is over, and neither verify nor rebuild misses them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import psycopg
import pytest

from projections.accounts import INVITATIONS, SIGN_INS
from service import jobs
from service.accounts import membership as admin
from service.accounts import membership as invitations
from service.auth.authority import carry_out
from service.eventstore.store import EventStore
from service.eventstore.write import lane
from service.history.audit import Difference, check_projection
from service.history.rebuild import rebuild
from statemachines.accounts.membership import Role
from statemachines.accounts.sign_in import LIFETIME
from tests.support.accounts_store import make_project, start_sign_in

PASS = "update service_clock set offset_seconds = offset_seconds + %s"
POLL = "insert into sign_in_polls values (%s, %s, 'hash', floor(extract(epoch from service_now())), 5)"


def left(sql: psycopg.Connection[Any], table: str) -> set[str]:
    return {row_id for (row_id,) in sql.execute(f"select id from {table}").fetchall()}


async def poll_and_start(store: EventStore, sql: psycopg.Connection[Any], number: int) -> set[str]:
    """Sign-ins that were started and polled; returns their ids."""
    before = left(sql, "sign_ins")
    for _ in range(number):
        await start_sign_in(store)
    started = left(sql, "sign_ins") - before
    for row_id in started:
        sql.execute(POLL, (row_id, row_id))
    return started


async def test_what_is_over_goes_and_what_lives_stays(
    accounts: EventStore, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batch after batch, until an hour after the code expired; the rows that are gone are no difference."""
    monkeypatch.setattr(lane, "BATCH", 2)
    services = cast("Any", SimpleNamespace(settings=SimpleNamespace(database_url=database_url)))
    with psycopg.connect(database_url, autocommit=True) as sql:
        old = await poll_and_start(accounts, sql, 5)
        sql.execute(PASS, (LIFETIME + 60,))
        young = await poll_and_start(accounts, sql, 3)
        await jobs.forget_sign_ins(services, {})
        assert left(sql, "sign_ins") == left(sql, "sign_in_polls") == old | young, "kept for an hour"
        sql.execute(PASS, (3600,))
        for _ in range(2):
            await jobs.forget_sign_ins(services, {})
            assert left(sql, "sign_ins") == left(sql, "sign_in_polls") == young
        assert list(check_projection(sql, SIGN_INS)) == []
        receipt = await asyncio.to_thread(rebuild, database_url, SIGN_INS)
        assert receipt.old_digest == receipt.new_digest
        assert left(sql, "sign_ins") == young, "a rebuild does not bring them back"
        [gone] = list(young)[:1]
        sql.execute("delete from sign_ins where id = %s", (gone,))
        assert list(check_projection(sql, SIGN_INS)) == [Difference("missing", gone, gone)]


async def test_a_rebuild_leaves_out_what_the_job_has_not_come_to(accounts: EventStore, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as sql:
        await poll_and_start(accounts, sql, 2)
        sql.execute(PASS, (LIFETIME + 3700,))
        young = await poll_and_start(accounts, sql, 1)
        receipt = await asyncio.to_thread(rebuild, database_url, SIGN_INS)
        assert (receipt.rows, receipt.old_digest) == (1, receipt.new_digest)
        assert left(sql, "sign_ins") == young


async def test_invitations_that_are_over_go(accounts: EventStore, database_url: str) -> None:
    """An hour after their time; what is gone is no difference to the history, and can be made again."""
    services = cast("Any", SimpleNamespace(settings=SimpleNamespace(database_url=database_url)))
    ann = await admin.create_key(accounts, admin.email_identity("ann@example.com"))
    project_id = await make_project(accounts, ann.user_id)

    async def invite() -> None:
        intent = await invitations.invite(accounts, project_id, "b@example.com", Role.MEMBER, invited_by=ann.user_id)
        await carry_out(accounts, "operator", "invite", intent, project=project_id)

    with psycopg.connect(database_url, autocommit=True) as sql:
        await invite()
        sql.execute(PASS, (7 * 86400,))
        await jobs.forget_sign_ins(services, {})
        assert len(left(sql, "invitations")) == 1
        sql.execute(PASS, (3601,))
        await jobs.forget_sign_ins(services, {})
        assert left(sql, "invitations") == set()
        assert list(check_projection(sql, INVITATIONS)) == []
        await invite()
        assert len(left(sql, "invitations")) == 1
        assert list(check_projection(sql, INVITATIONS)) == []
