"""The stored errors of a case over HTTP: the list, its pages and bounds, and one with its sources (G-176)."""

from __future__ import annotations

from copy import deepcopy
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from schemas.cases.event import MAX_PAGE_BYTES, CaseEventQuery
from service.cases.sourcemaps.unmangling import ADVICE
from service.fairness.offload import LARGE
from service.http.cases.event import list_case_events
from service.ids import new_id
from tests.service.http.cases.test_acting import act
from tests.service.http.cases.test_acting import project as project  # noqa: PLC0414 (a fixture is found by name)
from tests.service.http.cases.test_case import log
from tests.service.http.cases.test_source_map import put
from tests.service.http.cases.test_unmangle import GECKO, MAP, MINIFIED, URL
from tests.support.api import World, at_once, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.sentry import PYTHON_EVENT, of_event

pytestmark = pytest.mark.shares_server

EVENT = {
    "id", "received_at", "occurred_at", "level", "message", "release", "environment", "user", "tags", "exception",
    "grouping", "adjusted", "dsn",
}  # fmt: skip
RECORD = EVENT | {
    "case_id", "project_id", "trust", "frames", "total_frames", "resolved_count", "unmapped_source_urls", "next_action",
    "newer_event_id", "older_event_id",
}  # fmt: skip
HELD = {
    "contexts", "transaction", "server_name", "logger", "platform", "dist", "sdk", "fingerprint", "extra", "left_out",
}  # fmt: skip
SECRET = "service_sk_" + "a1B2" * 10


async def listed(owner: Any, case_id: str, **query: Any) -> dict[str, Any]:
    answer = await owner.get(f"/v1/cases/{case_id}/events", params=query)
    assert len(answer.content) <= MAX_PAGE_BYTES
    found = ok(answer)
    assert set(found) == {"case_id", "project_id", "trust", "events", "count", "next_cursor", "next_action"}
    assert (found["case_id"], found["count"]) == (case_id, len(found["events"]))
    assert all(set(event) - {"breadcrumbs", "request"} == EVENT for event in found["events"])
    return found


async def pages(owner: Any, case_id: str, limit: int) -> list[list[dict[str, Any]]]:
    """All pages of a list; none but the last is empty."""
    found: list[list[dict[str, Any]]] = []
    more: dict[str, Any] = {}
    while True:
        page = await listed(owner, case_id, limit=limit, **more)
        found.append(page["events"])
        if page["next_cursor"] is None:
            return found
        assert page["events"]
        more = {"cursor": page["next_cursor"]}


async def read(owner: Any, case_id: str, event_id: str) -> dict[str, Any]:
    found = ok(await owner.get(f"/v1/cases/{case_id}/events/{event_id}"))
    assert set(found) - {"breadcrumbs", "request"} - HELD == RECORD
    assert (found["id"], found["total_frames"]) == (event_id, len(found["frames"]))
    assert found["resolved_count"] == sum(frame["resolved"] for frame in found["frames"])
    return found


async def send_sentry(world: World, owner: Any, project_id: str, **members: Any) -> str:
    """Send an event as an SDK of Sentry does; returns its case."""
    dsn = httpx2.URL(ok(await owner.get(f"/v1/projects/{project_id}/dsn"))["sdks"]["sentry_dsn"])
    body = of_event({**PYTHON_EVENT, "event_id": uuid4().hex, **members})
    auth = {"x-sentry-auth": f"Sentry sentry_key={dsn.username}, sentry_version=7"}
    ok(await world.call("POST", f"/api{dsn.path}/envelope/", content=body, headers=auth))
    [case] = ok(await owner.get(f"/v1/projects/{project_id}/cases"))["cases"]
    return str(case["id"])


