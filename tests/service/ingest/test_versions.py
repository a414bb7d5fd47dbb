"""Versions of the grouping beside each other: an old case keeps its errors, and a new one is counted fast (G-174)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from service.auth.authority import carry_out
from service.cases import suppression as rules
from service.eventstore.store import EventStore
from service.ingest import items, locking
from service.ingest.flushing import Decider, parameters
from service.ingest.foreign.common import to_log
from service.ingest.foreign.otlp import OtlpRecord, Scope, to_event
from service.ingest.grouping.fingerprint import GROUPINGS, group
from service.ingest.items import Item
from service.ingest.tally import Tally
from statemachines.cases import case
from statemachines.cases.suppression import Action
from tests.support.cluster import TestCluster
from tests.support.ingest import PROJECT, check_books, holding_head, log_item, one, prepared, running, send, sender

Sql = psycopg.Connection[Any]
FRAME = {"file": "shop/pay.py", "function": "charge", "in_app": True}


PYTHON = """Traceback (most recent call last):
  File "/srv/shop/pay.py", line 7, in charge
    return cards[name]
KeyError: 'card'
"""
GO = """goroutine 1 [running]:
main.charge(0x1)
\t/srv/shop/pay.go:12 +0x1d
main.main()
\t/srv/shop/main.go:5 +0x2a
"""


def exported(attributes: dict[str, Any]) -> Item:
    """An error as OpenTelemetry exports it."""
    log = to_log(to_event(OtlpRecord(0, 0, 17, "ERROR", None, attributes), Scope({})))
    return Item("export", sender(), log.body, log.raw, first=log.first)


def error(message: str, *client: str) -> Item:
    """An error of one type and frame: to version 2 the message makes no difference."""
    item = log_item(message, extra={"exception": {"type": "PayError", "frames": [FRAME]}})
    item.client = client
    return item


@pytest.fixture
def older(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """A block in which errors are prepared as by the release before version 2."""

    @contextmanager
    def release() -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(items, "group", lambda evidence: group(evidence, {1: GROUPINGS[1]}))
            yield

    return release


@pytest.fixture
def decided(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records the decider was given, each time."""
    given: list[int] = []
    carry_out = Decider.carry_out

    async def count(self: Decider, items: Any) -> Any:
        given.append(len(items))
        return await carry_out(self, items)

    monkeypatch.setattr(Decider, "carry_out", count)
    return given


async def test_a_repeat_of_a_new_case_is_only_counted(database_url: str, sql: Sql, decided: list[int]) -> None:
    """Also with a message that version 1 never met: that it has no case is looked up, and nothing is locked for it."""
    async with running(database_url) as intake:
        [first] = await send(intake, error("card refused"))
        del decided[:]
        for message in ("timeout", "no answer", "card refused"):
            [again] = await send(intake, error(message))
            assert again["case_id"] == first["case_id"]
    assert decided == []
    assert one(sql, "select event_count from case_stats") == 4
    check_books(sql)


def test_that_an_old_case_is_absent_is_looked_up_by_index(database_url: str, sql: Sql, cluster: TestCluster) -> None:
    """A probe for each in the counting statement, and no look at other cases; one that exists is not counted past."""
    sql.execute(
        "insert into stream_heads (project_id, stream_id, kind, revision, chain) "
        "select %s, 'case_' || n, 'case', 1, '' from generate_series(1, 50000) n",
        (PROJECT,),
    )
    sql.execute("vacuum analyze stream_heads")
    heads = [(PROJECT, "case_7", 1), *((PROJECT, f"none_{n}", 0) for n in range(100))]
    values = parameters("flusher_1", "flush:flusher_1", 1, SimpleNamespace(gates=(), names=()), heads, {}, Tally())
    with psycopg.connect(cluster.admin_url(database_url), autocommit=True) as admin:
        admin.execute("load 'auto_explain'")
        for name in ("log_nested_statements", "log_analyze"):
            admin.execute("select set_config(%s, 'on', false)", (f"auto_explain.{name}",))
        admin.execute("set auto_explain.log_min_duration = 0; set client_min_messages = 'log'")
        plans: list[str] = []
        admin.add_notice_handler(lambda notice: plans.append(str(notice.message_primary)))
        for _ in range(8):  # from the sixth on the plan may be one for any values
            [[stored]] = admin.execute(locking.FLUSH, values).fetchall()
            assert stored is not None
    told = [plan for plan in plans if "known.revision = 0" in plan]
    assert len(told) == 8
    for plan in told:
        assert "using stream_heads_pkey on stream_heads" in plan
        assert "Seq Scan on stream_heads" not in plan
    sql.execute("insert into stream_heads values (%s, 'none_99', 'case', 1, '')", (PROJECT,))
    assert sql.execute(locking.FLUSH, values).fetchone() == (None,)


