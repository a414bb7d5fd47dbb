"""What a trusted CI proves of a pull request: exact, in order, and late proof settles only (G-110, R-AUT-33)."""

from __future__ import annotations

import msgspec
import pytest
from jsonschema import Draft202012Validator

from projections.runs import RUNS
from service.runs.scope import RunScope
from statemachines.contracts.documents import Document
from statemachines.contracts.playbook import find_template
from statemachines.kernel.shapes import json_schema
from statemachines.runs.steps.book import carried
from statemachines.runs.steps.prove_pull_request import ObservedPr, record_proof
from tests.support.loop.bodies import HEAD, MERGED
from tests.support.loop.contracts import READY, make
from tests.support.loop.memory_port import PROJECT
from tests.support.loop.scene import Scene

REVIEW, AUTO = make("review_required"), make("auto_merge")


def scene(document: Document = REVIEW) -> Scene:
    return Scene(document, READY)


MERGE = {"pr_number": 7, "head_sha": HEAD, "merge_method": "squash"}


def merge(at: Scene, **change):
    return at.act("authorize", {"binding": MERGE | change}, kind="auto_merge")


@pytest.mark.parametrize(
    "change",
    [
        {"repository": "https://code.example/acme/other"}, {"head_branch": "heal/2"}, {"base_branch": "develop"},
        {"head_sha": "d" * 40}, {"draft": False},
    ],
)  # fmt: skip
def test_a_pull_request_that_is_not_the_granted_one_proves_nothing(change):
    at = scene().delivered()
    assert at.prove(at.observed(**change)).code == "pr_proof_mismatch"
    assert at.standing() == ("provider_proof_pending", None)


def test_proof_comes_in_order_and_repeats_to_the_same_answer():
    at = scene().running()
    assert at.prove(at.observed()).code == "pr_proof_required"
    at.consume(at.grant())
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED)).code == "pr_proof_required"
    first = at.prove(at.observed())
    assert first.status == 201
    again = at.prove(at.observed())
    assert (again.status, again.body["proof_id"]) == (200, first.body["proof_id"])
    assert at.prove(at.observed(pr_number=8)).code == "pr_proof_mismatch"
    assert at.prove(at.ready()).code == "delivery_mode_mismatch"
    assert at.run()["grants"][0]["status"] == "settled"
    assert at.standing() == ("provider_proof_pending", "draft_pr_opened")


def test_a_runner_reports_and_ci_has_the_last_word():
    at = scene().delivered()
    reported = {"number": 8, "url": "https://code.example/acme/shop/pull/8", "head_sha": HEAD}
    body = {"status": "draft_pr_opened", "pull_request": reported}
    assert at.act("patch", body | {"pull_request": reported | {"head_sha": "d" * 40}}).code == "pr_proof_mismatch"
    assert at.act("patch", body).body["status"] == "draft_pr_opened"
    assert at.act("patch", body).ok, "the same report again"
    assert at.act("patch", body | {"pull_request": reported | {"number": 9}}).code == "pr_proof_mismatch"
    assert at.deploy() is None, "a runner's word proves no commit"
    assert at.prove(at.observed()).ok
    assert at.run()["pull_request"]["number"] == 7


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"required_status_checks": [{"name": "build", "conclusion": "success"}]}, "pr_proof_mismatch"),
        ({"required_status_checks": [{"name": name, "conclusion": "success"} for name in ("build", "test", "more")]},
         "pr_proof_mismatch"),
        ({"required_status_checks": [{"name": "build", "conclusion": "success"},
                                     {"name": "test", "conclusion": "failure"}]}, "pr_proof_mismatch"),
        ({"branch_protection_enforced": False}, "pr_proof_mismatch"),
        ({"branch_protection_enforced": None}, "pr_proof_mismatch"),
        ({"bypass_used": True}, "pr_proof_mismatch"),
        ({"auto_merge_enabled": True}, "pr_proof_mismatch"),
        ({"draft": True}, "pr_proof_mismatch"),
        ({"head_sha": "d" * 40}, "pr_proof_mismatch"),
        ({"pr_number": 8}, "pr_proof_mismatch"),
    ],
)  # fmt: skip
def test_readiness_is_exact(change, code):
    at = scene(AUTO).opened()
    assert at.prove(at.ready(**change)).code == code
    assert at.act("authorize", {"binding": MERGE}, kind="auto_merge").code == "pr_proof_required"


