"""The schedule of alerts: every 300 s, in turn, each question once, and never silently late (G-162, P27)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import pytest_asyncio

from service import alerts
from service.alerts import AlertSchedule
from service.discovery.reads import figures
from service.eventstore.write.lane import forget
from service.runs import sweep
from service.runs.sweep import Turn
from service.settings import load_settings
from statemachines.kernel.machine import ReadFailed
from tests.service.alerts.scene import AlertScene
from tests.support.questions import Event, Questions
from tests.support.questions import questions as questions  # noqa: PLC0414 (a fixture is found by name)

BOUND = 5
PROJECT = "proj_00000001"
FOUND_CLEAR, CLEARED, TRIGGERED = "alert.found_clear.v1", "alert.cleared.v1", "alert.triggered.v1"


@pytest_asyncio.fixture
async def scene(questions: Questions) -> AlertScene:
    found = AlertScene(questions)
    found.project(PROJECT)
    return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The projects and events that are asked for."""
    return watch(monkeypatch, lambda _: None)


def watch(monkeypatch: pytest.MonkeyPatch, answer: Callable[[str], Any]) -> list[tuple[str, str]]:
    """Note what is asked; `answer` may say of a project what its read comes to."""
    found: list[tuple[str, str]] = []
    run = alerts.run_blueprint

    async def noted(queries: Any, project_id: str, tenant: str, question: Any, at: int | None = None) -> Any:
        found.append((project_id, question.params.event))
        said = answer(project_id)
        if isinstance(said, Exception):
            raise said
        return await run(queries, project_id, tenant, question, at) if said is None else said

    monkeypatch.setattr(alerts, "run_blueprint", noted)
    return found


async def test_an_alert_is_looked_at_every_300_seconds(scene: AlertScene) -> None:
    """From its making on; whoever looks by hand moves that on."""
    made = await scene.make(PROJECT)
    assert await scene.run() == {}
    scene.wait(290)
    assert await scene.run() == {}
    scene.wait(15)
    assert await scene.run() == {"evaluated": 1}
    assert (await scene.standing(made)).row.status == "evaluated_clear"
    assert await scene.run() == {}
    scene.questions.receive([Event("paid", "ann", scene.questions.now)] * 2, PROJECT)
    scene.wait(200)
    crossed = await scene.record(made, await scene.read(made))
    assert (crossed.row.status, crossed.look.value) == ("triggered", "2")
    scene.wait(200)
    assert await scene.run() == {}
    scene.wait(101)
    assert await scene.run() == {"evaluated": 1}
    assert scene.topics(made) == [FOUND_CLEAR, TRIGGERED]


async def test_equal_questions_of_a_project_are_asked_once(scene: AlertScene, asked: list[tuple[str, str]]) -> None:
    """Whatever their thresholds are; another project asks for itself."""
    other = scene.project("proj_00000002")
    rows = [await scene.make(PROJECT, threshold_value=value) for value in range(3)]
    rows.append(await scene.make(PROJECT, params={"event": "paid", "days": 1, "more": 7}))
    rows += [await scene.make(PROJECT, params={"event": "seen", "days": 1}), await scene.make(other)]
    scene.wait(301)
    assert await scene.run() == {"evaluated": 6}
    assert sorted(asked) == [(PROJECT, "paid"), (PROJECT, "seen"), (other, "paid")]
    stands = [(await scene.standing(row)).row.status for row in rows]
    assert stands == ["triggered", *["evaluated_clear"] * 5]