async def test_an_error_of_an_sdk_is_listed_as_it_is_stored(world: World, project):
    owner, project_id, _ = project
    request = {"method": "POST", "url": "https://shop.example/pay", "headers": {"Authorization": "Bearer abc"}}
    case_id = await send_sentry(world, owner, project_id, request=request)
    page = await listed(owner, case_id)
    [event] = page["events"]
    assert (page["trust"], page["project_id"], page["next_cursor"]) == ("customer_provider", project_id, None)
    [frame, library] = event["exception"].pop("frames")
    assert event["exception"].pop("causes") == [{"type": "KeyError", "value": "'card'", "frames": []}]
    assert event["exception"] == {"type": "PaymentError", "value": "Card 17 refused", "handled": True}
    assert {frame["file"], library["file"]} == {"pay.py", "api.py"}
    assert event["breadcrumbs"] == [{"category": "query", "message": "select 1"}]
    assert (event["request"]["url"], event["user"]["email"]) == (request["url"], "u1@example.com")
    assert "abc" not in str(event["request"])
    assert (event["level"], event["environment"], event["release"]) == ("error", "staging", "shop@1.2.3")
    assert (event["tags"]["region"], event["adjusted"]) == ("eu", [])
    [(stored,)] = await world.sql("select grouped_by from log_events where project_id = %s", project_id)
    assert f"v{event['grouping']['version']}:{event['grouping']['decided_by']}" == stored


async def test_an_error_with_nothing_beside_it(world: World, project):
    owner, _, dsn = project
    sent = await log(dsn, "Payment 1 failed")
    [event] = (await listed(owner, sent["case_id"]))["events"]
    assert (event["id"], event["received_at"], event["message"]) == (
        sent["id"],
        sent["received_at"],
        "Payment 1 failed",
    )
    assert (event["user"], event["exception"], event["release"], event["tags"]) == (None, None, None, {})
    assert set(event) == EVENT
    found = await read(owner, sent["case_id"], sent["id"])
    assert (found["frames"], found["total_frames"]) == ([], 0)
    assert "no frames" in found["next_action"]


async def test_an_error_of_any_form_is_listed(world: World, project):
    """What was sent in a member of ours is shown where it has the documented form, and else as if absent."""
    owner, _, dsn = project
    strange = {"type": 1, "value": [], "frames": "y", "causes": {"a": 1}}
    odd: list[Any] = [7, "x", [], strange, {"frames": [1, {"a": []}]}]
    sent = [
        await log(dsn, "odd", extra={"exception": one, "breadcrumbs": one, "request": one, "attributes": one})
        for one in odd
    ]
    lists = [await listed(owner, case_id) for case_id in {one["case_id"] for one in sent}]
    events = {event["id"]: event for found in lists for event in found["events"]}
    shown = [events[one["id"]] for one in sent]
    empty = {"type": None, "value": None, "frames": []}
    assert [event["exception"] for event in shown] == [None, None, None, empty, {**empty, "frames": [{"a": []}]}]
    assert [event.get("breadcrumbs") for event in shown] == [None] * 5
    assert [event.get("request") for event in shown] == [None, None, None, odd[3], odd[4]]
    traced = {"exception": {"type": "E"}, "attributes": {"exception.stacktrace": "E at nowhere"}}
    told = await log(dsn, "traced", extra=traced)
    [event] = (await listed(owner, told["case_id"]))["events"]
    assert event["exception"] == {"type": "E", "value": None, "frames": [], "stack": "E at nowhere"}


async def test_secrets_stay_hidden_and_what_was_adjusted_is_told(world: World, project):
    owner, _, dsn = project
    body = (
        b'{"level": "error", "message": "leaked %s", '
        b'"user": {"id": "u", "password": "p4ss"}, "tags": {"cookie": "c00kie"}, "extra": '
        b'{"n": 9007199254740993, "exception": {"type": "E", "value": "%s", "frames": [{"file": "a.py", '
        b'"api_key": "k3y"}]}, "request": {"headers": {"authorization": "t0ken"}}}}'
    ).replace(b"%s", SECRET.encode())
    sent = ok(await dsn.post("/v1/logs/", content=body, headers={"content-type": "application/json"}), 202)
    page = await owner.get(f"/v1/cases/{sent['case_id']}/events")
    record = await owner.get(f"/v1/cases/{sent['case_id']}/events/{sent['id']}")
    case = await owner.get(f"/v1/cases/{sent['case_id']}")
    for answer in (page, record, case):
        assert answer.status_code == 200
        assert [word for word in (SECRET, "p4ss", "c00kie", "k3y", "t0ken") if word in answer.text] == []
    for event in (page.json()["events"][0], record.json(), case.json()["latest_event"]):
        assert (event["adjusted"], event["user"]["id"]) == (["extra.n"], "u")
        assert event["request"]["headers"] == {}