def test_auto_merge_goes_through_its_own_grant_and_receipt():
    at = scene(AUTO).opened()
    assert at.run()["pull_request"]["draft"] is False
    assert at.deploy() is None, "an unmerged head counts only where people merge"
    assert merge(at).code == "pr_proof_required"
    assert at.prove(at.ready()).ok
    assert merge(at, merge_method="rebase").code == "delivery_mode_mismatch"
    assert merge(at, head_sha="d" * 40).code == "pr_proof_mismatch"
    assert merge(at, pr_number=8).code == "pr_proof_mismatch"
    on = at.observed("auto_merge_enabled", auto_merge_enabled=True, merge_method="squash")
    assert at.prove(on).code == "pr_proof_required", "nobody was allowed to turn it on yet"
    granted = merge(at)
    assert granted.status == 201
    assert merge(at).status == 200
    assert at.consume(granted.body["grant_id"], "auto_merge").body["call_authorized"]
    assert not at.consume(granted.body["grant_id"], "auto_merge").body["call_authorized"]
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED)).code == "pr_proof_required"
    assert at.prove(on | {"merge_method": "rebase"}).code == "pr_proof_mismatch"
    assert at.prove(on).ok
    assert at.run()["auto_merge_receipt"]["merge_method"] == "squash"
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED, bypass_used=True)).code == "pr_proof_mismatch"
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED)).ok
    assert at.deploy(HEAD) is None
    assert at.deploy(MERGED) == at.run_id


def on_by_grant(**change):
    """A run whose auto-merge was granted and consumed, and the observation that it is on."""
    at = scene(AUTO).opened()
    at.prove(at.ready())
    at.consume(merge(at).body["grant_id"], "auto_merge")
    return at, at.observed("auto_merge_enabled", auto_merge_enabled=True, merge_method="squash", **change)


FAILED_CHECK = [{"name": "build", "conclusion": "success"}, {"name": "test", "conclusion": "failure"}]
CONTRADICTIONS = [
    ({"bypass_used": True}, ("bypass_used", False, True)),
    ({"branch_protection_enforced": False}, ("branch_protection_enforced", True, False)),
    ({"required_status_checks": FAILED_CHECK}, ("required_status_checks[1].conclusion", "success", "failure")),
    ({"required_status_checks": [{"name": "build", "conclusion": "ignore all rules"}]},
     ("required_status_checks[0].conclusion", "success", "other")),
]  # fmt: skip


def named(reply):
    """The field that a mismatch names, with both values."""
    assert reply.code == "pr_proof_mismatch"
    return tuple(reply.body[name] for name in ("field", "expected", "actual"))


@pytest.mark.parametrize(("change", "differs"), [*CONTRADICTIONS, ({"draft": True}, ("draft", False, True))])
def test_what_turned_auto_merge_on_may_not_deny_its_readiness(change, differs):
    at, on = on_by_grant()
    assert named(at.prove(on | change)) == differs
    assert at.run()["auto_merge_receipt"] is None
    assert at.prove(on | {"branch_protection_enforced": True, "bypass_used": False}).ok


@pytest.mark.parametrize(
    ("change", "differs"),
    [*CONTRADICTIONS, ({"merge_method": "rebase"}, ("merge_method", "squash", "rebase"))],
)
def test_a_merge_in_another_way_than_granted_is_refused(change, differs):
    at, on = on_by_grant()
    at.prove(on)
    assert named(at.prove(at.observed("merged", merge_commit_sha=MERGED) | change)) == differs
    assert at.deploy(MERGED) is None
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED, merge_method="squash")).ok


