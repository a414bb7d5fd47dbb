"""Where intake takes errors of merged cases, and which errors bring a resolved case back (G-144, G-145)."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from service.auth.authority import carry_out
from service.cases import acting as commands
from service.cases import suppression as suppressing
from service.cases.acting import AgentRunReport
from service.cases.suppression import SuppressionWish
from service.eventstore.connect.connection import connect
from service.eventstore.declare.commands import Intent
from service.eventstore.log.sequencer import sequence_all
from service.history.rebuild import rebuild
from service.ingest.outcomes import NO_CLOCK, SdkClock
from service.registry import read_models
from service.sql import load_query
from statemachines.cases import case
from statemachines.cases.agent_run import Outcome
from statemachines.cases.case import Merge
from statemachines.cases.suppression import Action
from statemachines.deploys import PARTS, parts
from tests.service.ingest.test_partitions import advance
from tests.support.ingest import OTHER, PROJECT, Sql, log_item, one, running, send, sender


async def do(store: Any, intent: Intent[Any], project: str = PROJECT) -> Any:
    return await carry_out(store, "test", "test", intent, project=project)


async def merge(store: Any, sql: Sql, case_id: str, into: str) -> None:
    await do(store, await commands.merge(store, PROJECT, Merge(case_id, into), revision_of(sql, case_id)))


async def split(store: Any, sql: Sql, case_id: str, fingerprint: str) -> None:
    await do(store, await commands.split(store, PROJECT, case_id, revision_of(sql, case_id), fingerprint))


def revision_of(sql: Sql, case_id: str) -> int:
    found: int = one(sql, "select case_revision from cases where id = %s", case_id)
    return found


def counted(sql: Sql) -> int:
    """Errors in the counters, which are those in the log, each in the case it names."""
    total: int = one(sql, "select sum(event_count) from case_stats")
    assert one(sql, "select count(*) from log_events where case_id is not null") == total
    assert sql.execute(
        "select s.id from case_stats s where s.event_count <> "
        "(select count(*) from log_events e where e.case_id = s.id)"
    ).fetchall() == []  # fmt: skip
    return total


@pytest.fixture
async def pair(database_url, sql):
    """An intake that knows two cases, and their answers."""
    async with running(database_url) as intake:
        for _ in range(2):
            a, b = await send(intake, log_item("alpha"), log_item("beta"))
        yield intake, a, b


async def test_memory_and_sql_path_follow_a_merge_and_a_split(pair, store, sql, database_url):
    """In the process that knew both cases, in a second one, and in one that starts later."""
    intake, a, b = pair
    async with running(database_url) as second:
        await send(second, log_item("alpha"))
        await merge(store, sql, a["case_id"], b["case_id"])
        for turn in range(3):  # decided, then counted in one statement
            answers = [*await send(intake, log_item("alpha")), *await send(second, log_item("alpha"))]
            assert [answer["case_id"] for answer in answers] == [b["case_id"]] * 2, turn
            assert answers[0]["fingerprint"] == a["fingerprint"]
        async with running(database_url) as later:
            for _ in range(2):
                assert (await send(later, log_item("alpha")))[0]["case_id"] == b["case_id"]
        await split(store, sql, b["case_id"], a["fingerprint"])
        for _ in range(2):
            answers = [*await send(intake, log_item("alpha")), *await send(second, log_item("alpha"))]
            assert [answer["case_id"] for answer in answers] == [a["case_id"]] * 2
    assert counted(sql) == 4 + 1 + 6 + 2 + 4
    assert one(sql, "select count(*) from cases") == 2


async def test_a_merged_error_brings_its_resolved_case_back(pair, store, sql):
    intake, a, b = pair
    await merge(store, sql, a["case_id"], b["case_id"])
    await do(store, commands.resolve(PROJECT, b["case_id"], 1))
    [answer] = await send(intake, log_item("alpha"))
    assert answer["case_id"] == b["case_id"]
    assert one(sql, "select status from cases where id = %s", b["case_id"]) == "open"
    assert one(sql, "select status from cases where id = %s", a["case_id"]) == "merged"


async def test_merges_and_splits_race_a_flood(database_url, store, sql):
    """Two processes take in a flood while cases are merged and split off: each error counts once, no twin opens."""
    async with running(database_url, batch=17) as left, running(database_url, batch=9) as right:
        a, b, c = await send(left, log_item("alpha"), log_item("beta"), log_item("gamma"))
        ids = {answer["case_id"] for answer in (a, b, c)}
        stop, answers = asyncio.Event(), []

        async def flood(intake: Any) -> None:
            while not stop.is_set():
                items = [log_item(text, user={"id": text}) for text in ("alpha", "beta", "gamma")]
                answers.extend(await send(intake, *items))

        floods = [asyncio.create_task(flood(intake)) for intake in (left, right, left, right)]
        led = "select count(*) from log_events where fingerprint = %s and case_id = %s"
        give_up = time.monotonic() + 10
        turns = 0
        # On a busy machine a merge may be over before an error comes.
        while turns < 4 or (not one(sql, led, a["fingerprint"], c["case_id"]) and time.monotonic() < give_up):
            turns += 1
            await merge(store, sql, a["case_id"], b["case_id"])
            await merge(store, sql, b["case_id"], c["case_id"])
            await asyncio.sleep(0.02)
            await split(store, sql, c["case_id"], a["fingerprint"])
            await split(store, sql, c["case_id"], b["fingerprint"])
            await asyncio.sleep(0.02)
        stop.set()
        await asyncio.gather(*floods)
        assert all(isinstance(answer, dict) for answer in answers)
        assert {answer["case_id"] for answer in answers} <= ids
        assert counted(sql) == len(answers) + 3
        last = await send(left, log_item("alpha"), log_item("beta"), log_item("gamma"))
        assert [answer["case_id"] for answer in last] == [answer["case_id"] for answer in (a, b, c)]
    assert one(sql, "select count(*) from cases") == 3
    assert one(sql, "select count(*) from events where topic = 'case.opened.v1'") == 3
    assert len({answer["id"] for answer in answers}) == len(answers)
    # Nothing went into a case that was not its own by the history of the merges.
    strays = one(
        sql,
        "select count(*) from log_events where fingerprint = %s and case_id <> %s",
        c["fingerprint"], c["case_id"],
    )  # fmt: skip
    assert strays == 0
    assert one(sql, "select count(*) from log_events where fingerprint = %s and case_id = %s",
               a["fingerprint"], c["case_id"]) > 0  # fmt: skip


def deploy(sql: Sql, version: str, at: int, environment: str = "production", project: str = PROJECT) -> None:
    sql.execute(
        "insert into deploys (project_id, id, revision, version, environment, source, trusted, recorded_at) "
        "values (%s, %s, 1, %s, %s, 'ci', true, %s)",
        (project, f"dep_{environment}_{at}", version, environment, at),
    )


async def errors_reopen(intake: Any, store: Any, sql: Sql, case_id: str, *expected: tuple[Any, str, bool]) -> None:
    """Send errors of releases in environments: each reopens the resolved case or leaves it, as expected."""
    for release, environment, reopens in expected:
        sent = {"environment": environment} | ({} if release is None else {"release": release})
        for _ in range(2):  # also once it is known
            [answer] = await send(intake, log_item("boom", **sent))
            assert answer["case_id"] == case_id
        status, revision = sql.execute("select status, case_revision from cases").fetchone() or ("", 0)
        assert status == ("open" if reopens else "resolved"), (release, environment)
        if reopens:
            await do(store, commands.resolve(PROJECT, case_id, revision))


async def test_only_a_release_that_is_not_older_than_the_repair_reopens_a_case(database_url, store, sql):
    """Older by the order of deploys or by that of versions; the repair is what was current in the error's place."""
    async with running(database_url) as intake:
        [first] = await send(intake, log_item("boom", release="9.0"))
        now = int(first["received_at"])
        deploy(sql, "9.0", now - 400)
        deploy(sql, "11.0", now - 300)  # rolled back by the next one
        deploy(sql, "10.0", now - 200)
        deploy(sql, "9.0", now - 100, environment="staging")
        deploy(sql, "12.0", now - 50, project=OTHER)
        await do(store, commands.resolve(PROJECT, first["case_id"], 1))
        await errors_reopen(
            intake, store, sql, first["case_id"],
            ("9.0", "production", False),  # by both
            ("11.0", "production", False),  # by the order of deploys
            ("0.1", "production", False),  # by version: no deploy names it
            ("shop@9.0+7", "production", False),
            ("10.0", "production", True),  # the one that was current
            ("shop@10.0+7", "production", True),
            ("10.1", "production", True),  # later by version
            ("2026.11.1", "production", True),  # of another kind, and no deploy names it
            ("9.0", "staging", True),  # the one that was current there
            (None, "production", True),
            ("0.1", "elsewhere", True),  # no deploys there
        )  # fmt: skip
        # The old release is deployed again: it is the older version still.
        deploy(sql, "9.0", now + 1000)
        await errors_reopen(intake, store, sql, first["case_id"], ("9.0", "production", False))
    assert counted(sql) == 1 + 12 * 2


