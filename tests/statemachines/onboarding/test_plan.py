"""What makes a plan acceptable beyond its form, and its hash (R-ONB-03, R-ONB-11, G-081, G-086)."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from statemachines.onboarding.lifecycle import Onboarding, OnboardingApproved, Status, decide_approve
from statemachines.onboarding.plan import (
    HOLDS_CONTACT,
    HOLDS_FORM,
    HOLDS_SECRET,
    MAX_ISSUES,
    NOT_RELATIVE,
    ONE_SAFE_FAILURE,
    PERSONAL_NAME,
    SECRET_NAME,
    WINDOW_ORDER,
    FieldIssue,
    Plan,
    PlanRefused,
    check_plan,
    hash_plan,
    is_repository_relative,
    plan_issues,
    propose,
)
from tests.support.plans import history_body, make_plan, plan_body, target


def failures(*safe: bool) -> list[dict[str, Any]]:
    template = plan_body()["failures"][0]
    return [{**template, "marker": f"failure_{i}", "safe_live_proof": flag} for i, flag in enumerate(safe)]


def test_the_plan_of_the_tests_is_acceptable() -> None:
    """Nothing is wrong with the plan that the other tests change."""
    assert plan_issues(make_plan(historical_evidence=history_body())) == []


@given(st.lists(st.booleans(), min_size=1, max_size=6))
def test_exactly_one_failure_is_safe(safe: list[bool]) -> None:
    """None and two are refused, whatever else there is (R-ONB-03)."""
    issues = plan_issues(make_plan(failures=failures(*safe)))
    assert issues == ([] if sum(safe) == 1 else [FieldIssue("plan.failures", ONE_SAFE_FAILURE)])


def test_names_are_checked_where_values_would_be_captured() -> None:
    """Properties of milestones and context of failures are checked, each named by its place (R-ONB-11)."""
    plan = plan_body()
    plan["milestones"][1]["properties"] = ["amount", "E-Mail"]
    plan["failures"][1]["context"] = ["session_cookie"]
    assert plan_issues(msgspec.convert(plan, Plan), "replacement_plan") == [
        FieldIssue("replacement_plan.milestones[1].properties[1]", PERSONAL_NAME),
        FieldIssue("replacement_plan.failures[1].context[0]", SECRET_NAME),
    ]


SECRETS = [f"service_{kind}_{'aB3' * 6}" for kind in ("sk", "ci", "runner", "dsn")]


@pytest.mark.parametrize("secret", SECRETS)
def test_credentials_of_the_service_are_refused_and_not_repeated(secret: str) -> None:
    """A plan that holds one is refused wherever it stands, and the refusal does not hold it (R-ONB-04)."""
    for changes in (
        {"plan_markdown": f"Use `{secret}` here."},
        {"business_question": secret},
        {"milestones": [{**plan_body()["milestones"][0], "targets": [target(anchor=f"key = '{secret}'")]}]},
    ):
        with pytest.raises(PlanRefused) as refused:
            check_plan(make_plan(**changes))
        [issue] = refused.value.details["invalid_fields"]
        assert issue["reason"] == HOLDS_SECRET
        assert secret not in json.dumps(refused.value.details) + str(refused.value) + str(refused.value.next_action)


MILESTONE, FAILURE = plan_body()["milestones"][0], plan_body()["failures"][0]
PLACES: list[tuple[str, Callable[[str], dict[str, Any]]]] = [
    ("plan.plan_markdown", lambda text: {"plan_markdown": f"# Plan\nCall {text}."}),
    ("plan.plan_markdown", lambda text: {"plan_markdown": text}),
    ("plan.business_question", lambda text: {"business_question": f"Does {text} pay?"}),
    ("plan.milestones[0].event", lambda text: {"milestones": [{**MILESTONE, "event": text}]}),
    ("plan.milestones[0].meaning", lambda text: {"milestones": [{**MILESTONE, "meaning": text}]}),
    ("plan.milestones[0].properties[0]", lambda text: {"milestones": [{**MILESTONE, "properties": [text]}]}),
    ("plan.failures[0].marker", lambda text: {"failures": [{**FAILURE, "marker": text}]}),
    ("plan.failures[0].context[0]", lambda text: {"failures": [{**FAILURE, "context": [text]}]}),
    ("plan.deploy.environment", lambda text: {"deploy": {**plan_body()["deploy"], "environment": text}}),
]
HELD = {
    HOLDS_FORM: ["sk_live_" + "a1" * 12, "AKIA" + "A1" * 8, "ghp_" + "a1" * 18, "4111 1111 1111 1111",
                 "xoxb-123456789012", "eyJ" + "a" * 20 + "." + "b" * 20 + ".c", "postgres://user:pass@host.example/db"],
    HOLDS_CONTACT: ["ann@shop.example", "+49 30 1234567", "+14155550123", "ann@\u200bshop.example"],
    HOLDS_SECRET: SECRETS[:1],
}  # fmt: skip


@pytest.mark.parametrize(("field", "put"), PLACES, ids=[f"{i} {field}" for i, (field, _) in enumerate(PLACES)])
@pytest.mark.parametrize(("rule", "text"), [(rule, text) for rule, texts in HELD.items() for text in texts])
def test_texts_of_a_known_form_are_refused_by_their_place(
    field: str, put: Callable[[str], dict[str, Any]], rule: str, text: str
) -> None:
    """Credentials, cards, addresses and telephone numbers, in the text and in identifiers (G-192)."""
    issues = plan_issues(make_plan(**put(text)))
    assert [issue.reason for issue in issues if issue.field == field][:1] == [rule]
    assert text not in str(issues)


def test_code_may_hold_an_address_and_no_credential() -> None:
    """What is anchored is the source as it is (R-ONB-08)."""

    def anchored(anchor: str) -> list[FieldIssue]:
        return plan_issues(make_plan(milestones=[{**MILESTONE, "targets": [target(anchor=anchor)]}]))

    assert anchored("origin = 'git@host.example:shop.git'") == []
    field = "plan.milestones[0].targets[0].anchor"
    assert anchored(f"key = '{'sk_live_' + 'a1' * 12}'") == [FieldIssue(field, HOLDS_FORM)]


def test_a_plan_that_is_stored_stays_valid() -> None:
    """What was taken under other rules is approved, and proven, by its hash (G-192)."""
    kept = make_plan(
        plan_markdown="Ask ann@shop.example.", milestones=[{**MILESTONE, "properties": ["user_email", "session_id"]}]
    )
    assert plan_issues(kept)
    sha256 = hash_plan(kept)
    stored = Onboarding(Status.PLANNED, "onb_1", revision=1, plan=kept, plan_sha256=sha256)
    [approved] = decide_approve(stored, sha256, if_match=stored.etag, now=1001)
    assert approved == OnboardingApproved(sha256, 1001)


@pytest.mark.parametrize(
    "file", ["a", "src/a.ts", "app/[...slug]/page.tsx", "a..b/c..d", ".github/ci.yml", "dir/a:b", "dir with space/ü"]
)
def test_relative_files_are_taken(file: str) -> None:
    """Odd but relative names are file names."""
    assert is_repository_relative(file)


@pytest.mark.parametrize(
    "file",
    [
        "/etc/passwd",
        "..",
        "../a",
        "a/../b",
        "a/..",
        "a\\b",
        "\\\\host\\share",
        "C:/a",
        "c:a",
        "file:///a",
        "https://a/b",
    ],
)
def test_files_outside_the_repository_are_refused(file: str) -> None:
    """Roots, parents, backslashes, drives and schemes are refused for every target of a plan (G-086)."""
    assert not is_repository_relative(file)
    plan = plan_body()
    plan["milestones"][1]["targets"].append(target(file))
    plan["failures"][0]["targets"] = [target(file)]
    plan["deploy"]["targets"] = [target(), target(file)]
    assert plan_issues(msgspec.convert(plan, Plan)) == [
        FieldIssue("plan.milestones[1].targets[1].file", NOT_RELATIVE),
        FieldIssue("plan.failures[0].targets[0].file", NOT_RELATIVE),
        FieldIssue("plan.deploy.targets[1].file", NOT_RELATIVE),
    ]


FILES = st.text(st.sampled_from("a./\\\\:\n-"), min_size=1, max_size=4)


@given(st.lists(FILES, min_size=1, max_size=5))
def test_files_are_judged_together_as_each_alone(files: list[str]) -> None:
    """Thousands of places are looked at as one text first, which lets none pass that would be refused alone."""
    plan = plan_body()
    plan["deploy"]["targets"] = [target(file) for file in files]
    expected = [index for index, file in enumerate(files) if not is_repository_relative(file)]
    assert [issue.field for issue in plan_issues(msgspec.convert(plan, Plan))] == [
        f"plan.deploy.targets[{index}].file" for index in expected
    ]


def test_a_refusal_names_so_many_places() -> None:
    """Of thousands the first: nobody mends more at once, and the answer stays short."""
    plan = plan_body()
    plan["deploy"]["targets"] = [target("/x") for _ in range(1000)]
    with pytest.raises(PlanRefused) as refused:
        check_plan(msgspec.convert(plan, Plan))
    assert len(refused.value.details["invalid_fields"]) == MAX_ISSUES


def test_a_window_ends_after_it_begins() -> None:
    """An audited window may be a moment, but not run backwards."""
    history = history_body()
    history["window"] = {"from": 5, "to": 5}
    assert plan_issues(make_plan(historical_evidence=history)) == []
    history["window"] = {"from": 6, "to": 5}
    expected = [FieldIssue("plan.historical_evidence.window.to", WINDOW_ORDER)]
    assert plan_issues(make_plan(historical_evidence=history)) == expected


def test_everything_wrong_is_named_at_once() -> None:
    """A client mends a plan in one go: all places are in one refusal, in the form of G-006."""
    plan = plan_body(failures=failures(False), plan_markdown=SECRETS[0])
    with pytest.raises(PlanRefused) as refused:
        propose(msgspec.convert(plan, Plan))
    assert refused.value.code == "invalid_payload"
    assert refused.value.details == {
        "missing_fields": [],
        "unknown_fields": [],
        "invalid_fields": [
            {"field": "plan.plan_markdown", "reason": HOLDS_SECRET},
            {"field": "plan.failures", "reason": ONE_SAFE_FAILURE},
        ],
    }


def shuffled(value: Any, source: random.Random) -> Any:
    """Return the same JSON with the members of every object in another order."""
    if isinstance(value, dict):
        members = [(key, shuffled(member, source)) for key, member in value.items()]
        source.shuffle(members)
        return dict(members)
    return [shuffled(item, source) for item in value] if isinstance(value, list) else value


@given(st.text(min_size=1, max_size=50), st.randoms())
def test_the_hash_is_that_of_the_canonical_body(question: str, source: random.Random) -> None:
    """Order of keys and white space do not matter; it is the SHA-256 of RFC 8785 over the body as sent (G-081)."""
    body = plan_body(question, historical_evidence=history_body())
    expected = hashlib.sha256(rfc8785.dumps(body)).hexdigest()
    sent = json.dumps(shuffled(body, source), indent=2)
    assert hash_plan(msgspec.json.decode(sent, type=Plan)) == expected


def test_another_plan_has_another_hash() -> None:
    """Order within a list is meaning, and so is every character."""
    plan = plan_body()
    reordered = plan_body(milestones=plan["milestones"][::-1])
    hashes = {hash_plan(msgspec.convert(body, Plan)) for body in (plan, reordered, plan_body("How many pay?"))}
    assert len(hashes) == 3
