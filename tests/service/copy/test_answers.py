"""Questions over many rows, answered from the copy up to its watermark, equal to PostgreSQL's answers (G-200)."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from service.analytics import copied
from service.analytics.blueprints.asking import CATALOGUE, ask_for, run_blueprint
from service.analytics.bounded import Table
from service.analytics.copied import CopyAway, Touched, choose
from service.analytics.queries import unanswered
from service.copy import batches
from service.copy.engine import TABLES, CopyFailed, Engine
from service.copy.reading import Answering, CopyReader, socket_of
from service.copy.shipping import Shipper
from service.eventstore.connect.connection import Connection, connect
from service.eventstore.connect.facts import DAY
from tests.support import long_after
from tests.support.copied import KEPT, ship_all
from tests.support.copied import shipping as shipping_of
from tests.support.ingest import Sql
from tests.support.questions import OTHER, PROJECT, TENANT, Error, Event, Questions, asking
from tests.support.server import free_port

NAMES = ["a", "b", "c", "it's", "back\\slash", "{a:String}", "%(x)s", "tab\tand\nline", "ü ✓"]
VALUES = [
    "pro", "free", "naïve ✓", 7, 7.0, 7.5, 1e30, -0.0, 12345678901234567890, True, False, "", "null", None, [1],
    {"a": 1}, "ü" * 205, 'quote" \\ \u2028', "7",
]  # fmt: skip
RELEASES = ["1.0", "2.0", "3\\'0"]
URL_OF_NOBODY = "chdb:///nonexistent/copy"


class Copied:
    """Telemetry, its copy, and a process that asks of both."""

    def __init__(self, questions: Questions, connection: Connection, engine: Engine) -> None:
        self.questions = questions
        self._connection = connection
        self._engine = engine

    def ship(self, since: int = 0) -> int:
        """Copy all that is settled, perhaps from a second on. Returns the watermark."""
        self.questions.connection.execute("truncate telemetry_batches, telemetry_copies")
        self._engine.drop_tables()
        ship_all(shipping_of(self._connection, self._engine, since))
        return min(place.copied_until for place in batches.places(self._connection))

    def step(self) -> None:
        """Let another shipper begin, and ship what there is."""
        ship_all(shipping_of(self._connection, self._engine))

    async def both(self, name: str, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch, **more: Any) -> Table:
        """Ask PostgreSQL and the copy, and compare their rows. Returns the answer of the copy."""
        with monkeypatch.context() as patched:
            patched.setattr(copied, "MOST_LOCAL_ROWS", -1)
            found = await self.questions.run(name, params, **more)
        assert found.evidence.source == "copy", name
        window = more or {"since": found.evidence.since, "until": found.evidence.until}
        rest = {name: value for name, value in params.items() if name != "days"}
        own = await self.questions.run(name, rest, **window)
        assert own.evidence.source == "local"
        assert json.dumps(found.rows) == json.dumps(own.rows), (name, params, more)
        assert found.columns == own.columns
        return found


@pytest.fixture
def answering(tmp_path: Path, engine: Engine) -> Iterator[str]:
    """The socket of a worker. Its URL."""
    url = f"chdb://{tmp_path}/copy"
    answers = Answering(url)
    yield url
    answers.close()


@pytest_asyncio.fixture
async def both(database_url: str, engine: Engine, answering: str) -> AsyncIterator[Copied]:
    async with asking(database_url, answering) as questions:
        with connect(database_url, application="service-copy") as connection:
            batches.adapt(connection)
            yield Copied(questions, connection, engine)


def products(chance: random.Random, begin: int) -> list[Event]:
    """Some hundred events of a dozen people in four days, many of them in the same second."""
    moments = [begin + day * DAY + second for day in range(4) for second in (0, 1, 2, 3600, DAY - 1)]
    return [
        Event(
            chance.choice(NAMES),
            f"person-{chance.randrange(12)}",
            chance.choice(moments),
            {chance.choice(["plan", "release", "$release", "$app_version"]): chance.choice([*VALUES, *RELEASES])},
        )
        for _ in range(chance.randrange(100, 400))
    ]


def failures(chance: random.Random, begin: int) -> list[Error]:
    """Some errors of the same people and others."""
    return [
        Error(
            begin + chance.randrange(4 * DAY),
            chance.choice([*RELEASES, None]),
            chance.choice([f"person-{chance.randrange(20)}", None]),
            environment=chance.choice(["production", "staging"]),
        )
        for _ in range(100)
    ]


@pytest.mark.parametrize("seed", long_after(2, list(range(25))))
async def test_both_sources_answer_the_same(both: Copied, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every blueprint that the copy answers, to the last byte of its rows, and another project's rows beside."""
    chance = random.Random(seed)
    questions = both.questions
    begin = questions.now - questions.now % DAY - 5 * DAY
    questions.receive(products(chance, begin))
    questions.receive(products(chance, begin), OTHER)
    questions.meet(failures(chance, begin))
    questions.meet(failures(chance, begin), OTHER)
    if seed % 2:
        questions.delay()
        questions.connection.execute(
            "update analytics_events set received_at = %s where received_at > %s", (begin + 4 * DAY, begin + 4 * DAY)
        )
        questions.connection.execute(
            "update log_events set received_at = %s where received_at > %s", (begin + 4 * DAY, begin + 4 * DAY)
        )
    for project in (PROJECT, OTHER):
        linked = chance.sample(range(20), chance.randrange(6)) if seed else []
        questions.link({f"person-{number}": f"person-{number % 3}" for number in linked}, project)
    watermark = both.ship()
    steps = chance.sample(NAMES, chance.randrange(2, 6))
    window = {
        "since": begin + chance.choice([0, 1, DAY + 3601]),
        "until": begin + chance.choice([3 * DAY + 2, 4 * DAY]),
    }
    environment = chance.choice([{}, {"environment": "staging"}])
    asked: list[tuple[str, dict[str, Any], dict[str, int]]] = [
        ("event-count", {"event": steps[0]}, window),
        ("top-events", {}, window),
        ("active-users", {}, window),
        ("event-trend", {"event": steps[0]}, window),
        ("ordered-funnel", {"events": steps}, window),
        ("ordered-funnel-period-compare", {"events": steps, "period_days": 2}, {"until": window["until"]}),
        ("retention", {"start_event": steps[0], "return_event": steps[1]}, window),
        ("retention", {"start_event": steps[0], "return_event": steps[0]}, window),
        ("breakdown", {"event": steps[0], "property": "plan"}, window),
        ("breakdown", {"event": steps[0], "property": "release"}, window),
        ("errors-by-release", environment, window),
        ("error-free-users", environment, window),
        ("release-comparison", {"release": RELEASES[0], "base_release": RELEASES[2], **environment}, window),
        ("event-trend", {"event": steps[0], "days": 7}, {}),
    ]
    assert {name for name, blueprint in CATALOGUE.items() if blueprint.copied} == {name for name, _, _ in asked}
    for name, params, more in asked:
        found = await both.both(name, params, monkeypatch, **more)
        assert found.freshness.as_of in {watermark - 1, max(watermark - 1, found.freshness.as_of)}
        assert found.freshness.last_event_at is not None
        assert found.freshness.lag_seconds == found.freshness.as_of - found.freshness.last_event_at