async def test_pages_lose_and_repeat_nothing_of_one_second(world: World, project):
    """A hundred and twenty errors that were received at once, then the same with two seconds and another day."""
    owner, project_id, dsn = project
    sent = [await log(dsn, "same")]
    sent += await at_once(119, lambda number: log(dsn, "same", tags={"n": str(number)}))
    case_id = sent[0]["case_id"]
    moment = min(event["received_at"] for event in sent)
    await world.sql("update log_events set received_at = %s where project_id = %s", moment, project_id)
    for limit in (7, 50):
        found = await pages(owner, case_id, limit)
        ids = [event["id"] for page in found for event in page]
        assert ids == sorted((event["id"] for event in sent), reverse=True)
        assert [len(page) for page in found] == [limit] * (120 // limit) + [120 % limit]
    older = [event["id"] for event in sent[:30]]
    await world.sql("update log_events set received_at = received_at - 1 where id = any(%s)", older[:10])
    await world.sql("update log_events set received_at = received_at - 86400 where id = any(%s)", older[10:])
    order = [(event["received_at"], event["id"]) for page in await pages(owner, case_id, 11) for event in page]
    assert order == sorted(order, reverse=True)
    assert {event_id for _, event_id in order} == {event["id"] for event in sent}
    assert len(order) == 120
    full = await pages(owner, case_id, 40)
    assert [len(page) for page in full] == [40, 40, 40]  # and no empty page after them
    assert len((await listed(owner, case_id))["events"]) == 20


async def test_a_page_ends_before_two_mebibytes(world: World, project):
    owner, _, dsn = project
    crumbs = [{"message": "x" * 1000, "n": number} for number in range(60)]
    sent = [await log(dsn, "large", extra={"breadcrumbs": crumbs}, tags={"n": str(n)}) for n in range(45)]
    small = await log(dsn, "large")
    found = await pages(owner, sent[0]["case_id"], 50)
    ids = [event["id"] for page in found for event in page]
    assert ids == [small["id"], *(event["id"] for event in reversed(sent))]
    [first, second] = found
    each = len(httpx2.Response(200, json=second[0]).content)
    whole = len((await owner.get(f"/v1/cases/{sent[0]['case_id']}/events", params={"limit": 50})).content)
    assert MAX_PAGE_BYTES - each - 10_000 < whole <= MAX_PAGE_BYTES
    assert 30 < len(first) < 45


async def test_a_large_page_is_written_apart(world: World, project):
    """And a small one here and now, by what they are unpacked: to change threads costs more than to write it (P25)."""
    _, project_id, dsn = project
    small = await log(dsn, "small")
    large = await log(dsn, "large", extra={"breadcrumbs": [{"message": "x" * 60_000}]})  # stored in a few bytes
    sizes: list[int] = []

    async def work_on(size: int, work: Any) -> Any:
        sizes.append(size)
        return work()

    async def work(store: Any) -> None:
        for sent in (small, large):
            services, subject = SimpleNamespace(store=store), SimpleNamespace(id=sent["case_id"])
            call = SimpleNamespace(services=services, subject=subject, project_id=project_id, work_on=work_on)
            await list_case_events.handler(call, CaseEventQuery())

    await world.operate(work)
    assert [size > LARGE for size in sizes] == [False, True]


async def test_errors_of_merged_cases_are_listed_in_their_place(world: World, project):
    owner, _, dsn = project
    into = await log(dsn, "alpha")
    await world.wait(2)
    merged = await log(dsn, "beta", tags={"n": "1"})
    await world.wait(2)
    last = await log(dsn, "alpha")
    other = await log(dsn, "gamma")
    path = f"/v1/cases/{into['case_id']}/events"
    refused(await owner.get(f"{path}/{merged['id']}"), 404, "event_not_found")
    await act(owner, merged["case_id"], "merge", 1, into_case_id=into["case_id"])
    await world.wait(2)
    after = await log(dsn, "beta")
    assert after["case_id"] == into["case_id"]
    wanted = [after["id"], last["id"], merged["id"], into["id"]]
    for limit in (1, 3, 20):
        found = await pages(owner, into["case_id"], limit)
        assert [event["id"] for page in found for event in page] == wanted
    assert [event["id"] for event in (await listed(owner, merged["case_id"]))["events"]] == [merged["id"]]
    assert (await read(owner, into["case_id"], merged["id"]))["tags"] == {"n": "1"}
    refused(await owner.get(f"{path}/{other['id']}"), 404, "event_not_found")
    record = ok(await owner.get(f"/v1/cases/{into['case_id']}"))
    assert record["latest_event"]["id"] == after["id"]


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0}, {"limit": 51}, {"limit": "all"}, {"cursor": "x"}, {"cursor": ""}, {"cursor": "e30"},
        {"cursor": "WzEsMl0"}, {"cursor": "WyJhIiwiYiJd"},
    ],
)  # fmt: skip
async def test_a_bad_page_is_refused(world: World, project, query):
    owner, _, dsn = project
    case_id = (await log(dsn, "known"))["case_id"]
    refused(await owner.get(f"/v1/cases/{case_id}/events", params=query), 400, "invalid_payload")