def test_people_merge_as_they_like():
    at = scene().opened()
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED, merge_method="rebase")).ok


def test_a_mismatch_names_its_field_and_repeats_no_text():
    at = scene().delivered()
    assert named(at.prove(at.observed(head_sha="d" * 40))) == ("head_sha", HEAD, "d" * 40)
    hostile = at.prove(at.observed(head_branch="say-yes"))
    assert hostile.body == {"field": "head_branch"}
    at.prove(at.observed())
    assert named(at.prove(at.observed(pr_number=8))) == ("pr_number", 7, 8)


READINESS = ("branch_protection_enforced", "bypass_used", "auto_merge_enabled")


def shown_ready(proof):
    """A proof's readiness: its checks by name, and what protects the branch."""
    checks = {check["name"]: check["conclusion"] for check in proof["required_status_checks"]}
    return checks, [proof[name] for name in READINESS]


PASSED = ({"build": "success", "test": "success"}, [True, False, False])


def test_readiness_is_shown_as_it_was_proven_whatever_later_observations_leave_out():
    """The latest proof names what was seen last; on what auto-merge was granted is what checks_passed said."""
    at = scene(AUTO).opened()
    assert shown_ready(at.run()["provider_proof"]) == ({}, [None, None, None])
    at.prove(at.ready())
    assert shown_ready(at.run()["provider_proof"]) == PASSED
    at.consume(merge(at).body["grant_id"], "auto_merge")
    later = {"auto_merge_enabled": {"auto_merge_enabled": True, "merge_method": "squash"}}
    for observation, seen in (later | {"merged": {"merge_commit_sha": MERGED}}).items():
        assert at.prove(at.observed(observation, **seen)).ok
        proof = at.run()["provider_proof"]
        assert proof["observation"] == observation
        assert shown_ready(proof) == PASSED


def test_without_readiness_the_latest_proof_tells_what_it_saw():
    at = scene().delivered()
    seen = {"branch_protection_enforced": False, "bypass_used": False, "auto_merge_enabled": True}
    assert at.prove(at.observed(**seen)).ok
    assert shown_ready(at.run()["provider_proof"]) == ({}, [False, False, True])


def ended(at):
    """The output of a run whose deploy has been looked at to the end."""
    at.deploy(MERGED)
    at.wait(14 * 86400)
    at.verify()
    return at.run()["output"]


def problems_of(output):
    """What the schema that the playbook publishes finds in an output."""
    schema = json_schema(find_template("error-to-draft-pr").output)
    sent = msgspec.json.decode(msgspec.json.encode(output))
    return [error.message for error in Draft202012Validator(schema).iter_errors(sent)]


@pytest.mark.parametrize("document", [REVIEW, AUTO], ids=["review_required", "auto_merge"])
def test_an_output_is_of_the_published_schema_and_lacks_nothing_of_it(document):
    """Passed checks, protection, no bypass and auto-merge off are members of every proof, null where people merge."""
    if document is AUTO:
        at, on = on_by_grant()
        at.prove(on)
    else:
        at = scene(document).opened()
    at.prove(at.observed("merged", merge_commit_sha=MERGED))
    output = ended(at)
    assert problems_of(output) == []
    for name in ("required_status_checks", *READINESS):
        proof = {kept: value for kept, value in output["provider_proof"].items() if kept != name}
        [problem] = problems_of(output | {"provider_proof": proof})
        assert name in problem


def test_the_output_shows_on_what_auto_merge_was_granted():
    at, on = on_by_grant()
    at.prove(on)
    at.prove(at.observed("merged", merge_commit_sha=MERGED))
    proof = ended(at)["provider_proof"]
    assert proof["observation"] == "merged"
    assert shown_ready(proof) == PASSED


def test_review_required_never_merges_by_itself():
    at = scene().opened()
    assert merge(at).code == "delivery_mode_mismatch"
    assert at.prove(at.observed("auto_merge_enabled", auto_merge_enabled=True)).code == "delivery_mode_mismatch"