async def test_people_with_several_names_are_one(both: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are linked, moved and taken apart, past a kill of the shipper, and after a restore of the database."""
    questions = both.questions
    questions.receive(Event("a", f"person-{number}", questions.now - 60) for number in range(6))
    questions.receive(Event("a", f"person-{number}", questions.now - 60) for number in range(6))
    questions.link({"person-0": "person-0", "person-1": "person-0"})
    both.ship()

    async def people() -> int:
        table = await both.both("event-count", {"event": "a"}, monkeypatch)
        return int(table.rows[0]["unique_users"])

    assert await people() == 5
    questions.link({"person-2": "person-2", "person-3": "person-2"})
    both.step()
    assert await people() == 4
    questions.connection.execute("update person_names set person = 'person-0' where person = 'person-2'")
    with monkeypatch.context() as patched:
        patched.setattr(batches, "forget_changed", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            both.step()
    both.step()
    assert await people() == 3
    questions.connection.execute("delete from person_names where name = 'person-3'")
    both.step()
    assert await people() == 4
    assert questions.connection.execute("select * from changed_names").fetchall() == []
    # A backup from before: the links that the copy has since are not those of the database.
    questions.connection.execute("truncate person_names, changed_names restart identity")
    questions.link({"person-4": "person-4", "person-5": "person-4"})
    questions.connection.execute("truncate changed_names")
    both.step()
    assert await people() == 5


async def test_the_copy_answers_up_to_its_watermark(both: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is received after it is not in the answer, and the window of days ends with it."""
    questions = both.questions
    questions.receive(Event("a", f"person-{number}", questions.now - 60) for number in range(5))
    watermark = both.ship()
    questions.receive(Event("a", f"later-{number}", watermark + 1) for number in range(3))
    monkeypatch.setattr(copied, "MOST_LOCAL_ROWS", -1)
    found = await questions.run("event-count", {"event": "a", "days": 1})
    assert found.rows == [{"row_count": 5, "unique_users": 5}]
    assert found.evidence.source == "copy"
    assert (found.evidence.since, found.evidence.until) == (watermark - DAY, watermark)
    assert found.freshness.as_of == watermark - 1


async def test_few_rows_are_read_in_postgresql(both: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are known by what is counted by day, of events by their names. Alerts never read the copy."""
    questions = both.questions
    midnight = questions.now - questions.now % DAY
    questions.receive(Event("a", f"person-{number}", questions.now - 60) for number in range(5))
    questions.connection.execute(
        "insert into usage_days (project_id, account_id, day, errors, analytics, suppressed, scrubbed, "
        "last_received_at) values (%s, 'user', %s, 0, 1000, 0, 0, 0)",
        (PROJECT, midnight),
    )
    questions.connection.execute(
        "insert into event_days (project_id, day, names, keys, other_rows, other_values, whole) "
        "values (%s, %s, 1, 0, 7, 0, true)",
        (PROJECT, midnight),
    )
    questions.connection.execute(
        "insert into event_name_days (project_id, day, event, row_count, first_at, last_at) "
        "values (%s, %s, 'a', 20, 0, 0)",
        (PROJECT, midnight),
    )
    both.ship()
    monkeypatch.setattr(copied, "MOST_LOCAL_ROWS", 27)
    at = {"days": 3}
    assert (await questions.run("event-count", {"event": "a", **at})).evidence.source == "local"
    assert (await questions.run("top-events", at)).evidence.source == "copy"
    assert (await questions.run("top-events", at, at=questions.now)).evidence.source == "local"
    assert (await questions.run("errors-by-release", at)).evidence.source == "local"
    monkeypatch.setattr(copied, "MOST_LOCAL_ROWS", 26)
    assert (await questions.run("event-count", {"event": "a", **at})).evidence.source == "copy"


def test_who_answers_is_chosen_by_rows() -> None:
    """Up to a million rows PostgreSQL, above the copy, unless it is a day behind. Without one, PostgreSQL."""
    now = 1_700_000_000
    since = now - 30 * DAY
    assert choose(Touched(1_000_000, now - 20), since, now) is None
    assert choose(Touched(1_000_001, now - 20), since, now) == now - 20
    assert choose(Touched(10**9, None), since, now) is None
    assert choose(Touched(10**9, now - DAY), since, now) == now - DAY
    behind = choose(Touched(10**9, now - DAY - 1), since, now)
    assert isinstance(behind, CopyAway)
    assert behind.reason == "the copy of telemetry is 24 hours behind"
    assert choose(Touched(10**9, now - 20, since), since, now) == now - 20
    late = choose(Touched(10**9, now - 20, since + 1), since, now)
    assert isinstance(late, CopyAway)
    assert late.reason == "the copy of telemetry begins later"


async def test_a_copy_that_is_away_or_behind_is_no_answer(
    database_url: str, both: Copied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the refusal of too many rows, with the reason. Few rows are answered as ever."""
    questions = both.questions
    questions.receive([Event("a", "person", questions.now - 60)])
    both.ship()
    monkeypatch.setattr(copied, "MOST_LOCAL_ROWS", -1)
    asked = ask_for("event-count", {"event": "a"})
    async with asking(database_url, URL_OF_NOBODY) as elsewhere:
        found = await run_blueprint(elsewhere.queries, PROJECT, TENANT, asked)
    assert isinstance(found, CopyAway)
    refused = unanswered(found)
    assert refused.code == "invalid_payload"
    assert "the copy of telemetry cannot be read now" in json.dumps(refused.details)
    questions.connection.execute("update telemetry_copies set copied_until = copied_until - 90000")
    behind = await run_blueprint(questions.queries, PROJECT, TENANT, asked)
    assert isinstance(behind, CopyAway)
    assert behind.reason == "the copy of telemetry is 25 hours behind"
    monkeypatch.undo()
    assert (await questions.run("event-count", {"event": "a"})).evidence.source == "local"


async def test_a_copy_begun_later_answers_no_earlier_window(both: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was filled from a day on. What was received before is in PostgreSQL alone."""
    questions = both.questions
    midnight = questions.now - questions.now % DAY
    questions.receive(Event("a", f"person-{day}", midnight - day * DAY) for day in range(1, 5))
    both.ship(midnight - 2 * DAY)
    monkeypatch.setattr(copied, "MOST_LOCAL_ROWS", -1)
    asked = ask_for("event-count", {"event": "a"}, since=midnight - 3 * DAY, until=midnight)
    found = await run_blueprint(questions.queries, PROJECT, TENANT, asked)
    assert isinstance(found, CopyAway)
    assert found.reason == "the copy of telemetry begins later"
    later = await questions.run("event-count", {"event": "a"}, since=midnight - 2 * DAY, until=midnight)
    assert (later.evidence.source, later.rows) == ("copy", [{"row_count": 2, "unique_users": 2}])


async def test_questions_are_asked_by_the_user_that_reads(
    database_url: str, both: Copied, answering: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is one. Nobody answers at its address here, though the copy itself would."""
    both.questions.receive([Event("a", "person", both.questions.now - 60)])
    both.ship()
    monkeypatch.setattr(copied, "MOST_LOCAL_ROWS", -1)
    assert (await both.questions.run("event-count", {"event": "a"})).evidence.source == "copy"
    reader = f"http://reader:secret@127.0.0.1:{free_port()}/copy"
    async with asking(database_url, answering, reader) as questions:
        found = await run_blueprint(questions.queries, PROJECT, TENANT, ask_for("event-count", {"event": "a"}))
    assert isinstance(found, CopyAway)
    assert "secret" not in found.reason


def test_a_question_only_reads_and_has_limits(engine: Engine) -> None:
    """Of time and of rows. Nothing is written, and no file is read."""
    engine.make_tables()
    for text, name in (
        ("select * from file('/etc/hostname')", "READONLY"),
        ("select 1 settings readonly = 0", "READONLY"),
        ("select sum(sipHash64(number)) from numbers(3000000000)", "TIMEOUT_EXCEEDED"),
        ("select count() from numbers(5000000000)", "TOO_MANY_ROWS"),
        ("select number from numbers(100000)", "TOO_MANY_ROWS_OR_BYTES"),
        ("select groupArray(number) from numbers(4000000000)", "MEMORY_LIMIT_EXCEEDED|TIMEOUT_EXCEEDED"),
        ("drop table log_events", "READONLY"),
    ):
        with pytest.raises(CopyFailed, match=name):
            engine.read(text, {}, 0.5)
    assert engine.tables() == TABLES


async def test_the_worker_answers_while_it_has_the_folder(sql: Sql, database_url: str, tmp_path: Path) -> None:
    """By a socket that its own user alone may open. Before and after, the copy is away."""
    pytest.importorskip("chdb", reason="the extra `chdb` is not installed")
    url = f"chdb://{tmp_path}/folder"
    reader = CopyReader(url)
    with pytest.raises(CopyFailed, match="no worker"):
        await reader.ask("select 1", {}, 1.0)
    shipper = Shipper(database_url, url, lambda: KEPT)
    with connect(database_url, application="service-copy") as connection:
        await asyncio.to_thread(shipper.turn, connection)
        path = socket_of(url)
        assert path.stat().st_mode & 0o777 == 0o600
        answers = await asyncio.gather(*(reader.ask("select {n:Int64} as one", {"n": n}, 5.0) for n in range(10)))
        assert [answer.rows for answer in answers] == [[[n]] for n in range(10)]
        assert answers[0].names == ["one"]
        with pytest.raises(CopyFailed, match="UNKNOWN_IDENTIFIER"):
            await reader.ask("select nothing", {}, 5.0)
        await asyncio.to_thread(shipper.stop)
    assert not path.exists()
    with pytest.raises(CopyFailed, match="no worker"):
        await reader.ask("select 1", {}, 1.0)