async def test_errors_are_for_members_only(world: World, project):
    owner, project_id, dsn = project
    sent = await log(dsn, "known")
    stranger = await world.sign_in()
    ci = (await owner.create_credential(project_id, "ci"))["credential"]
    runner = await owner.create_credential(
        project_id, "runner", kind="automation_runner", automation_id="error-to-draft-pr"
    )
    for more in ("/events", f"/events/{sent['id']}"):
        path = f"/v1/cases/{sent['case_id']}{more}"
        ok(await owner.get(path))
        theirs, nobodys = await stranger.get(path), await stranger.get(f"/v1/cases/{new_id('case')}{more}")
        refused(theirs, 404, "case_not_found")
        assert without_request_id(theirs) == without_request_id(nobodys)
        for secret in (dsn.secret, ci, runner["credential"]):
            refused(await world.having(secret).get(path), 403, "principal_not_allowed")
        refused(await world.get(path), 401, "unauthenticated")


async def test_what_is_no_error_of_the_case_is_not_found(world: World, project):
    """All the same, whether it is somebody else's, of another case, no error at all or no id."""
    owner, _, dsn = project
    case_id, other = [(await log(dsn, text))["case_id"] for text in ("one kind", "another kind")]
    theirs = await (stranger := await world.sign_in()).create_project()
    foreign = await log(world.having(theirs["dsn"]), "one kind")
    told = await log(dsn, "no error", level="info")
    [(of_other,)] = await world.sql("select id from log_events where case_id = %s", other)
    names = (of_other, foreign["id"], told["id"], new_id("log"), f"log_{'z' * 26}", f"log_{'0' * 26}", "log_", "x",
             new_id("case"), "log_" + "é" * 26, of_other.upper())  # fmt: skip
    answers = [await owner.get(f"/v1/cases/{case_id}/events/{name}") for name in names]
    for answer in answers:
        refused(answer, 404, "event_not_found")
        assert without_request_id(answer) == without_request_id(answers[0])
    assert (await owner.get(f"/v1/cases/{case_id}/events/%00")).status_code in {400, 404}
    ok(await stranger.get(f"/v1/cases/{foreign['case_id']}/events/{foreign['id']}"))


async def test_an_error_is_found_wherever_its_clock_stood(world: World, project):
    """An id tells only where it is looked for first: the machine that made it may have had another time."""
    owner, project_id, dsn = project
    first, second = await log(dsn, "same"), await log(dsn, "same")
    for shift in (-3_000, 9_000, -10 * 86400):
        await world.sql(
            "update log_events set received_at = received_at + %s where project_id = %s and id = %s",
            shift, project_id, second["id"],
        )  # fmt: skip
        assert (await read(owner, first["case_id"], second["id"]))["message"] == "same"