async def test_each_of_four_times_as_many_projects_has_its_turn_within_five_runs(
    scene: AlertScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when none of them is ever done: whoever cannot be read is no more due than the others."""
    monkeypatch.setattr(alerts, "AT_MOST", BOUND)
    asked = watch(monkeypatch, lambda _: ReadFailed("unreachable"))
    names = {scene.project(f"proj_{number:08}") for number in range(100, 100 + 4 * BOUND)}
    for name in names:
        await scene.make(name)
    scene.wait(301)
    for _ in range(2):
        asked.clear()
        for _ in range(5):
            assert await scene.run() == {"unread": BOUND}
        assert {project for project, _ in asked} == names


async def test_an_account_with_one_project_does_not_wait_behind_one_with_many(
    scene: AlertScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "AT_MOST", BOUND)
    for number in range(20):
        await scene.make(scene.project(f"proj_{number:08}a", "usr_many"))
    alone = await scene.make(scene.project("proj_99999999", "usr_alone"))
    scene.wait(301)
    assert await scene.run() == {"evaluated": BOUND}
    assert (await scene.standing(alone)).look.evaluated_at is not None


async def test_what_fails_stays_due_and_harms_no_other(scene: AlertScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that failed records nothing; the alert says that it is late."""
    other = scene.project("proj_00000002")
    poor, well = await scene.make(PROJECT), await scene.make(other)
    before = await scene.standing(poor)
    scene.wait(301)
    watch(monkeypatch, lambda project: ReadFailed("unreachable") if project == PROJECT else None)
    assert await scene.run() == {"evaluated": 1, "unread": 1}
    now = await scene.standing(poor)
    assert (now.row, now.look) == (before.row, before.look)
    assert scene.topics(poor) == []
    scene.wait(300)
    assert now.look.due_at is not None
    late = await scene.standing(poor)
    assert late.now - now.look.due_at >= 300
    monkeypatch.undo()
    assert (await scene.run())["evaluated"] >= 1
    assert (await scene.standing(poor)).row.status == "evaluated_clear"
    assert (await scene.standing(well)).row.status == "evaluated_clear"


async def test_out_of_time_the_rest_comes_first_the_next_time(
    scene: AlertScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A project's turn ends after so long; what is due for longest is looked at first."""
    rows = [await scene.make(PROJECT, params={"event": f"event {number}"}) for number in range(3)]
    for row, earlier in zip(rows, (200, 0, 100), strict=True):
        scene.sql.execute("update alert_looks set due_at = due_at - %s where id = %s", (earlier, row.id))
    scene.wait(301)
    asked = watch(monkeypatch, lambda _: None)
    monkeypatch.setattr(alerts, "PROJECT_SECONDS", 1e-6)  # over before its first question is answered
    for number, left in ((0, 2), (2, 1), (1, 0)):
        asked.clear()
        assert await scene.run() == {"evaluated": 1} | ({"left": left} if left else {})
        assert asked == [(PROJECT, f"event {number}")]


async def test_a_fenced_project_has_no_turn(scene: AlertScene, asked: list[tuple[str, str]]) -> None:
    """Not even when the fence falls between the read and the record."""
    made = await scene.make(PROJECT)
    reading = await scene.read(made)
    asked.clear()
    scene.wait(301)
    scene.sql.execute("update projects set status = 'fenced', fenced_at = 1 where id = %s", (PROJECT,))
    assert await scene.run() == {}
    assert asked == []
    recording = AlertSchedule(scene.store, scene.questions.queries)
    await recording._record(made, reading)
    assert dict(recording.done) == {"left": 1}
    assert scene.topics(made) == []


async def test_an_earlier_look_never_replaces_a_later_one(scene: AlertScene) -> None:
    """However late it is recorded: what counts is when each was asked."""
    made = await scene.make(PROJECT)
    early = await scene.read(made)
    scene.questions.receive([Event("paid", "ann", scene.questions.now)] * 2, PROJECT)
    late = await scene.read(made)
    assert early.asked_us < late.asked_us
    assert (await scene.record(made, late)).row.status == "triggered"
    shown = await scene.record(made, early)
    assert (shown.row.status, shown.look.value, shown.look.asked_us) == ("triggered", "2", late.asked_us)
    assert (await scene.record(made, late)).row.status == "triggered"
    assert scene.topics(made) == [TRIGGERED]


async def test_looks_by_hand_and_on_schedule_record_one_change(scene: AlertScene) -> None:
    """Two workers and a hand at once, again and again: an event for each change, and the last word is the latest."""
    made = await scene.make(PROJECT)
    changes = []
    for turn in range(6):
        scene.wait(301)
        if turn % 2:
            scene.questions.receive([Event("paid", "ann", scene.questions.now)] * 2, PROJECT)
        elif turn:
            scene.sql.execute("delete from analytics_events where project_id = %s", (PROJECT,))
        changes.append(TRIGGERED if turn % 2 else CLEARED if turn else FOUND_CLEAR)

        async def by_hand() -> None:
            await scene.record(made, await scene.read(made))

        await asyncio.gather(scene.run(), by_hand(), scene.run(), by_hand())
        assert scene.topics(made) == changes


async def test_a_look_at_what_was_deleted_meanwhile_is_dropped(scene: AlertScene) -> None:
    made = await scene.make(PROJECT)
    reading = await scene.read(made)
    await scene.delete(made)
    recording = AlertSchedule(scene.store, scene.questions.queries)
    await recording._record(made, reading)
    assert dict(recording.done) == {"left": 1}
    assert scene.topics(made) == ["alert.deleted.v1"]
    scene.wait(301)
    assert await scene.run() == {}
    await forget(scene.store.conninfo, [("alert_looks", "due_at is null")], "alert_looks_forgotten")
    assert scene.sql.execute("select count(*) from alert_looks").fetchall() == [(0,)]


async def test_how_late_the_latest_is_can_be_seen(scene: AlertScene) -> None:
    """In metrics and readiness; a project that has just had its turn waits for its next one."""
    settings = load_settings({"SERVICE_DATABASE_URL": scene.store.conninfo, "SERVICE_ENCRYPTION_KEY": "11" * 32,
                              "SERVICE_SIGNING_KEY": "22" * 32, "SERVICE_INTERNAL_TOKEN": "none"})  # fmt: skip

    async def seen() -> tuple[float, float]:
        values = {figure.name: figure.value for figure in await figures(scene.store, settings) if not figure.labels}
        return values["service_alerts_due"], values["service_alerts_oldest_due_seconds"]

    await scene.make(PROJECT)
    assert await seen() == (0, 0)
    scene.wait(300 + 1000)
    due, oldest = await seen()
    assert due == 1
    assert 1000 <= oldest <= 1010
    [wait] = await sweep.waits(scene.store, (Turn.ALERTS,), 500)
    assert (wait.objects, wait.late) == (1, True)
    await scene.run()
    assert await seen() == (0, 0)
    [wait] = await sweep.waits(scene.store, (Turn.ALERTS,), 500)
    assert (wait.objects, wait.longest, wait.late) == (0, 0, False)
