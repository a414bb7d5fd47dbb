"""Records with keys, and parts of exports: stored once each, in one statement when they are new (G-008, G-142)."""

from __future__ import annotations

import asyncio
import random

import pytest

from service.eventstore.declare import names
from service.eventstore.declare.commands import KeyReused, Outcome
from service.ingest.flushing import Decider
from service.ingest.items import Item, Part
from tests.support.ingest import (
    OTHER,
    PROJECT,
    SESSIONS,
    analytics_item,
    check_books,
    eventually,
    know,
    log_item,
    one,
    running,
    send,
    sender,
)
from tests.support.proxy import Fault, in_order

COUNT = 600


@pytest.fixture
def decided(monkeypatch):
    """How many records the decider was given, once for each time."""
    given: list[int] = []
    carry_out = Decider.carry_out

    async def count(self, items):
        given.append(len(items))
        return await carry_out(self, items)

    monkeypatch.setattr(Decider, "carry_out", count)
    return given


def keyed(message: str, key: str, request_hash: str = "f", project_id: str = PROJECT) -> Item:
    return log_item(message, of=sender(project_id, key=key, request_hash=request_hash))


def part(index: int, *, export: str = "x", count: int = COUNT, message: str = "m") -> Item:
    """A record of an export."""
    item = log_item(message, of=sender(key=export, request_hash=""), tags={"part": f"{export}-{index}"})
    item.part = Part(index, count)
    return item


async def submit(intake, items):
    """Records of one request, whose answers nobody reads."""
    results = await intake.submit_all(items)
    assert all(isinstance(result, Outcome) for result in results), results
    return results


def parts_stored(sql) -> dict[str, int]:
    rows = "select tags->>'part', count(*) from log_events where tags ? 'part' group by 1"
    return dict(sql.execute(rows).fetchall())


async def test_new_keys_are_counted_and_repeats_are_answered_alike(database_url, sql, decided):
    """What is stored as the answer is what was answered, to the byte, with its time of receipt."""
    texts = [f"k{n}" for n in range(20)]
    quoted = 'the "received_at":0, of it'
    async with running(database_url) as intake:
        await know(intake)
        await send(intake, log_item("m", of=sender(OTHER)), analytics_item())
        decided.clear()
        items = [*(keyed("m", text) for text in texts), analytics_item(quoted, of=sender(key="e"))]
        first = await asyncio.gather(*(intake.submit(item) for item in items))
        assert decided == []
        bodies = sql.execute("select key, convert_from(body, 'UTF8') from idempotency").fetchall()
        assert dict(bodies) == dict(zip([*texts, "e"], [one.body.decode() for one in first], strict=True))
        again = [*(keyed("m", text) for text in texts), analytics_item(quoted, of=sender(key="e"))]
        second = await asyncio.gather(*(intake.submit(item) for item in again))
        assert decided == [len(items)]
        assert [(one.body, one.replayed) for one in second] == [(one.body, True) for one in first]
        reused, elsewhere = await send(intake, keyed("m", "k3", "other"), keyed("m", "k3", project_id=OTHER))
        assert isinstance(reused, KeyReused)
        assert elsewhere["project_id"] == OTHER
    assert one(sql, "select count(*) from log_events") == 2 + 1 + len(texts) + 1
    check_books(sql)


async def test_twins_of_one_flush_are_decided(database_url, sql, decided):
    async with running(database_url) as intake:
        await know(intake)
        decided.clear()
        answers = await send(intake, keyed("m", "k"), keyed("m", "k"), keyed("m", "k", "other"), log_item("m"))
        assert decided == [4]
        assert answers[0] == answers[1]
        assert isinstance(answers[2], KeyReused)
    assert one(sql, "select count(*) from log_events") == 2 + 2
    check_books(sql)


async def test_a_key_that_is_held_holds_up_its_own_record_only(database_url, sql, decided):
    """Somebody else decides about the key: the record waits, and what became of it is looked up."""
    async with running(database_url) as intake:
        await know(intake)
        held = keyed("m", "k")
        with sql.transaction():
            sql.execute("select pg_advisory_xact_lock(%s::bigint)", (names.lock_number(held.key_name),))
            waiting = asyncio.create_task(send(intake, held))
            others = await send(intake, log_item("m"), keyed("m", "l"))
            assert all(answer["ok"] for answer in others)
            assert not waiting.done()
        [answer] = await waiting
        assert answer["ok"]
    check_books(sql)


async def test_rivals_in_two_processes_store_each_key_once(database_url, sql, decided):
    """All senders and cases are known to both, so that nothing but the keys has to be decided."""
    async with running(database_url, batch=8) as left, running(database_url, batch=8) as right:
        await know(left)
        await know(right)
        for turn in range(20):
            keys = [f"{turn}-{n}" for n in range(12)]
            answers = await asyncio.gather(
                *(send(side, *(keyed("m", key) for key in random.sample(keys, 12))) for side in (left, right, left))
            )
            assert len({answer["id"] for side in answers for answer in side}) == 12
        assert left.stored + right.stored == 4 + 20 * 12
        assert left.repeated + right.repeated == 20 * 24
    check_books(sql)


