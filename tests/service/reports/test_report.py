"""A weekly review over HTTP, from its slot to its recorded report, and what the two operations refuse (G-112)."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

import jsonschema
import msgspec
import pytest
import rfc8785

from scripts import verify_proof
from service.history.rebuild import rebuild
from service.registry import read_models
from tests.support.automation_world import EVENTS, closed
from tests.support.loop.bodies import binding, observed
from tests.support.loop.http_scene import open_scene
from tests.support.loop.origins import origins_in
from tests.support.schedules import AUTOMATION, DAILY, Schedule
from tests.support.server import ServerHandle
from tests.support.weekly import MINIMUM, Weekly, gap, hypothesis, metric, report_on

PRIOR, CURRENT = [10, 6, 3], [19, 8, 3]
SEEN = [(10, 20, 1.0, 1.0), (6, 9, 0.6, 0.45), (3, 4, 0.3, 0.2)]
"""What the source says of them: one person more has been through everything in the current period."""


def recent(weekly: Weekly) -> dict[str, Any]:
    return weekly.at.must(weekly.at.call("GET", f"{weekly.at.project}/automation-control", who="member"), 200)


def proof(weekly: Weekly) -> dict[str, Any]:
    document: dict[str, Any] = verify_proof.load(weekly.at.call("GET", f"{weekly.path}/proof", who=AUTOMATION).content)
    verify_proof.check(document)
    return document


def rows(weekly: Weekly) -> list[tuple[Any, ...]]:
    return weekly.clock.sql(
        "select id, row_to_json(p)::text from reports p where project_id = %s", weekly.at.world.project_id
    )


def test_from_the_slot_to_the_recorded_report(weekly: Weekly) -> None:
    """Every answer tells its origins, the proof holds each step, control shows the report, a rebuild finds the same."""
    weekly.begin(PRIOR, CURRENT)
    assert [stream["kind"] for stream in proof(weekly)["streams"]] == ["trc", "run"]
    source = weekly.at.must(weekly.source(), 200)
    names = ("prior_users", "current_users", "prior_conversion", "current_conversion")
    assert [(row["step"], row["event"], *(row[name] for name in names)) for row in source["rows"]] == [
        (step, event, *seen) for step, (event, seen) in enumerate(zip(EVENTS, SEEN, strict=True), 1)
    ]
    assert [column["name"] for column in source["columns"]] == ["step", "event", *names]
    assert (source["period_start"], source["period_end"]) == (weekly.period_start, weekly.period_end)
    assert source["prior_period_end"] - source["prior_period_start"] == 7 * 86400
    assert source["prior_period_end"] == source["period_start"]
    sample = (source["sample_size"], source["minimum_sample_size"], source["minimum_sample_met"])
    assert (*sample, source["provider"], source["readiness_gap"]) == (10, MINIMUM, True, "local", None)
    periods = {name: source[name] for name in source if "period_" in name}
    hashed = {name: source[name] for name in ("blueprint_id", "events", "rows")} | {"periods": periods}
    assert hashlib.sha256(rfc8785.dumps(hashed)).hexdigest() == source["source_hash"]
    run = weekly.run()
    assert (run["phase"], run["status"], run["report_id"], run["output"]) == ("running", None, None, None)
    assert recent(weekly)["recent_reports"] == []

    report = report_on(source)
    done = weekly.at.must(weekly.record(report), 201)
    assert (done["report"], done["visibility"], done["trust"]) == (report, "private", "untrusted")
    run = weekly.run()
    assert (run["phase"], run["status"], run["output"]) == ("verified_or_reported", "succeeded", report)
    assert run["output_parts"] is None, "the parts are those of a repair"
    assert (done["run"], run["report_id"]) == (run, done["report_id"])
    playbook = weekly.at.must(weekly.at.call("GET", "/v1/automation-playbooks/weekly-funnel-review", who=None), 200)
    jsonschema.validate(run["output"], playbook["run_output_schema"])
    [listed] = weekly.at.must(weekly.at.call("GET", f"{weekly.at.project}/automation-runs", who=AUTOMATION))["runs"]
    assert (listed["report_id"], listed["output"]) == (done["report_id"], None)
    shown = recent(weekly)
    assert shown["recent_reports"] == [
        {
            "report_id": done["report_id"],
            "automation_id": AUTOMATION,
            "run_id": weekly.run_id,
            "period_start": weekly.period_start,
            "period_end": weekly.period_end,
            "recorded_at": done["recorded_at"],
        }
    ]
    assert (shown["exceptions"], shown["truncation"]["recent_reports"]) == ([], False)
    found = origins_in(source) | origins_in(done)
    assert found["/rows/0/prior_users"] == "provider_read"
    assert found["/report/findings/1/title"] == found["/run/output/findings/1/title"] == "runner_output"
    document = proof(weekly)
    assert [stream["kind"] for stream in document["streams"]] == ["trc", "run", "rep"]
    topics = [event["topic"] for event in document["streams"][-1]["events"]]
    assert topics == ["report.source_intended.v1", "report.source_materialized.v1", "report.recorded.v1"]
    named = {(link["stream_id"], link["member"], link["names"]) for link in document["links"]}
    assert named >= {(weekly.run_id, "report_id", done["report_id"]), (done["report_id"], "run_id", weekly.run_id)}
    live = rows(weekly)
    rebuild(weekly.at.world.url, read_models()["reports"])
    assert rows(weekly) == live


def test_the_source_is_read_once_and_answered_ever_after(weekly: Weekly) -> None:
    """With its key, another or none, with the old revision, after more people came, and after the run is over."""
    weekly.begin(PRIOR, CURRENT)
    token = weekly.token()
    first = weekly.at.must(weekly.source(token, key="source"), 200)
    weekly.visit("late", weekly.period_end - 60, [50, 50, 50])
    again = weekly.source(token, key="source")
    assert again.headers["idempotent-replayed"] == "true"
    for answer in (again, weekly.source(token), weekly.source()):
        assert weekly.at.must(answer, 200)["source_hash"] == first["source_hash"]
    closed(weekly.source(weekly.token(), key="source"), 422, "idempotency_key_reused")
    used = weekly.at.must(weekly.act("usage", {"turns": 3}), 200)
    assert "Record the report" in used["next_action"]
    weekly.at.must(weekly.at.post(f"{weekly.path}/cancel", {}, who="owner"), 200)
    shown = weekly.at.must(weekly.source(), 200)
    assert (shown["rows"], "The run has ended" in shown["next_action"]) == (first["rows"], True)
    closed(weekly.record(report_on(first)), 409, "run_terminal")


def test_a_source_is_for_its_fenced_runner(weekly: Weekly) -> None:
    """The fence, the lease and the caller are looked at before anything is read; each refusal leaves nothing."""
    weekly.begin()
    at, token = weekly.at, weekly.token()
    at.world.mint("automation_runner", "other")
    path = f"{weekly.path}/report-source"
    closed(at.post(path, token, who="other"), 403, "automation_mismatch")
    for who in ("owner", "dsn", "stranger"):
        assert at.post(path, token, who=who).status_code in {401, 403}
    closed(at.post(path, token, who=None), 401, "unauthenticated")
    closed(at.post(f"/v1/automation-runs/run_{'0' * 26}/report-source", token, who=AUTOMATION), 404, "run_not_found")
    stale = closed(weekly.source(token | {"state_revision": 2}), 409, "stale_state_revision")
    assert stale["details"]["current_state_revision"] == 1
    closed(weekly.source(token | {"lease_epoch": 2}), 409, "stale_lease_epoch")
    for body in ({}, {"state_revision": 1}, token | {"events": ["x"]}, token | {"lease_epoch": True}, [], "x"):
        closed(weekly.source(body), 400, "invalid_payload")
    closed(weekly.source(token | {"state_revision": 10**30}), 400, "invalid_payload")
    assert rows(weekly) == []
    closed(weekly.record(report_on(FAKE)), 409, "report_source_required")
    weekly.clock.move_to(weekly.run()["deadline_at"])
    closed(weekly.source(token), 409, "deadline_exceeded")
    closed(weekly.record(report_on(FAKE), token), 409, "deadline_exceeded")
    assert rows(weekly) == []


FAKE: dict[str, Any] = {"period_start": 1, "period_end": 2, "source_hash": "0" * 64, "rows": [{}]}
FAKE["rows"] = [{"prior_users": 1, "current_users": 1}] * 3


def test_a_report_is_held_to_its_source_and_its_form(weekly: Weekly) -> None:
    """Each refusal names the field and both values, and leaves the run where it was."""
    weekly.begin(PRIOR, CURRENT)
    source = weekly.at.must(weekly.source(), 200)
    token = weekly.token()

    def refused(code: str, *findings: dict[str, Any], **changes: Any) -> Any:
        return closed(weekly.record(report_on(source, *findings, **changes), token), 409, code)["details"]

    for name, other in (("source_hash", "f" * 64), ("period_start", 7), ("period_end", 9)):
        expected = {"field": f"report.{name}", "expected": source[name], "actual": other}
        assert refused("source_hash_mismatch", **{name: other}) == expected
    details = refused("report_values_differ", gap(), metric(source, 2, current_value=10))
    assert details == {"field": "report.findings[1].current_value", "expected": [9], "actual": 10}
    details = refused("report_values_differ", metric(source, 2, change=1))
    assert details == {"field": "report.findings[0].change", "expected": [1.5, 3], "actual": 1}
    details = refused("report_values_differ", hypothesis(evidence_columns=["revenue"]))
    assert (details["field"], "revenue" in str(details)) == ("report.findings[0].evidence_columns[0]", False)
    for body in BAD_REPORTS:
        answer = weekly.record(body(source), token)
        closed(answer, 400, "invalid_payload")
    huge = msgspec.json.encode(token | {"report": report_on(source, metric(source))}).decode()
    for number in ("1e400", "9" * 400, "NaN", '"\\u0000"'):
        raw = huge.replace('"change":1', f'"change":{number}').encode()
        assert raw != huge.encode()
        closed(weekly.at.post(f"{weekly.path}/actions/record-report", raw, who=AUTOMATION), 400, "invalid_payload")
    closed(weekly.record(report_on(source), token | {"state_revision": 1}), 409, "stale_state_revision")
    closed(weekly.record(report_on(source), token | {"lease_epoch": 9}), 409, "stale_lease_epoch")
    weekly.at.world.mint("automation_runner", "other")
    closed(weekly.record(report_on(source), token, who="other"), 403, "automation_mismatch")
    assert weekly.record(report_on(source), token, who="owner").status_code == 403
    assert (weekly.token(), weekly.run()["phase"]) == (token, "running")
    weekly.at.must(weekly.record(report_on(source), token), 201)


BAD_REPORTS = [
    lambda source: None,
    lambda source: {},
    lambda source: report_on(source, kind="pull_request"),
    lambda source: report_on(source, run_id="x"),
    lambda source: report_on(source, publish=True),
    lambda source: report_on(source, source_hash="F" * 64),
    lambda source: report_on(source, period_start=1.5),
    lambda source: report_on(source, period_start=10**30),
    lambda source: report_on(source, findings=[gap()] * 101),
    lambda source: report_on(source, limitations=["x"] * 21),
    lambda source: report_on(source, {**gap(), "kind": "claim"}),
    lambda source: report_on(source, {**gap(), "operation": "merge"}),
    lambda source: report_on(source, metric(source, causes="x")),
    lambda source: report_on(source, metric(source, prior_value="3")),
    lambda source: report_on(source, hypothesis(rank=0)),
    lambda source: report_on(source, hypothesis(confidence="certain")),
]


def test_a_run_has_one_report_however_often_it_is_sent(weekly: Weekly) -> None:
    """The same one is answered with its key, another and none; another one is refused with both hashes."""
    weekly.begin(PRIOR, CURRENT)
    source = weekly.at.must(weekly.source(), 200)
    token, report = weekly.token(), report_on(source)
    first = weekly.record(report, token, key="report")
    assert first.status_code == 201
    again = weekly.record(report, token, key="report")
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    assert again.content == first.content
    spelt = report_on(source, metric(source, prior_value=3.0), hypothesis(), gap())
    for body, sent in ((report, token), (report, weekly.token()), (spelt, token)):
        assert weekly.at.must(weekly.record(body, sent), 200)["report_id"] == first.json()["report_id"]
    closed(weekly.record(report_on(source, gap()), token, key="report"), 422, "idempotency_key_reused")
    for sent in (token, weekly.token()):
        refused = closed(weekly.record(report_on(source, gap()), sent), 409, "report_already_recorded")["details"]
        assert refused["field"] == "report"
        assert refused["expected"] != refused["actual"]
    closed(weekly.act("usage", {"turns": 1}), 409, "run_terminal")
    assert len(recent(weekly)["recent_reports"]) == 1


def test_too_few_people_make_a_report_of_gaps(weekly: Weekly) -> None:
    weekly.begin([2, 2, 2], CURRENT)
    source = weekly.at.must(weekly.source(), 200)
    assert (source["sample_size"], source["minimum_sample_met"]) == (2, False)
    refused = closed(weekly.record(report_on(source, gap(), metric(source))), 409, "insufficient_sample")["details"]
    assert refused == {
        "field": "report.findings[1].kind",
        "expected": "readiness_gap",
        "actual": "metric",
        "sample_size": 2,
        "minimum_sample_size": MINIMUM,
    }
    weekly.at.must(weekly.record(report_on(source, gap())), 201)


def test_a_stop_holds_source_and_report_back_and_leaves_the_end_open(weekly: Weekly) -> None:
    """G-114: what is stored is still shown; the runner may hand over."""
    weekly.begin(PRIOR, CURRENT)
    weekly.at.pause()
    closed(weekly.source(), 409, "automation_paused")
    assert rows(weekly) == []
    weekly.at.enable()
    source = weekly.at.must(weekly.source(), 200)
    weekly.at.pause()
    assert weekly.at.must(weekly.source(), 200)["source_hash"] == source["source_hash"]
    closed(weekly.record(report_on(source)), 409, "automation_paused")
    assert "ends the run" in weekly.run()["next_action"]
    done = weekly.at.call(
        "PATCH", weekly.path, weekly.token() | {"status": "escalated", "reason": "Stopped."}, who=AUTOMATION
    )
    assert weekly.at.must(done, 200)["status"] == "escalated"
    assert weekly.run()["report_id"] is None


def test_control_shows_the_latest_twenty_and_says_that_there_are_more(weekly: Weekly) -> None:
    """The newest first; of reports that are not recorded nothing."""
    weekly.clock.sql(
        "insert into reports (project_id, id, revision, run_id, automation_id, status, period_start, period_end, "
        "recorded_at, state) select %s, 'rep_' || n, 1, 'run_' || n, 'review', 'recorded', n, n + 1, "
        "case when n %% 2 = 0 then n end, '{}' from generate_series(1, 42) n returning 0",
        weekly.at.world.project_id,
    )
    shown = recent(weekly)
    assert [item["recorded_at"] for item in shown["recent_reports"]] == list(range(42, 2, -2))
    assert shown["truncation"]["recent_reports"]
    weekly.clock.sql(
        "delete from reports where project_id = %s and period_start = 2 returning 0", weekly.at.world.project_id
    )
    assert not recent(weekly)["truncation"]["recent_reports"]


def test_a_review_has_no_pull_request_to_speak_of(weekly: Weekly) -> None:
    """What belongs to a change of code is refused in its words, and no person can be asked to allow it (R-PB-11)."""
    weekly.begin(PRIOR, CURRENT)
    weekly.at.world.mint("ci_deploy")
    always = {"update_automation_run", "record_automation_usage", "request_automation_approval"}
    always |= {"cancel_automation_run"}
    assert weekly.left() == always | {"read_report_source"}
    for action in ("draft_pr", "auto_merge"):
        refused = weekly.act("approvals", {"action": action, "summary": "May I?"})
        details = closed(refused, 409, "run_transition_not_allowed")["details"]
        assert details.pop("allowed_next")
        assert details == {"field": "action", "expected": "escalate", "actual": action}
    opened = weekly.at.post(f"{weekly.path}/pr-proof", observed("review_required"), who="ci")
    change = weekly.act("actions/draft-pr/authorize", binding("review_required"))
    merge = {"pr_number": 7, "head_sha": "c" * 40, "merge_method": "squash"}
    for refused in (
        closed(change, 409, "run_transition_not_allowed"),
        closed(weekly.act("actions/auto-merge/authorize", merge), 409, "run_transition_not_allowed"),
        closed(opened, 409, "pr_proof_required"),
        closed(weekly.at.post(f"{weekly.path}/verify", {}, who="owner"), 409, "deploy_not_bound"),
    ):
        assert refused["next_action"] == "Read the run and follow its next_action."
    assert (weekly.run()["phase"], weekly.run()["approvals"]) == ("run_started", [])
    weekly.at.must(weekly.source(), 200)
    assert weekly.left() == always | {"record_report"}


def test_a_report_is_for_its_project_alone(weekly: Weekly) -> None:
    """Members, owners and the automation's own runners read it; nobody else sees a word of it, nor that it exists."""
    weekly.begin(PRIOR, CURRENT)
    at = weekly.at
    at.must(weekly.record(report_on(at.must(weekly.source(), 200))), 201)
    at.world.mint("automation_runner", "other")
    at.world.mint("ci_deploy")
    title = hypothesis()["title"]
    for who in ("owner", "member", AUTOMATION):
        assert title in at.call("GET", weekly.path, who=who).text
    control = f"{at.project}/automation-control"
    for path in (weekly.path, f"{weekly.path}/proof", f"{at.project}/automation-runs", control):
        refused = {who: at.call("GET", path, who=who) for who in ("stranger", "other", "ci", "dsn", None)}
        assert (refused["stranger"].status_code, refused[None].status_code) == (404, 401)
        assert all(title not in answer.text and weekly.run_id not in answer.text for answer in refused.values()), path
        assert {refused[who].status_code for who in ("ci", "dsn")} == {403}, path
        assert refused["other"].status_code == 403 or refused["other"].json()["runs"] == [], path
    for who in ("stranger", "other"):
        closed(weekly.source(weekly.token(), who=who), *SEEN_BY[who])
        closed(weekly.record(report_on(FAKE), weekly.token(), who=who), *SEEN_BY[who])