async def test_what_retention_took_is_gone(world: World, project):
    owner, project_id, dsn = project
    sent = await log(dsn, "gone")
    kept = await log(dsn, "kept")
    await world.sql("delete from log_events where project_id = %s and id = %s", project_id, sent["id"])
    page = await listed(owner, sent["case_id"])
    assert (page["events"], page["next_cursor"]) == ([], None)
    refused(await owner.get(f"/v1/cases/{sent['case_id']}/events/{sent['id']}"), 404, "event_not_found")
    assert ok(await owner.get(f"/v1/cases/{sent['case_id']}"))["event_count"] == 1
    assert [event["id"] for event in (await listed(owner, kept["case_id"]))["events"]] == [kept["id"]]


async def test_one_error_is_led_back_to_its_sources(world: World, project):
    """Any of the case, each by the maps of its own release, and not the latest alone."""
    owner, project_id, dsn = project
    for kind, content in (("source_map", MAP), ("minified_source", MINIFIED)):
        ok(await put(owner, project_id, content, release="r1", source_url="~/assets/shop.min.js", kind=kind))
    frames = [{"file": URL, "line": 1, "column": 73, "function": "divided", "in_app": True}]
    first = await log(dsn, "boom", release="r1", extra={"exception": {"type": "E", "frames": frames}})
    second = await log(dsn, "boom", release="r2", extra={"exception": {"type": "E", "frames": frames}})
    text = await log(dsn, "boom", release="r1", extra={"exception": {"type": "E", "stack": GECKO}})
    found = await read(owner, first["case_id"], first["id"])
    [frame] = found["frames"]
    assert (frame["original_source"], frame["original_line"], frame["in_app"]) == ("src/money.ts", 6, True)
    assert frame["context_line"].strip() == 'throw new RangeError("nobody to share with");'
    assert (found["exception"]["frames"], found["unmapped_source_urls"]) == (frames, [])
    without = await read(owner, second["case_id"], second["id"])
    assert ([frame["verdict"] for frame in without["frames"]], without["next_action"]) == (["no_map"], ADVICE["no_map"])
    assert without["unmapped_source_urls"] == [URL]
    told = await read(owner, text["case_id"], text["id"])
    assert [frame["resolved"] for frame in told["frames"]] == [True] * 3
    assert (told["exception"]["stack"], told["exception"]["frames"]) == (GECKO, [])


async def test_one_error_of_python_shows_its_own_lines(world: World, project):
    """Also without a release: no source map has a part in it."""
    owner, project_id, _ = project
    case_id = await send_sentry(world, owner, project_id, release=None, debug_meta=None)
    [event] = (await listed(owner, case_id))["events"]
    found = await read(owner, case_id, event["id"])
    assert {name: value for name, value in found.items() if name in event} == event
    [library, own] = sorted(found["frames"], key=lambda frame: frame["line"] or 0)
    assert (own["source_url"], own["line"], own["in_app"]) == ("/srv/app/shop/pay.py", 17, True)
    assert (own["context_line"], own["verdict"]) == ("    raise PaymentError(card)", "not_mapped_code")
    assert (library["in_app"], library["context_line"], library["verdict"]) == (False, None, "no_location")
    assert (found["resolved_count"], found["unmapped_source_urls"]) == (0, [])