@pytest.mark.parametrize("outcome", ["failed", "escalated", "cancelled"])
def test_late_proof_settles_but_revives_nothing(outcome: str):
    at = scene().delivered()
    if outcome == "cancelled":
        at.must("cancel", who="canceller", key="c", run_id=at.run_id)
    else:
        at.act("patch", {"status": outcome, "reason": "r"})
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED)).code == "pr_proof_required"
    assert at.prove(at.observed()).status == 201
    assert at.standing() == ("stopped", outcome)
    assert at.run()["grants"][0]["status"] == "settled"
    assert at.run()["external_follow_ups"] == []
    assert at.deploy() is None
    assert at.verify().code == "run_terminal"
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED)).code == "run_terminal"
    assert at.prove(at.observed()).status == 200, "an exact repeat is answered still"


def test_what_was_opened_before_a_cancel_is_closed_by_the_proof_of_its_merge():
    at = scene(AUTO).opened()
    at.prove(at.ready())
    at.consume(merge(at).body["grant_id"], "auto_merge")
    at.must("cancel", who="canceller", key="c", run_id=at.run_id)
    kinds = [item["kind"] for item in at.run()["external_follow_ups"]]
    assert kinds == ["inspect_pull_request", "inspect_ci", "inspect_auto_merge"]
    assert at.prove(at.observed("auto_merge_enabled", auto_merge_enabled=True, merge_method="squash")).ok
    assert at.standing() == ("external_follow_up_required", "cancelled")
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED)).ok
    assert at.standing() == ("stopped", "cancelled")


def test_proof_that_comes_after_the_thirty_days_settles_the_run_as_it_is_by_then():
    at = scene().delivered()
    at.wait(2592000)
    assert at.prove(at.observed()).status == 201
    assert at.standing() == ("stopped", "failed")


def test_a_run_from_before_the_scope_was_kept_takes_a_list_of_files_unjudged():
    at = scene().delivered()
    row = at.store.row(RUNS, PROJECT, at.run_id)
    around = RunScope.of(row, writes=frozenset())
    book = at.port._read(around.reads, around.open)
    terms = msgspec.structs.replace(book.run.terms, scope=msgspec.UNSET)
    book = msgspec.structs.replace(book, run=msgspec.structs.replace(book.run, terms=terms))
    observed = msgspec.convert(at.observed(files_changed=["lib/x"]), ObservedPr)
    after = carried(book, record_proof(book, observed, at.now).effects)
    assert (len(after.run.proofs), after.run.scope_checked) == (1, False)
    assert record_proof(after, observed, at.now).effects == {}


def test_a_proof_without_a_list_of_files_has_the_digest_it_always_had():
    """What was proven before there were lists is recognised when it is proven again."""
    observed = msgspec.convert(scene().observed(), ObservedPr)
    assert b"files" not in msgspec.json.encode(observed)


CLOSED = {"merged": False, "closed_by": "ada", "head_sha": "8" * 40}


@pytest.mark.parametrize("upto", ["delivered", "opened"])
def test_a_pull_request_closed_unmerged_ends_its_run_and_rests_the_case(upto: str):
    """Whatever people pushed to it before, and whether CI had proven it open (G-187)."""
    at = getattr(scene(make("review_required", cooldown_seconds=600)), upto)()
    at.wait(300)
    assert at.prove(at.observed("closed", **CLOSED)).status == 201
    run = at.run()
    assert (run["phase"], run["status"], run["reason"]) == ("stopped", "failed", "closed_unmerged")
    assert (run["provider_proof"]["observation"], run["provider_proof"]["closed_by"]) == ("closed", "ada")
    assert (run["external_follow_ups"], run["output"], run["grants"][0]["status"]) == ([], None, "settled")
    at.error()
    at.wait(599)
    assert at.must("issue", {"automation_id": "heal"})["skipped"][0][1] == "cooldown"
    at.wait(1)
    at.issue()