async def test_an_old_case_takes_its_errors_whatever_is_known(
    database_url: str, sql: Sql, decided: list[int], older: Callable[[], Any]
) -> None:
    """Also when the new case is known and the old one is not, and over a client's fingerprint; then it is counted."""
    with older():
        async with running(database_url) as intake:
            [old] = await send(intake, error("card refused"))
    async with running(database_url) as intake:
        [new] = await send(intake, error("timeout"))
        assert new["case_id"] != old["case_id"]
        for client in ((), ("payments",)):
            [kept] = await send(intake, error("card refused", *client))
            assert (kept["case_id"], kept["fingerprint"]) == (old["case_id"], old["fingerprint"])
        del decided[:]
        kept, other = await send(intake, error("card refused"), error("no answer"))
        assert (kept["case_id"], other["case_id"]) == (old["case_id"], new["case_id"])
    assert decided == []
    check_books(sql)


async def test_an_old_case_takes_the_errors_of_a_door_that_reads_more_now(
    database_url: str, sql: Sql, older: Callable[[], Any]
) -> None:
    """OpenTelemetry's errors: the quotes of a KeyError come from the trace by now, and a trace of Go has calls."""
    go = {"exception.type": "PayError", "exception.message": "card refused", "exception.stacktrace": GO}
    python = {"exception.type": "builtins.KeyError", "exception.message": "card", "exception.stacktrace": PYTHON}
    frame = {"file": "pay.py", "function": "charge", "in_app": True}
    with older():
        async with running(database_url) as intake:
            exceptions = [{"type": "KeyError", "frames": [frame]}, {"type": "PayError"}]
            was = [
                log_item("card", extra={"exception": exceptions[0]}),
                log_item("card refused", extra={"exception": exceptions[1]}),
            ]
            old = await send(intake, *was)
    async with running(database_url) as intake:
        kept = await send(intake, exported(python), exported(go))
        new = await send(intake, exported(go | {"exception.message": "no answer"}))
    assert [answer["case_id"] for answer in kept] == [answer["case_id"] for answer in old]
    assert one(sql, "select grouped_by from log_events where id = %s", new[0]["id"]) == "v3:type+frames"
    [shown] = sql.execute("select message from log_events where id = %s", (kept[0]["id"],)).fetchall()
    assert shown == ("'card'",)
    check_books(sql)


async def test_an_old_case_that_is_held_is_waited_for(database_url: str, sql: Sql, older: Callable[[], Any]) -> None:
    """A lock on it does not make it look absent."""
    with older():
        async with running(database_url) as intake:
            [old] = await send(intake, error("card refused"))
    async with running(database_url) as intake:
        await send(intake, error("timeout"))
        with holding_head(database_url, old["case_id"]):
            waiting = asyncio.create_task(send(intake, error("card refused")))
            [other] = await send(intake, error("no answer"))
            assert other["case_id"] != old["case_id"]
            assert not waiting.done()
        [kept] = await waiting
        assert kept["case_id"] == old["case_id"]
    check_books(sql)


async def test_releases_beside_each_other_tear_nothing_apart(
    database_url: str, sql: Sql, older: Callable[[], Any]
) -> None:
    """Two processes, one of the release before: whatever order their first errors have, later ones stay together."""
    async with running(database_url) as intake, running(database_url) as before:
        for number in range(20):
            message = f"failed {'x' * number}"
            with older():
                old = prepared(error(message))
            new = prepared(error(message))
            answers = await asyncio.gather(send(intake, new), send(before, old))
            assert all(answer["ok"] for [answer] in answers)
            [[last]] = [await send(intake, error(message))]
            with older():
                [[other]] = [await send(before, error(message))]
            assert last["case_id"] == other["case_id"]
    check_books(sql)


async def test_a_rule_matches_a_new_case_by_any_fingerprint(database_url: str, sql: Sql, store: EventStore) -> None:
    """By that of version 1 too, when the case opens and whenever it would regress."""
    first, *_, newest = (assignment.grouping.fingerprint for assignment in prepared(error("card refused")).offered)
    wish = rules.SuppressionWish(first[:12] + "*", Action.AUTO_RESOLVE, None, None)
    await carry_out(store, "test", "test", rules.create(PROJECT, wish), project=PROJECT)
    async with running(database_url) as intake:
        for _ in range(3):
            [answer] = await send(intake, error("card refused"))
            assert answer["fingerprint"] == newest
        assert intake.suppressed == 3
    assert sql.execute("select status, case_revision from cases").fetchall() == [("resolved", 1)]
    check_books(sql)


async def test_a_client_s_fingerprint_splits_and_joins(database_url: str, sql: Sql) -> None:
    async with running(database_url) as intake:
        one_way, other_way, plain = await send(
            intake, error("m", "a", "{{ default }}"), error("m", "b", "{{ default }}"), error("m")
        )
        joined = await send(intake, error("m", "c"), log_item("elsewhere"), prepared(_with_client(log_item("x"), "c")))
    assert len({answer["case_id"] for answer in (one_way, other_way, plain)}) == 3
    assert joined[0]["case_id"] == joined[2]["case_id"] == case.case_id(PROJECT, joined[0]["fingerprint"])
    assert one(sql, "select grouped_by from log_events where id = %s", joined[0]["id"]) == "v3:client"
    check_books(sql)


def _with_client(item: Item, *client: str) -> Item:
    item.client = client
    return item