async def test_a_hotfix_of_an_older_line_reopens_nothing(database_url, store, sql):
    """Also where the releases are told in other forms than the deploys; without an order of versions deploys say it."""
    async with running(database_url) as intake:
        [first] = await send(intake, log_item("boom", release="shop@10.18.6"))
        now = int(first["received_at"])
        for place, version in enumerate(("10.18.6", "v10.24.0+5", "c0ffee01"), start=-3):
            deploy(sql, version, now + 100 * place)
        deploy(sql, "c0ffee01", now - 250, environment="staging")
        deploy(sql, "v10.24.0+5", now - 150, environment="staging")
        await do(store, commands.resolve(PROJECT, first["case_id"], 1))
        deploy(sql, "10.18.7", now + 100, environment="staging")
        deploy(sql, "c0ffee01", now + 200, environment="staging")
        await errors_reopen(
            intake, store, sql, first["case_id"],
            ("shop@10.18.7", "staging", False),
            ("10.24.0-rc.1", "staging", False),
            ("shop@c0ffee01", "staging", True),  # deployed again since
            ("shop@10.24.0", "staging", True),
            ("10.18.6+3", "production", False),  # replaced, by a name without order
            ("c0ffee02", "production", True),
        )  # fmt: skip


async def test_packages_of_a_project_are_repaired_by_their_own_deploys(database_url, store, sql):
    """What is deployed of another package in between neither repairs nor replaces a release."""
    async with running(database_url) as intake:
        [first] = await send(intake, log_item("boom", release="@s/admin@1.3"))
        now = int(first["received_at"])
        deploy(sql, "@s/admin@1.2", now - 300)
        deploy(sql, "@s/admin@1.3", now - 200)
        deploy(sql, "shop@5.0", now - 100)
        await do(store, commands.resolve(PROJECT, first["case_id"], 1))
        await errors_reopen(
            intake, store, sql, first["case_id"],
            ("@s/admin@1.2", "production", False),
            ("@s/admin@1.3", "production", True),
            ("shop@5.0", "production", True),
            ("shop@4.9", "production", False),
            ("elsewhere@0.1", "production", True),
            ("1.2", "production", False),  # of the package that was deployed as this
            ("1.3", "production", True),
        )  # fmt: skip