SEEN_BY = {"stranger": (403, "principal_not_allowed"), "other": (403, "automation_mismatch")}
NIGHTS = {"spring": ("2027-03-28", "01:00"), "autumn": ("2027-10-31", "00:30")}
"""Of 02:30 in Berlin there is none, or two: the slot is the next minute that there is, or the first. In UTC."""


@pytest.mark.parametrize("night", NIGHTS)
def test_a_night_that_changes_the_clock_has_one_review(server: ServerHandle, night: str) -> None:
    """From its slot to its report; whoever asks later in the night, the second 02:30 included, finds no other."""
    date, time = NIGHTS[night]
    slot = int(datetime.fromisoformat(f"{date}T{time}+00:00").timestamp())
    with open_scene(server) as at:
        Schedule(at, DAILY).move_to(slot - 7200)
        weekly = Weekly(at).begin(PRIOR, CURRENT)
        assert (weekly.period_start, weekly.period_end) == (slot - 7 * 86400, slot)
        source = at.must(weekly.source(), 200)
        assert [(row["prior_users"], row["current_users"]) for row in source["rows"]] == [(10, 20), (6, 9), (3, 4)]
        at.must(weekly.record(report_on(source)), 201)
        for later in range(1200, 5 * 3600, 1200):
            weekly.clock.move_to(slot + later)
            assert weekly.clock.issue()["trigger_receipts"] == []
        [receipt] = weekly.clock.receipts()
        assert (receipt["schedule"]["scheduled_for"], receipt["consumed_run_id"]) == (slot, weekly.run_id)
        assert len(recent(weekly)["recent_reports"]) == 1


def test_a_fenced_project_takes_neither(weekly: Weekly) -> None:
    weekly.begin(PRIOR, CURRENT)
    token = weekly.token()
    source = weekly.at.must(weekly.source(token), 200)
    weekly.at.world.fence()
    closed(weekly.source(token), 409, "project_deletion_in_progress")
    closed(weekly.record(report_on(source), token), 409, "project_deletion_in_progress")