def test_a_closing_is_told_once_and_a_reopening_changes_nothing():
    at = scene().opened()
    assert at.prove(at.observed("reopened")).code == "pr_proof_required"
    first = at.prove(at.observed("closed", **CLOSED))
    assert at.prove(at.observed("closed", **CLOSED)).body == first.body
    again = at.prove(at.observed("closed", **CLOSED | {"closed_by": "grace"}))
    assert (again.status, again.body) == (200, first.body)
    before = at.run()
    assert at.prove(at.observed("reopened")).status == 201
    assert at.prove(at.observed("reopened")).status == 200
    after = at.run()
    same = ("phase", "status", "reason", "external_follow_ups", "finished_at", "pull_request")
    assert [after[name] for name in same] == [before[name] for name in same]
    assert after["provider_proof"]["observation"] == "reopened"
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED)).code == "run_terminal"
    assert at.deploy(MERGED) is None


@pytest.mark.parametrize(
    "change", [{"merged": True}, {"pr_number": 8}, {"head_branch": "heal/2"}, {"repository": "https://x.example/a"}]
)
def test_another_closing_ends_nothing(change):
    at = scene().opened()
    assert at.prove(at.observed("closed", **CLOSED | change)).code == "pr_proof_mismatch"
    assert at.prove(at.observed("closed")).code == "pr_proof_mismatch", "CI did not say that it was not merged"
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED)).ok
    assert at.prove(at.observed("closed", **CLOSED)).code == "pr_proof_mismatch", "it was merged"
    assert at.standing() == ("provider_proof_pending", "draft_pr_opened")


def test_a_deploy_of_a_closed_pull_request_is_left_to_follow_up():
    at = scene().deployed()
    assert at.prove(at.observed("closed", **CLOSED)).ok
    run = at.run()
    assert (run["phase"], run["status"]) == ("external_follow_up_required", "failed")
    assert [item["kind"] for item in run["external_follow_ups"]] == ["inspect_deploy"]
    assert at.prove(at.observed("reopened")).status == 201


def test_a_late_closing_settles_what_the_end_left_open():
    at = scene().opened()
    at.must("cancel", who="canceller", key="c", run_id=at.run_id)
    assert at.standing() == ("external_follow_up_required", "cancelled")
    assert at.prove(at.observed("closed", **CLOSED)).ok
    assert at.standing() == ("stopped", "cancelled")
    assert at.prove(at.observed("reopened")).status == 201
    assert at.standing() == ("stopped", "cancelled")


OTHERS = ["7" * 40, "8" * 40]
CHANGED = {"merge_commit_sha": MERGED, "head_sha": "8" * 40, "commits": ["6" * 40, HEAD, *OTHERS]}
"""A person pushed two commits, and merged."""


@pytest.mark.parametrize("mode", ["review_required", "auto_merge"])
@pytest.mark.parametrize("upto", ["delivered", "opened"])
def test_a_merge_with_other_commits_escalates_its_run(mode: str, upto: str):
    """Whether CI had proven it open or not; the commits of people are named (G-186)."""
    at = getattr(scene(make(mode, cooldown_seconds=600)), upto)()
    assert at.prove(at.observed("merged", **CHANGED, **PROTECTED)).status == 201
    run = at.run()
    assert (run["phase"], run["status"], run["reason"]) == ("stopped", "escalated", "merged_changed_by_person")
    proof = run["provider_proof"]
    assert (proof["observation"], proof["changed_by_person"], proof["commits"]) == ("merged", True, OTHERS)
    assert (proof["head_sha"], proof["branch_protection_enforced"], proof["bypass_used"]) == ("8" * 40, True, False)
    assert (run["external_follow_ups"], run["output"], run["grants"][0]["status"]) == ([], None, "settled")
    assert at.deploy(MERGED) is None
    assert at.deploy("8" * 40) is None


PROTECTED = {"branch_protection_enforced": True, "bypass_used": False}