async def test_the_database_splits_releases_as_the_service_does(sql):
    """Name and version, by one pattern. The query and the index of deploys are by that pattern."""
    for part in ("package_of_deploy", "version_of_deploy"):
        assert f"'{PARTS}.*$'" in str(load_query("ingest/flushing", part))
    odd = ("@", "v", "+", ".", "1", "a", "\n", "V2", "shop", "-")
    for seed in range(3000):
        release = "".join(random.Random(seed).choices(odd, k=seed % 12))
        found = sql.execute(
            "select regexp_replace(%(r)s, %(p)s, '\\1'), regexp_replace(%(r)s, %(p)s, '\\2')",
            {"r": release, "p": f"{PARTS}.*$"},
        ).fetchone()
        assert found == parts(release), release
    index = one(sql, "select pg_get_indexdef('deploys_bare_version'::regclass)")
    assert f"'{PARTS}.*$'" in index


async def test_an_error_from_before_the_repair_only_counts_for_a_day(database_url, store, sql):
    """Of a phone that was offline, and of a clock that is wrong. One without a time, or of after, regresses (G-193)."""
    async with running(database_url) as intake:
        [first] = await send(intake, log_item("boom"))
        await do(store, commands.resolve(PROJECT, first["case_id"], 1))
        resolved_at, revision = one(sql, "select resolved_at from cases"), 2

        async def sent(clock, status):
            item = log_item("boom")
            item.clock = clock
            [answer] = await send(intake, item)
            assert answer["case_id"] == first["case_id"]
            assert one(sql, "select status from cases") == status, clock
            return int(answer["received_at"])

        for clock in (
            SdkClock(resolved_at - 1),
            SdkClock(resolved_at - 3 * 86400, resolved_at),
            SdkClock(resolved_at + 3600 - 500, resolved_at + 3600),
        ):
            await sent(clock, "resolved")
        for clock in (NO_CLOCK, SdkClock(resolved_at - 3600 + 10, resolved_at - 3600 - 100), SdkClock(1)):
            await sent(clock, "open")
            await do(store, commands.resolve(PROJECT, first["case_id"], revision + 1))
            revision += 2
        advance(sql, 2)
        await sent(SdkClock(resolved_at - 1), "open")
    assert counted(sql) == 1 + 3 + 3 + 1


