"""Usage and the notice about the quota over HTTP (R-BILL-01 to R-BILL-04, R-BILL-11 to R-BILL-13, G-070, G-072).

Intake and health stay open beyond the quota (R-BILL-15), and others hear nothing of it (R-BILL-16).
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from statemachines.accounts.membership import membership_id
from tests.support.api import Person, World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.onboarding import Onboarding
from tests.support.plans import plan_body

pytestmark = pytest.mark.shares_server

DAY = 86400
CAP = 100_000


async def today(world: World) -> int:
    [[day]] = await world.sql("select floor(extract(epoch from service_now()) / 86400)::bigint * 86400")
    return int(day)


def month(day: int, back: int = 0) -> str:
    moment = datetime.fromtimestamp(day, UTC)
    months = moment.year * 12 + moment.month - 1 - back
    return f"{months // 12:04}-{months % 12 + 1:02}"


async def have_used(world: World, person: Person, day: int, errors: int, analytics: int = 0) -> None:
    """Put on a day what the intake would have counted there."""
    await world.sql(
        "insert into usage_days (project_id, account_id, day, errors, analytics, suppressed, scrubbed, "
        "last_received_at) values ('proj_' || gen_random_uuid(), %s, %s, %s, %s, 0, 0, %s)",
        person.user_id, day, errors, analytics, day,
    )  # fmt: skip


async def test_what_was_accepted_is_counted_once_wherever_it_shows(world: World):
    owner, stranger = await world.sign_in(), await world.sign_in()
    made = await owner.create_project()
    sender = world.having(made["dsn"])
    for _ in range(2):
        ok(await sender.post("/v1/logs/", {"level": "error", "message": "boom"}, key="once"), 202)
    ok(await sender.post("/v1/analytics/", {"event": "signup", "distinct_id": "u"}), 202)
    ok(await sender.post("/v1/deploys/", {"version": "1"}), 202)
    usage = ok(await owner.get("/v1/usage"))
    assert usage["breakdown"] == {"errors": 1, "analytics": 1, "deploys": 1}
    assert (usage["total_events"], usage["monthly_event_cap"], usage["plan"]) == (3, CAP, "free")
    assert usage["quota"]["remaining"] == CAP - 3
    assert (usage["quota"]["state"], usage["quota"]["locked"], usage["pct_of_plan"]) == ("ok", False, 0)
    assert "billing_notice" not in usage
    history = ok(await owner.get("/v1/usage/history"))
    assert len(history["snapshots"]) == history["days"] == 30
    dates = [shown["date"] for shown in history["snapshots"]]
    assert dates == [dates[-1] - back * DAY for back in range(29, -1, -1)]
    assert history["snapshots"][-1] == {
        "date": await today(world), "total_events": 3, "errors": 1, "analytics": 1, "deploys": 1,
    }  # fmt: skip
    assert all(shown["total_events"] == 0 for shown in history["snapshots"][:-1])
    health = ok(await owner.get(f"/v1/projects/{made['id']}/health"))
    assert health["usage_this_month"]["total_events"] == 3
    assert ok(await stranger.get("/v1/usage"))["total_events"] == 0


async def test_a_month_is_asked_for_by_its_name(world: World):
    owner, now = await world.sign_in(), await today(world)
    first = int(datetime.fromtimestamp(now, UTC).replace(day=1).timestamp())
    await have_used(world, owner, first - DAY, 5, 6)
    await have_used(world, owner, first, 1)
    before = ok(await owner.get(f"/v1/usage?period={month(now, 1)}"))
    assert (before["period"], before["total_events"]) == (month(now, 1), 11)
    assert before["quota"]["resets_at"] == first
    assert ok(await owner.get(f"/v1/usage?period={month(now)}"))["total_events"] == 1
    assert ok(await owner.get("/v1/usage?period=1970-01"))["total_events"] == 0
    for bad in (month(now, -1), "9999-12", "0000-01", "1969-12", "2026-13", "2026-1", "2026-011", "x", "٢٠٢٦-01", ""):
        refused(await owner.get("/v1/usage", params={"period": bad}), 400, "invalid_payload")
    for bad in ("0", "366", "-1", "x", "1.5", ""):
        refused(await owner.get("/v1/usage/history", params={"days": bad}), 400, "invalid_payload")
    assert len(ok(await owner.get("/v1/usage/history?days=365"))["snapshots"]) == 365


@pytest.mark.parametrize("path", ["/v1/usage", "/v1/usage/history"])
async def test_usage_is_for_keys_alone(world: World, path: str):
    owner = await world.sign_in()
    made = await owner.create_project()
    refused(await world.get(path), 401, "unauthenticated")
    refused(await world.having(made["dsn"]).get(path), 403, "principal_not_allowed")
    secret = (await owner.create_credential(made["id"], "ci"))["credential"]
    refused(await world.having(secret).get(path), 403, "principal_not_allowed")


async def told(person: Person, path: str = "/v1/projects") -> dict[str, Any] | None:
    notice: dict[str, Any] | None = ok(await person.get(path)).get("billing_notice")
    return notice


async def test_a_person_hears_of_the_quota_where_it_is_near_or_over(world: World):
    now = await today(world)
    near, nearer, over = [await world.sign_in() for _ in range(3)]
    await have_used(world, near, now, CAP * 8 // 10)
    first = int(datetime.fromtimestamp(now, UTC).replace(day=1).timestamp())
    await have_used(world, over, now, CAP)
    notice = await told(near)
    assert notice is not None
    assert notice["should_notify_human"] is True
    assert "80,000 of the 100,000" in notice["message_for_human"]
    payload = notice["client_payload"]
    assert (payload["kind"], payload["used"], payload["cap"], payload["pct"]) == ("quota_near", 80_000, CAP, 80)
    assert payload["period"] == month(now)
    if first < now:  # on the first day of a month nobody has come near it on an earlier one
        await have_used(world, nearer, first, CAP - 1)
        again = await told(nearer)
        assert again is not None
        assert again["should_notify_human"] is False
    beyond = await told(over, "/v1/usage")
    assert beyond is not None
    assert (beyond["should_notify_human"], beyond["client_payload"]["kind"]) == (True, "quota_over")
    usage = ok(await over.get("/v1/usage"))
    assert (usage["quota"]["state"], usage["quota"]["locked"], usage["quota"]["remaining"]) == ("over", True, 0)


async def test_a_member_hears_of_the_account_that_pays(world: World):
    """In a project its owner's quota counts, elsewhere one's own (G-017)."""
    owner, member = await world.sign_in(), await world.sign_in()
    await have_used(world, owner, await today(world), CAP)
    made = await owner.create_project()
    await world.sql(
        "insert into memberships values (%s, %s, 1, %s, 'member', 9999999999)",
        made["id"], membership_id(made["id"], member.user_id), member.user_id,
    )  # fmt: skip
    notice = await told(member, f"/v1/projects/{made['id']}/health")
    assert notice is not None
    assert notice["client_payload"]["kind"] == "quota_over"
    assert await told(member) is None


async def test_an_answer_of_closed_shapes_has_room_for_the_notice(world: World):
    """An onboarding is in one of several shapes, and a client that checks what it gets takes each (G-070)."""
    owner = await world.sign_in()
    await have_used(world, owner, await today(world), CAP)
    made = await owner.create_project()
    onb = Onboarding(world, owner, made["id"], made["dsn"])
    assert "billing_notice" in ok(await onb.start(plan_body()), 201)
    assert "billing_notice" in ok(await owner.get(f"/v1/projects/{made['id']}/onboarding"))


async def test_a_page_of_events_has_the_notice_and_other_forms_are_as_they_are(world: World):
    """Of a project and of a stream; a batch of CloudEvents, lines and the proof of a run are read by programs."""
    owner = await world.sign_in()
    await have_used(world, owner, await today(world), CAP)
    made = await owner.create_project()
    path = f"/v1/projects/{made['id']}/events"
    async with asyncio.timeout(10):
        while not (page := ok(await owner.get(path)))["events"]:  # noqa: ASYNC110 - another process numbers them
            await asyncio.sleep(0.01)
    assert page["billing_notice"]["client_payload"]["kind"] == "quota_over"
    stream = ok(await owner.get(f"/v1/streams/{page['events'][0]['stream_id']}/events"))
    assert "billing_notice" in stream
    assert "billing_notice" in ok(await owner.get(f"{path}?before={page['log_size'] + 1}"))
    for form in ("application/cloudevents-batch+json", "application/x-ndjson"):
        answer = await owner.get(path, headers={"accept": form})
        assert answer.status_code == 200
        assert "billing_notice" not in answer.text


async def test_only_answers_to_keys_carry_it_and_intake_stays_open(world: World):
    owner = await world.sign_in()
    await have_used(world, owner, await today(world), CAP * 3)
    made = await owner.create_project()
    assert made["billing_notice"]["client_payload"]["pct"] == 300
    sender = world.having(made["dsn"])
    assert "billing_notice" not in ok(await sender.post("/v1/logs/", {"level": "error", "message": "boom"}), 202)
    ci = world.having((await owner.create_credential(made["id"], "ci"))["credential"])
    assert "billing_notice" not in ok(await ci.post("/v1/deploys/", {"version": "1", "sha": "a" * 40}), 202)
    assert "billing_notice" not in ok(await world.get("/"))
    assert "billing_notice" in ok(await owner.get(f"/v1/projects/{made['id']}/cases"))
    assert "billing_notice" in ok(await owner.get(f"/v1/projects/{made['id']}/health"))
