"""Any history of errors, deploys and deeds of members against a small model of what cases are for (G-144, G-145).

The model is a status, a count and a leader for each fingerprint, and the deploys in their order. Intake, commands and
read models have to agree with it whatever happened before, and a rebuild has to change nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given
from hypothesis import strategies as st

from service.auth.authority import carry_out
from service.cases import acting as commands
from service.eventstore.connect.connection import connect
from service.eventstore.log.sequencer import sequence_all
from service.eventstore.store import EventStore
from service.history.rebuild import rebuild
from service.ingest import items
from service.ingest.grouping.fingerprint import GROUPINGS, group
from service.ingest.intake import Intake
from service.registry import read_models
from statemachines.cases import case
from statemachines.cases.case import Merge
from tests.support import few_or_many
from tests.support.ingest import PROJECT, Sql, log_item, make_project, one, running, send, sender

MESSAGES = ("alpha", "beta", "gamma")
RELEASES = ("1.0", "2.0", None)
PLACES = ("production", "staging")
NUMBERS = count(1)


class Model:
    """What should be: by message its own status and count, and which other one leads it."""

    def __init__(self) -> None:
        self.status: dict[str, str] = {}
        self.counted: Counter[str] = Counter()
        self.leader: dict[str, str] = {}
        self.resolved_at: dict[str, int] = {}
        self.deploys: list[tuple[int, str, str]] = []

    def goes_to(self, message: str) -> str:
        """Which message's case takes the errors of this one."""
        return self.leader.get(message, message)

    def error(self, message: str, place: str, release: str | None) -> None:
        """An error opens what is absent, and reopens what is resolved unless its release is older than the repair."""
        target = self.goes_to(message)
        self.counted[target] += 1
        if self.status.get(target) == "resolved" and self._outdated(place, release, self.resolved_at[target]):
            return
        if self.status.get(target) in {None, "resolved"}:
            self.status[target] = "open"

    def _outdated(self, place: str, release: str | None, resolved_at: int) -> bool:
        here = [(at, version) for at, where, version in self.deploys if where == place]
        of_release = [at for at, version in here if version == release]
        before = [deployed for deployed in here if deployed[0] <= resolved_at]
        if release is None or not before:
            return False
        at, repaired_by = before[-1]
        return release < repaired_by or (bool(of_release) and of_release[-1] < at)

    def close(self, message: str, status: str, now: int) -> None:
        """A member resolves or ignores."""
        self.status[message] = status
        if status == "resolved":
            self.resolved_at.setdefault(message, now)

    def merge(self, message: str, into: str) -> None:
        """What led others leads them on."""
        for other in (message, *(name for name, leader in self.leader.items() if leader == message)):
            self.leader[other] = into
            self.status[other] = "merged"


class Play:
    """One history, in a project of its own."""

    def __init__(self, store: EventStore, sql: Sql, intake: Intake) -> None:
        self.store, self.sql, self.intake, self.model = store, sql, intake, Model()
        self.project = make_project(sql, f"proj_history_{next(NUMBERS):04}")
        self.prints: dict[str, str] = {}

    def id_of(self, message: str) -> str:
        return case.case_id(self.project, self.prints[message])

    def now(self) -> int:
        return int(one(self.sql, "select extract(epoch from service_now())::bigint"))

    async def do(self, intent: Any) -> Any:
        return await carry_out(self.store, "test", "test", intent, project=self.project)

    def revision(self, message: str) -> int:
        return int(one(self.sql, "select case_revision from cases where id = %s", self.id_of(message)))

    async def error(self, message: str, place: str, release: str | None) -> None:
        told = {"environment": place} | ({} if release is None else {"release": release})
        [answer] = await send(self.intake, log_item(message, of=sender(self.project), **told))
        self.prints[message] = answer["fingerprint"]
        assert answer["case_id"] == self.id_of(self.model.goes_to(message))
        self.model.error(message, place, release)

    async def deploy(self, place: str, version: str) -> None:
        at = self.now()
        self.sql.execute(
            "insert into deploys (project_id, id, revision, version, environment, source, trusted, recorded_at) "
            "values (%s, %s, 1, %s, %s, 'ci', true, %s)",
            (self.project, f"dep_{place}_{at}", version, place, at),
        )
        self.model.deploys.append((at, place, version))

    async def act(self, deed: str, message: str) -> None:
        """Resolve, ignore or reopen; what is merged stays so."""
        if self.model.status.get(message) in {None, "merged", *({"open"} if deed == "reopen" else ())}:
            return
        intent = getattr(commands, deed)(self.project, self.id_of(message), self.revision(message))
        await self.do(intent)
        if deed == "reopen" or self.model.status[message] != f"{deed.removesuffix('e')}ed":
            self.model.resolved_at.pop(message, None)
        self.model.close(message, {"resolve": "resolved", "ignore": "ignored", "reopen": "open"}[deed], self.now())

    async def merge(self, message: str, into: str) -> None:
        """Merge what stands by itself."""
        if message == into or any(self.model.status.get(name) in {None, "merged"} for name in (message, into)):
            return
        wish = Merge(self.id_of(message), self.id_of(into))
        await self.do(await commands.merge(self.store, self.project, wish, self.revision(message)))
        self.model.merge(message, into)
        event("merged")

    async def split(self, message: str) -> None:
        """Split off what was merged."""
        leader = self.model.leader.pop(message, None)
        if leader is not None:
            there, revision = self.id_of(leader), self.revision(leader)
            await self.do(await commands.split(self.store, self.project, there, revision, self.prints[message]))
            self.model.status[message] = "open"
            event("split")

    async def replace(self, message: str, place: str) -> None:
        """A release is deployed, replaced, the case resolved, and an error of the old release comes late."""
        for step in (
            self.deploy(place, "1.0"),
            self.deploy(place, "2.0"),
            self.act("resolve", self.model.goes_to(message)),
            self.error(message, place, "1.0"),
        ):
            self.sql.execute("select advance_service_clock(seconds => 1)")
            await step

    def check(self) -> None:
        """Compare each case with the model."""
        rows = self.sql.execute(
            "select c.id, c.status, s.event_count, c.merged_into from cases c "
            "join case_stats s using (project_id, id) where c.project_id = %s",
            (self.project,),
        ).fetchall()
        model = self.model
        assert {row[0]: row[1:] for row in rows} == {
            self.id_of(name): (
                status,
                model.counted[name],
                self.id_of(model.leader[name]) if name in model.leader else None,
            )
            for name, status in model.status.items()
        }