async def test_an_agent_that_found_noise_silences_the_case(pair, store, sql):
    intake, a, _ = pair
    report = AgentRunReport(Outcome.MARKED_SPURIOUS, None, None)
    recorded = await do(store, await commands.record_run(store, PROJECT, a["case_id"], report))
    assert recorded.case.status is case.Status.IGNORED
    await send(intake, log_item("alpha"))
    assert one(sql, "select status from cases where id = %s", a["case_id"]) == "ignored"


@pytest.mark.parametrize("name", ["cases", "case_comments", "case_runs", "suppressions"])
async def test_rows_rebuilt_from_history_are_those_that_are_there(pair, store, sql, database_url, name):
    intake, a, b = pair
    await do(store, commands.assign(PROJECT, a["case_id"], 1, None))
    await do(store, commands.resolve(PROJECT, b["case_id"], 1))
    await merge(store, sql, a["case_id"], b["case_id"])
    await send(intake, log_item("alpha"))
    await split(store, sql, b["case_id"], a["fingerprint"])
    await do(store, commands.ignore(PROJECT, b["case_id"], 3))
    await do(store, await commands.write_comment(store, PROJECT, b["case_id"], 4, "usr_1", "Seen."))
    report = AgentRunReport(Outcome.FAILED, None, None)
    await do(store, await commands.record_run(store, PROJECT, a["case_id"], report))
    made = await do(store, suppressing.create(PROJECT, SuppressionWish("*", Action.PROMPT_HINT, None, "Look.")))
    await do(store, suppressing.create(PROJECT, SuppressionWish("a*", Action.AUTO_IGNORE, None, None)))
    await do(store, suppressing.remove(PROJECT, made.id))
    query = f"select to_jsonb(t) from {name} t order by project_id, id"
    live = sql.execute(query.encode()).fetchall()
    assert live
    with connect(database_url, application="test") as connection:
        sequence_all(connection)
    await asyncio.to_thread(rebuild, database_url, read_models()[name])
    assert sql.execute(query.encode()).fetchall() == live


async def test_another_projects_case_of_one_fingerprint_stays_where_it_is(pair, store, sql):
    intake, a, b = pair
    await merge(store, sql, a["case_id"], b["case_id"])
    [theirs] = await send(intake, log_item("alpha", of=sender(OTHER)))
    assert theirs["case_id"] == case.case_id(OTHER, a["fingerprint"]) != b["case_id"]
