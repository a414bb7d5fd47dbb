"""Any history of joins, told properties and days that go: names and people are as a plain model has them (G-197)."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import msgspec
import psycopg
from hypothesis import HealthCheck, Phase, event, given
from hypothesis import strategies as st

from schemas.analytics import AnalyticsEvent
from service.billing.plans import Retention
from service.ingest.intake import Intake
from service.ingest.items import Item, take_analytics
from service.ingest.kept import purge
from tests.support import few_or_many
from tests.support.ingest import OWNER, Sql, make_project, miscounted, running, send, sender

DAY = 86400
NUMBERS = count(1)
NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f"])
PROPERTIES = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 3), max_size=2)
JOINS = {"$identify": "$anon_distinct_id", "$create_alias": "alias", "$merge_dangerously": "alias"}
JOIN = st.tuples(st.sampled_from(sorted(JOINS)), NAMES, NAMES, PROPERTIES, PROPERTIES)
TELL = st.tuples(st.just("page"), NAMES, st.none(), PROPERTIES, PROPERTIES)
STEPS = st.lists(st.one_of(JOIN, JOIN, TELL), min_size=1, max_size=5)


class Model:
    """People as sets of names; of each the name it is called by, whether it is identified, and its properties."""

    def __init__(self) -> None:
        self.called: dict[str, str] = {}
        self.identified: set[str] = set()
        self.properties: dict[str, dict[str, int]] = {}
        self.refused: dict[str, int] = {}

    def of(self, name: str) -> str:
        return self.called.get(name, name)

    def tell(self, kind: str, name: str, other: str | None, told: dict[str, int], once: dict[str, int]) -> None:
        mine, others = self.of(name), None if other in {None, name} else self.of(str(other))
        joined = kind in JOINS
        if others is not None and others != mine:
            mine_is = kind == "$identify" or mine in self.identified
            other_is = others in self.identified
            if mine_is and other_is and kind != "$merge_dangerously":
                self.refused[mine] = self.refused.get(mine, 0) + 1
                joined = mine_is
            else:
                if other_is and not mine_is:
                    mine, others = others, mine
                for each, called in [*self.called.items(), (mine, mine), (others, others)]:
                    if called in {mine, others}:
                        self.called[each] = mine
                gone = self.properties.pop(others, {})
                self.properties[mine] = gone | self.properties.get(mine, {})
                if refused := self.refused.pop(others, 0):
                    self.refused[mine] = self.refused.get(mine, 0) + refused
                self.identified.discard(others)
        if joined:
            self.identified.add(mine)
        if joined or told or once or mine in self.refused:
            self.properties[mine] = once | self.properties.get(mine, {}) | told


def item(project: str, kind: str, name: str, other: str | None, told: Any, once: Any) -> Item:
    """An event as its door submits it."""
    properties: dict[str, Any] = {"$set": told, "$set_once": once}
    if other is not None:
        properties[JOINS[kind]] = other
    raw = msgspec.json.encode({"event": kind, "distinct_id": name, "properties": properties})
    return take_analytics(sender(project), msgspec.json.decode(raw, type=AnalyticsEvent), raw)


def stored(sql: Sql, project: str) -> tuple[dict[str, str], dict[str, tuple[bool, dict[str, int], int]]]:
    names = sql.execute("select name, person from person_names where project_id = %s", (project,)).fetchall()
    people = sql.execute(
        "select id, identified, properties, refused from telemetry_people where project_id = %s", (project,)
    ).fetchall()
    return dict(names), {name: (identified, told, refused) for name, identified, told, refused in people}


@few_or_many(
    10,
    40,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
@given(flushes=st.lists(STEPS, min_size=1, max_size=6))
async def test_any_history_joins_names_as_a_model_does(database_url: str, sql: Sql, flushes: list[Any]) -> None:
    project = make_project(sql, f"proj_people_{next(NUMBERS):04}")
    model = Model()
    async with running(database_url) as one, running(database_url) as other:
        for number, steps in enumerate(flushes):
            answers = await send((one, other)[number % 2], *(item(project, *step) for step in steps))
            assert all(answer["ok"] for answer in answers)
            for step in steps:
                event(step[0])
                model.tell(*step)
    names, people = stored(sql, project)
    assert names == model.called
    assert people == {
        name: (name in model.identified, told, model.refused.get(name, 0)) for name, told in model.properties.items()
    }
    assert miscounted(sql) == {}


async def test_flushes_of_several_processes_join_one_after_the_other(database_url: str, sql: Sql) -> None:
    """Whatever the order: chains of names that overlap become one person, under one name, and nobody waits for ever."""
    project = make_project(sql, f"proj_people_{next(NUMBERS):04}")
    beside = make_project(sql, f"proj_people_{next(NUMBERS):04}")
    links = [(f"n{number}", f"n{number + 1}") for number in range(60)]

    async def join(intake: Intake, pairs: list[tuple[str, str]]) -> None:
        for name, other in pairs:
            items = [item(each, "$merge_dangerously", name, other, {}, {}) for each in (project, beside)]
            assert all(answer["ok"] for answer in await send(intake, *items))

    async with running(database_url) as one, running(database_url) as other, running(database_url) as third:
        await asyncio.gather(join(one, links[::3]), join(other, links[1::3][::-1]), join(third, links[2::3]))
    for each in (project, beside):
        names, people = stored(sql, each)
        assert len(names) == 61
        assert set(names.values()) == set(people)
        assert len(people) == 1


async def test_names_and_properties_go_after_the_last_record(database_url: str, sql: Sql) -> None:
    """A name without records goes first, the person with the last of its own; one that was told of lately stays."""
    project = make_project(sql, f"proj_people_{next(NUMBERS):04}")
    kept = Retention({project: 2}, {project: OWNER}, 400)

    async def purged() -> tuple[list[str], list[str]]:
        async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
            await purge(connection, kept)
        names, people = stored(sql, project)
        return sorted(names), sorted(people)

    async with running(database_url) as intake:
        joins = [
            item(project, "$identify", "ann", "anon-1", {"x": 1}, {}), item(project, "page", "bob", None, {"x": 1}, {})
        ]  # fmt: skip
        await send(intake, item(project, "page", "anon-1", None, {}, {}), *joins)
        assert await purged() == (["ann", "anon-1"], ["ann", "bob"])
        sql.execute("select advance_service_clock(%s)", (2 * DAY,))
        await send(intake, item(project, "page", "ann", None, {}, {}))
        sql.execute("select advance_service_clock(%s)", (DAY,))
        assert await purged() == (["ann"], ["ann"])
        sql.execute("select advance_service_clock(%s)", (3 * DAY,))
        await send(intake, item(project, "page", "cid", None, {"x": 1}, {}))
        assert await purged() == ([], ["cid"])
