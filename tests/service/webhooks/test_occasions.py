"""Every occasion of an automation, an alert and a report reaches a chat, with what it may hold and no more."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.service.reports.test_report import CURRENT, PRIOR, metric, report_on
from tests.service.webhooks.test_notifications import chat as chat  # noqa: PLC0414 (fixtures are found by name)
from tests.support.listening import Listener
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.server import ServerHandle
from tests.support.weekly import Weekly

pytestmark = pytest.mark.shares_server
SUMMARY = "May I open it? <!channel>"


@pytest.fixture
def at(server: ServerHandle) -> Iterator[HttpScene]:
    with open_scene(server) as scene:
        yield scene


def listen(at: HttpScene, chat: Listener, *events: str) -> None:
    """Add the chat to the scene's project, with a rule of the owner."""
    path = f"{at.project}/notifications/destinations"
    made = at.must(at.post(path, {"kind": "slack", "url": chat.url, "name": "Our channel"}, who="owner"), 201)
    at.must(at.call("PUT", f"{path}/{made['id']}/rule", {"events": list(events)}, who="owner"), 200)


async def heard(chat: Listener, number: int) -> str:
    await chat.until_arrived(number)
    return chat.arrived[number - 1].body.decode()


async def test_an_approval_an_end_and_a_stop_are_told(at: HttpScene, chat: Listener) -> None:
    await asyncio.to_thread(at.running)
    await asyncio.to_thread(listen, at, chat, "approval.requested", "run.ended", "automation.stopped")

    def ask() -> dict[str, Any]:
        return at.must(at.act("approvals", {"action": "draft_pr", "summary": SUMMARY}), 201)

    await asyncio.to_thread(ask)
    asked = await heard(chat, 1)
    assert "Summary by the runner" in asked
    assert "May I open it?" in asked
    assert "<!channel>" not in asked
    assert f"/console/projects/{at.world.project_id}/approvals" in asked
    await asyncio.to_thread(lambda: at.must(at.post(f"{at.path}/cancel", {}, who="owner"), 200))
    ended = await heard(chat, 2)
    assert f"/console/runs/{at.run_id}" in ended
    assert "cancelled" in ended
    await asyncio.to_thread(at.pause)
    assert f"/console/projects/{at.world.project_id}/automation" in await heard(chat, 3)


async def test_a_report_is_told_by_its_link_alone(at: HttpScene, chat: Listener) -> None:
    """Never a number or a text of it (R-AUT-49)."""
    weekly = await asyncio.to_thread(lambda: Weekly(at).begin(PRIOR, CURRENT))
    await asyncio.to_thread(listen, at, chat, "report.recorded")

    def record() -> dict[str, Any]:
        source = at.must(weekly.source(), 200)
        return at.must(weekly.record(report_on(source, metric(source))), 201)

    await asyncio.to_thread(record)
    told = await heard(chat, 1)
    assert f"/console/projects/{at.world.project_id}/reports" in told
    texts = json.dumps(chat.arrived[0].document)
    assert not any(word in texts for word in ("checkout", "finding", "sample", "conversion"))


async def test_an_alert_is_told_once_it_is_triggered(at: HttpScene, chat: Listener) -> None:
    def trigger() -> None:
        at.prepare()
        listen(at, chat, "alert.triggered")
        wish = {
            "blueprint_id": "event-count",
            "params": {"event": "paid", "days": 1},
            "threshold_column": "row_count",
            "threshold_op": "gte",
            "threshold_value": 1,
        }
        made = at.must(at.post(f"{at.project}/alerts", wish, who="owner"), 201)
        at.must(at.call("POST", "/v1/analytics/", {"event": "paid", "distinct_id": "u1"}, who="dsn"), 202)
        evaluated = at.must(at.post(f"{at.project}/alerts/{made['id']}/evaluate", {}, who="owner"), 200)
        assert evaluated["status"] == "triggered"

    await asyncio.to_thread(trigger)
    assert f"/console/projects/{at.world.project_id}/alerts" in await heard(chat, 1)