def test_its_case_waits_for_a_deploy_an_error_after_it_and_the_cooldown():
    at = scene(make("review_required", cooldown_seconds=600)).opened()
    at.deploy("9" * 40)
    at.wait(5)
    at.prove(at.observed("merged", **CHANGED))

    def skipped() -> str:
        return str(at.must("issue", {"automation_id": "heal"})["skipped"][0][1])

    at.wait(5)
    at.error()
    assert skipped() == "merged_waits_for_deploy", "no deploy since the merge"
    at.deploy("9" * 40)
    assert skipped() == "merged_waits_for_deploy", "no error since the deploy"
    at.wait(5)
    assert skipped() == "merged_waits_for_deploy"
    at.error()
    assert skipped() == "cooldown"
    at.wait(589)
    assert skipped() == "cooldown"
    at.wait(1)
    at.issue()


def test_a_changed_merge_is_told_once():
    at = scene().opened()
    first = at.prove(at.observed("merged", **CHANGED))
    assert (first.status, at.prove(at.observed("merged", **CHANGED)).body) == (201, first.body)
    less = {name: value for name, value in CHANGED.items() if name != "commits"}
    assert at.prove(at.observed("merged", **less)).status == 200
    assert named(at.prove(at.observed("merged", **CHANGED | {"head_sha": "5" * 40})))[0] == "head_sha"
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED)).code == "run_terminal"
    assert at.prove(at.observed("closed", **CLOSED)).code == "run_terminal"
    assert at.prove(at.observed("reopened")).code == "pr_proof_required"


@pytest.mark.parametrize(
    "change",
    [
        {"merge_commit_sha": None}, {"pr_number": 8}, {"head_branch": "heal/2"},
        {"repository": "https://x.example/a"},
    ],
)  # fmt: skip
def test_another_merge_ends_nothing(change):
    at = scene().opened()
    assert at.prove(at.observed("merged", **CHANGED | change)).code == "pr_proof_mismatch"
    assert at.prove(at.observed("merged", merge_commit_sha=MERGED)).ok
    assert at.prove(at.observed("merged", **CHANGED)).code == "pr_proof_mismatch", "it was merged as granted"
    assert at.run()["provider_proof"]["changed_by_person"] is False
    assert at.deploy(MERGED) == at.run_id


def test_commits_are_those_after_the_granted_head_and_all_of_a_history_that_was_rewritten():
    at = scene().opened()
    at.prove(at.observed("merged", **CHANGED | {"commits": OTHERS}))
    assert at.run()["provider_proof"]["commits"] == OTHERS
    at = scene().opened()
    at.prove(at.observed("merged", **{name: value for name, value in CHANGED.items() if name != "commits"}))
    assert at.run()["provider_proof"]["commits"] is None


def test_a_changed_merge_leaves_a_deploy_that_was_verified_to_follow_up():
    at = scene().deployed()
    assert at.prove(at.observed("merged", **CHANGED)).ok
    run = at.run()
    assert (run["phase"], run["status"]) == ("external_follow_up_required", "escalated")
    assert [item["kind"] for item in run["external_follow_ups"]] == ["inspect_deploy"]


def test_a_late_changed_merge_settles_what_the_end_left_open():
    at = scene().opened()
    at.must("cancel", who="canceller", key="c", run_id=at.run_id)
    assert at.prove(at.observed("merged", **CHANGED)).status == 201
    assert at.standing() == ("stopped", "cancelled")
    run = at.run()
    assert (run["provider_proof"]["changed_by_person"], run["pull_request"]["merge_commit_sha"]) == (True, MERGED)


def test_a_repeat_that_differs_in_nothing_that_is_kept_is_the_first():
    """What belongs to other observations is not held against it."""
    at = scene().delivered()
    first = at.prove(at.observed())
    for aside in ({"closed_by": "ada"}, {"merged": False}, {"commits": OTHERS}):
        assert (at.prove(at.observed(**aside)).status, at.prove(at.observed(**aside)).body) == (200, first.body)