messages, places = st.sampled_from(MESSAGES), st.sampled_from(PLACES)
STEPS = st.one_of(
    st.tuples(st.just("error"), messages, places, st.sampled_from(RELEASES)),
    st.tuples(st.just("error"), messages, st.just("production"), st.sampled_from(RELEASES)),
    st.tuples(st.just("deploy"), places, st.sampled_from(RELEASES[:2])),
    st.tuples(st.just("deploy"), st.just("production"), st.sampled_from(RELEASES[:2])),
    st.tuples(st.just("replace"), messages, places),
    st.tuples(st.just("act"), st.sampled_from(["resolve", "resolve", "ignore", "reopen"]), messages),
    st.tuples(st.just("merge"), messages, messages),
    st.tuples(st.just("split"), messages),
)


@few_or_many(
    4,
    10,
    phases=(Phase.explicit, Phase.generate),  # to make a failing history smaller takes minutes
    suppress_health_check=list(HealthCheck),
)
@given(steps=st.lists(STEPS, min_size=20, max_size=40))
async def test_any_history_is_what_the_model_says(
    database_url: str, store: EventStore, sql: Sql, steps: list[Any]
) -> None:
    async with running(database_url) as intake, running(database_url) as other:
        play = Play(store, sql, intake)
        for message in MESSAGES:
            await play.error(message, "production", "1.0")
        for number, (what, *arguments) in enumerate(steps):
            sql.execute("select advance_service_clock(seconds => 1)")
            play.intake = (intake, other)[number % 2]
            await getattr(play, what)(*arguments)
            play.check()
        live = sql.execute("select to_jsonb(c) from cases c order by project_id, id").fetchall()
        with connect(database_url, application="test") as connection:
            sequence_all(connection)
        await asyncio.to_thread(rebuild, database_url, read_models()["cases"])
        assert sql.execute("select to_jsonb(c) from cases c order by project_id, id").fetchall() == live
    async with running(database_url) as later:
        play.intake = later
        for message in MESSAGES:
            await play.error(message, "staging", None)
        play.check()


async def test_a_new_grouping_leaves_errors_of_old_cases_where_they_are(
    database_url: str, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the upgrade, beside it and after it; what no older version knows opens under the newest."""
    released = {1: GROUPINGS[1]}
    monkeypatch.setattr(items, "group", lambda evidence: group(evidence, released))
    async with running(database_url) as before:
        [old] = await send(before, log_item("order 1 failed"))
        monkeypatch.setattr(items, "group", group)
        async with running(database_url) as after:
            for number in (1, 2, 2, 3):
                for intake in (after, before):
                    [answer] = await send(intake, log_item(f"order {number} failed"))
                    assert (answer["case_id"], answer["fingerprint"]) == (old["case_id"], old["fingerprint"])
            # Version 1 tells these apart by what follows the number, version 2 takes both for one.
            new = await send(after, log_item("refund 1e3 failed"), log_item("refund 2e4 failed"), log_item("lost"))
            assert len({answer["case_id"] for answer in new}) == 2, "under the newest version"
            monkeypatch.setattr(items, "group", lambda evidence: group(evidence, released))
    async with running(database_url) as downgraded:
        [again] = await send(downgraded, log_item("order 4 failed"))
        assert again["case_id"] == old["case_id"]
    versions = sql.execute(
        "select grouping_version, count(*) from cases where project_id = %s group by 1 order by 1", (PROJECT,)
    ).fetchall()
    assert versions == [(1, 1), (3, 2)]