async def test_an_export_is_remembered_in_one_row(database_url, sql, decided):
    """It goes in by several flushes; sent again, nothing of it is stored twice."""
    async with running(database_url) as intake:
        await know(intake)
        decided.clear()
        await submit(intake, [part(n) for n in range(COUNT)])
        assert decided == []
        assert intake.flushes > 3
        assert parts_stored(sql) == {f"x-{n}": 1 for n in range(COUNT)}
        rows = sql.execute("select key, fingerprint, status, convert_from(body, 'UTF8') from idempotency").fetchall()
        assert rows == [("x", "", 202, "1" * COUNT)]
        results = await submit(intake, [part(n) for n in range(COUNT)])
        assert all(result.replayed for result in results)
        await submit(intake, [part(n, export="y") for n in range(COUNT)])
    assert set(parts_stored(sql).values()) == {1}
    assert one(sql, "select count(*) from log_events") == 2 + 2 * COUNT
    check_books(sql)


async def test_what_is_missing_of_an_export_is_stored_when_it_comes_again(database_url, sql, decided):
    """Whatever was committed of it, by whichever way, in any order."""
    dice = random.Random(7)
    async with running(database_url, batch=16) as intake:
        first = sorted(dice.sample(range(100), 30))
        await submit(intake, [part(n, count=100) for n in first])  # nothing is known: decided
        assert decided
        bits = "".join("1" if n in first else "0" for n in range(100))
        assert one(sql, "select convert_from(body, 'UTF8') from idempotency") == bits
        fresh = [n for n in range(100) if n not in first]
        decided.clear()
        await submit(intake, [part(n, count=100) for n in fresh[:40]])  # other parts of the same: counted
        assert decided == []
        results = await submit(intake, [part(n, count=100) for n in range(100)])
        assert [result.replayed for result in results] == [n in first or n in fresh[:40] for n in range(100)]
    assert parts_stored(sql) == {f"x-{n}": 1 for n in range(100)}
    assert one(sql, "select convert_from(body, 'UTF8') from idempotency") == "1" * 100
    check_books(sql)


async def test_an_export_sent_many_times_at_once_is_stored_once(database_url, sql):
    """By two processes, whole and in slices, with errors that open cases among its records."""
    dice = random.Random(11)
    async with running(database_url, batch=24) as left, running(database_url, batch=24) as right:
        for turn in range(6):
            whole = [(n, f"kind {'abc'[n % 3]}{turn}") for n in range(120)]
            slices = [whole, whole, whole[40:], sorted(dice.sample(whole, 60)), whole[:70]]
            sides = (left, right, right, left, right)
            await asyncio.gather(
                *(
                    submit(side, [part(n, export=f"e{turn}", count=120, message=text) for n, text in some])
                    for side, some in zip(sides, slices, strict=True)
                )
            )
    assert parts_stored(sql) == {f"e{turn}-{n}": 1 for turn in range(6) for n in range(120)}
    assert one(sql, "select count(*) from idempotency where convert_from(body, 'UTF8') = repeat('1', 120)") == 6
    check_books(sql)


@pytest.mark.parametrize("fault", [Fault.EAT, Fault.ZOMBIE])
async def test_keys_and_parts_survive_a_lost_answer(proxy, sql, fault):
    """Whether the statement was carried out or not, each record is stored once, and a repeat knows it."""
    async with running(proxy.url) as intake:
        await know(intake)
        proxy.choose = in_order(fault)
        first = await asyncio.gather(*(intake.submit(keyed("m", f"k{n}")) for n in range(5)))
        proxy.choose = in_order(fault)
        await submit(intake, [part(n, count=50) for n in range(50)])
        again = await asyncio.gather(*(intake.submit(keyed("m", f"k{n}")) for n in range(5)))
        assert [answer.body for answer in again] == [answer.body for answer in first]
        assert all(result.replayed for result in await submit(intake, [part(n, count=50) for n in range(50)]))
        await eventually(lambda: one(sql, f"select count(*) {SESSIONS} and state <> 'idle'") == 0)
    assert parts_stored(sql) == {f"x-{n}": 1 for n in range(50)}
    assert one(sql, "select count(*) from log_events") == 2 + 5 + 50
    check_books(sql)


async def test_the_release_before_counts_by_its_own_name(database_url, sql):
    """It runs beside this one while hosts are brought forward, and calls what has no keys."""
    counted = (
        "select ingest_count(gates => '{}', flusher_lock => 1, head_projects => '{}', head_streams => '{}', "
        "head_revisions => '{}', senders => '{}', dsn_hashes => '{}', accounts => '{}', flusher => 'flusher_old', "
        "number => 7, new_logs => null, new_analytics => null, new_cases => null, new_users => null, "
        "new_usage => null)"
    )
    assert one(sql, counted) > 0
    assert one(sql, "select batch from ingest_flushers where id = 'flusher_old'") == 7
    sql.execute("update ingest_flushers set given_up = 8")
    assert one(sql, counted.replace("number => 7", "number => 8")) is None