async def test_the_lines_around_a_frame_are_shown(world: World, project):
    """As the SDK sent them, in the list and with each error, without the secrets in them; a source map comes first."""
    owner, project_id, dsn = project
    around = {"pre_context": ["def charge(card):", f"    key = '{SECRET}'"], "post_context": ["", "def refund():"]}
    sent = deepcopy(PYTHON_EVENT)
    sent["exception"]["values"][1]["stacktrace"]["frames"][0] |= around
    case_id = await send_sentry(world, owner, project_id, **sent)
    [event] = (await listed(owner, case_id))["events"]
    [frame] = [frame for frame in event["exception"]["frames"] if frame["file"] == "pay.py"]
    [before, hidden] = frame["pre_context"]
    assert (before, frame["post_context"]) == ("def charge(card):", ["", "def refund():"])
    assert SECRET not in hidden
    found = await read(owner, case_id, event["id"])
    [own] = [frame for frame in found["frames"] if frame["line"] == 17]
    assert (own["context_before"], own["context_after"]) == ([before, hidden], ["", "def refund():"])
    for kind, content in (("source_map", MAP), ("minified_source", MINIFIED)):
        ok(await put(owner, project_id, content, release="r1", source_url="~/assets/shop.min.js", kind=kind))
    minified = {"file": URL, "line": 1, "column": 73, "function": "divided", "in_app": True, **around}
    led = await log(dsn, "boom", release="r1", extra={"exception": {"type": "E", "frames": [minified]}})
    [frame] = (await read(owner, led["case_id"], led["id"]))["frames"]
    assert frame["context_line"].strip() == 'throw new RangeError("nobody to share with");'
    assert before not in frame["context_before"]


async def test_the_case_shows_its_latest_error_as_the_list_does(world: World, project):
    owner, project_id, _ = project
    case_id = await send_sentry(world, owner, project_id, request={"url": "https://shop.example/"})
    [event] = (await listed(owner, case_id))["events"]
    record = ok(await owner.get(f"/v1/cases/{case_id}"))
    latest = record["latest_event"]
    assert latest.pop("user_id") == event["user"]["id"]
    assert latest == event
    assert latest["dsn"] == "server"
    told = {pointer: origin for pointer, origin in record["origins"].items() if pointer.startswith("/latest_event/")}
    assert (told["/latest_event/grouping"], told["/latest_event/exception"]) == ("server_fact", "untrusted_telemetry")
    assert {pointer.removeprefix("/latest_event/") for pointer in told} == {*event, "user_id"}


async def test_errors_can_be_read_over_the_quota(world: World):
    """What is locked then is unmangling, and nothing else (G-072)."""
    owner = await world.sign_in()
    await world.sql(
        "insert into usage_days (project_id, account_id, day, errors, analytics, suppressed, scrubbed, "
        "last_received_at) select 'proj_gone0000', %s, extract(epoch from service_now())::bigint / 86400 * 86400, "
        "200000, 0, 0, 0, 0",
        owner.user_id,
    )
    made = await owner.create_project()
    sent = await log(world.having(made["dsn"]), "over")
    path = f"/v1/cases/{sent['case_id']}"
    assert ok(await owner.get(f"{path}/events"))["count"] == 1
    assert ok(await owner.get(f"{path}/events/{sent['id']}"))["message"] == "over"
    refused(await owner.post(f"{path}/unmangle", {}), 402, "quota_exceeded")


async def test_errors_lead_to_their_neighbours(world: World, project):
    """In the order of the list, through cases that were merged, over days, and past errors that retention has taken."""
    owner, project_id, dsn = project
    one, other = "Neighbour broke", "Quite different"
    sent = [await log(dsn, one if number % 2 else other, tags={"n": str(number)}) for number in range(5)]
    aside, into = sent[0]["case_id"], sent[1]["case_id"]
    case = ok(await owner.get(f"/v1/cases/{aside}"))
    await act(owner, aside, "merge", case["revision"], into_case_id=into)
    days = "update log_events set received_at = received_at - %s where project_id = %s and id = %s"
    await world.sql(days, 20 * 86_400, project_id, sent[2]["id"])
    stats = "update case_stats set first_seen_at = first_seen_at - %s where project_id = %s"
    await world.sql(stats, 20 * 86_400, project_id)
    order = [event["id"] for page in await pages(owner, into, 2) for event in page]
    assert order[-1] == sent[2]["id"]
    assert len(order) == 5
    for newer, event_id, older in zip([None, *order], order, [*order[1:], None], strict=False):
        found = await read(owner, into, event_id)
        assert (found["newer_event_id"], found["older_event_id"]) == (newer, older)
    await world.sql("delete from log_events where project_id = %s and id = %s", project_id, order[1])
    assert (await read(owner, into, order[0]))["older_event_id"] == order[2]
