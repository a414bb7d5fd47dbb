"""Playbooks: published versions that never change, and bindings at and beyond each of their bounds."""

from __future__ import annotations

import copy
import hashlib
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import rfc8785

from schemas.contracts.playbook import FunnelReviewOutput
from statemachines.contracts.playbook import (
    PUBLISHED,
    PlaybookNotFound,
    PlaybookVersionNotFound,
    Template,
    assemble_entry,
    assertion_gaps,
    canonical,
    check_assertions,
    check_bindings,
    find_template,
    latest_templates,
    plain,
    render,
    template_hash,
)
from statemachines.kernel.shapes import json_schema, problems
from tests.support.playbook_samples import (
    AUTO_MERGE,
    CASE,
    EXECUTIONS,
    REVIEW,
    assertions_of,
    bindings_of,
    case_assertions,
    case_bindings,
    drop,
    put,
    review_bindings,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "playbooks"

# The hashes under which these versions were published. A change here is a broken promise, not an update.
TEMPLATE_HASHES = {
    (CASE, "4.0.0"): "ab4284e2237eb76522170809719ea223a148dff25e6361928d62a827c1ebd21e",
    (REVIEW, "2.0.0"): "48f7475fdf781c560f7ae583e84b4777dc9ebf9321fe2bbc887e9a7048543851",
}


def faults(playbook_id: str, bindings: Any, assertions: Any = None) -> list[tuple[str, str]]:
    template = find_template(playbook_id)
    assertions = assertions_of(playbook_id) if assertions is None else assertions
    found = check_bindings(template, bindings, "bindings")
    found += check_assertions(template, assertions, bindings, "readiness_assertions")
    return [(problem.path, problem.code) for problem in found]


def with_hosted(bindings: dict[str, Any]) -> dict[str, Any]:
    return {
        **bindings,
        "runner": {**bindings["runner"], "provider": "hosted_ci"},
        "execution": copy.deepcopy(EXECUTIONS["hosted_ci"]),
    }


def with_custom(bindings: dict[str, Any]) -> dict[str, Any]:
    return {
        **bindings,
        "runner": {**bindings["runner"], "provider": "custom"},
        "execution": copy.deepcopy(EXECUTIONS["custom"]),
    }


def with_auto_merge(bindings: dict[str, Any]) -> dict[str, Any]:
    return {**bindings, "code_delivery": copy.deepcopy(AUTO_MERGE)}


def text(length: int) -> str:
    return "x" * length


def texts(count: int, length: int = 4) -> list[str]:
    return [f"{number:0{length}d}" for number in range(count)]


def url(length: int) -> str:
    return "https://code.example/".ljust(length, "x")


# (playbook, how the sample is prepared, path, accepted at the bound, refused one step outside)
COMMON: list[tuple[str, list[Any], list[Any]]] = [
    ("automation_id", ["a", "z" + "9_-" * 33], ["", "a" * 101, "A", "1a", "-a", "a.b", "a b", "ä", "a\n", None, 1]),
    ("name", [text(1), text(200)], ["", text(201), None, 5]),
    ("runner.environment", [text(1), text(100)], ["", text(101), None]),
    ("runner.provider", ["coding_agent_a"], ["coding_agent_c", "", None, ["coding_agent_a"]]),
    ("escalation.destination", [text(1), text(500)], ["", text(501)]),
    ("escalation.instructions", [text(1), text(2000)], ["", text(2001)]),
    ("budgets.max_runs_per_day", [1, 1000], [0, 1001, 1.0, "1", True, None]),
    ("budgets.max_turns_per_run", [1, 500], [0, 501]),
    ("budgets.max_runtime_seconds", [60, 86400], [59, 86401]),
    ("budgets.max_cost_usd_per_run", [10000, 10000.0, 0.000001, 5e-324], [0, -1, 0.0, 10000.01, 10001, "5", True]),
]
CASE_ONLY: list[tuple[str, list[Any], list[Any]]] = [
    (
        "runner.repository",
        [url(21), url(500), "https://code.example", "https://code.example:8443/a/@b.git"],
        [
            url(501),
            "",
            "http://code.example/a",
            "git@code.example:a/b",
            "code.example/a",
            "/a/b",
            "https:///a",
            "https://",
            "https://user:pw@code.example/a",
            "https://token@code.example/a",
            "https://code.example/a b",
            "https://code.example/a?access_token=x",
            "https://code.example/a#b",
            "https://code.example:99999/a",
            "https://code.example:x/a",
            "https://[::1/a",
            "https://code.example\\@evil.example/a",
            "https://code.example/a\n",
        ],
    ),
    ("runner.default_branch", [text(1), text(200)], ["", text(201)]),
    ("trigger.max_cases_per_sweep", [1, 100], [0, 101]),
    ("trigger.cooldown_seconds", [60, 604800], [59, 604801]),
    ("trigger.materiality.minimum_event_count", [1, 1000000000], [0, 1000000001]),
    ("trigger.materiality.maximum_last_seen_age_seconds", [60, 31622400], [59, 31622401]),
    (
        "scope.allowed_paths",
        [[text(1)], texts(100), [text(500)]],
        [[], texts(101), [""], [text(501)], "src/", [1], None],
    ),
    ("scope.test_commands", [[text(1)], texts(30), [text(500)]], [[], texts(31), [""], [text(501)]]),
    ("scope.max_files_changed", [1, 100], [0, 101]),
    ("scope.max_changed_lines", [1, 10000], [0, 10001]),
    ("budgets.max_prs_per_day", [1, 100], [0, 101]),
    ("budgets.max_attempts_per_case_revision", [1, 20], [0, 21]),
    (
        "traffic_sample_event",
        [text(1), text(200), "zahlung_ö", "checkout.completed"],
        ["", text(201), "a b", "a\tb", "a\n", "a\u00a0b", "a\u0085b", "a\u0007", "\ufeffa", "a\u007f", "a\u2028", None],
    ),
    ("verification.observation_window_seconds", [60, 86400], [59, 86401]),
    ("verification.max_wait_seconds", [3600, 2592000], [3599, 2592001]),
    ("verification.min_sample_size", [1, 10000000], [0, 10000001]),
    ("code_delivery", [{"mode": "review_required"}], [None, {}, {"mode": "direct"}, {"mode": None}, "review_required"]),
]
AUTO_MERGE_ONLY: list[tuple[str, list[Any], list[Any]]] = [
    ("code_delivery.merge_method", ["squash", "merge", "rebase"], ["", "fast-forward", None]),
    (
        "code_delivery.required_status_checks",
        [[text(1)], texts(50), [text(200)]],
        [[], texts(51), [""], [text(201)], ["build", "build"]],
    ),
    ("code_delivery.provider_managed", [True], [False, None, 1, "true"]),
    ("code_delivery.branch_protection_required", [True], [False]),
    ("code_delivery.bypass_forbidden", [True], [False]),
]
INVOCATION: list[tuple[str, list[Any], list[Any]]] = [
    ("invocation.executable", [text(1), text(500)], ["", text(501), "a\u0000", "a\n", "a\u009b"]),
    (
        "invocation.argv",
        [[], texts(50), [text(500)], [""], ["two words"]],
        [texts(51), [text(501)], ["a\u0001"], ["a\n"], ["\u007f"], "a", [1], None],
    ),
]
HOSTED: list[tuple[str, list[Any], list[Any]]] = [
    ("execution.hosted_ci.workflow_file", [text(1), text(500)], ["", text(501)]),
    ("execution.hosted_ci.job_id", [text(1), text(200)], ["", text(201)]),
    ("execution.hosted_ci.environment_name", [text(1), text(200)], ["", text(201)]),
    *((f"execution.hosted_ci.{path}", good, bad) for path, good, bad in INVOCATION),
]
CUSTOM: list[tuple[str, list[Any], list[Any]]] = [
    ("execution.custom.management_surface", [text(1), text(500)], ["", text(501)]),
    ("execution.custom.credential_destination", [text(1), text(1000)], ["", text(1001)]),
    *((f"execution.custom.{path}", good, bad) for path, good, bad in INVOCATION),
]
REVIEW_ONLY: list[tuple[str, list[Any], list[Any]]] = [
    (
        "schedule.cron",
        ["0 0 1 1 *", "0 0 * * " + ",".join(["1"] * 96)],
        ["", "0 0 *", "*/5 * * * *", "0 0 30 2 *", "0 0 * * " + ",".join(["1"] * 97), None],
    ),
    ("schedule.timezone", ["UTC", "America/Argentina/ComodRivadavia"], ["", "Mars/Base", "utc", text(101), None]),
    ("schedule.start_window_seconds", [60, 86400], [59, 86401]),
    (
        "funnel.events",
        [texts(2), texts(20), [text(200), "b"]],
        [texts(1), [], texts(21), ["a", "a"], ["a", ""], ["a", text(201)], ["a", "b c"], ["a", "b\n"], None],
    ),
    ("funnel.period_days", [1, 90], [0, 91]),
    ("funnel.minimum_sample_size", [1, 100000], [0, 100001]),
]


def cases() -> list[Any]:
    def as_is(bindings: dict[str, Any]) -> dict[str, Any]:
        return bindings

    groups = [
        (CASE, as_is, COMMON + CASE_ONLY),
        (CASE, with_auto_merge, AUTO_MERGE_ONLY),
        (CASE, with_hosted, HOSTED),
        (CASE, with_custom, CUSTOM),
        (REVIEW, as_is, REVIEW_ONLY),
        (REVIEW, with_custom, CUSTOM),
        (REVIEW, with_hosted, HOSTED),
        (
            REVIEW,
            lambda b: {**b, "runner": {"provider": "coding_agent_a"}, "execution": EXECUTIONS["coding_agent_a"]},
            COMMON,
        ),
    ]
    return [
        pytest.param(playbook, prepare, *row, id=f"{playbook}:{row[0]}")
        for playbook, prepare, rows in groups
        for row in rows
    ]


ASSERTED = {**case_assertions(), "provider_auto_merge_access_confirmed": True} | {
    "branch_protection_required_checks_confirmed": True
}


@pytest.mark.parametrize(("playbook", "prepare", "path", "accepted", "refused"), cases())
def test_bounds_are_inclusive(playbook: str, prepare: Any, path: str, accepted: list[Any], refused: list[Any]) -> None:
    """At the bound a value renders; one step outside exactly that value is refused (R-PB-15 to R-PB-33)."""
    sample = prepare(bindings_of(playbook))
    assertions = ASSERTED if playbook == CASE else assertions_of(playbook)
    for value in accepted:
        bindings = put(sample, path, value)
        assert faults(playbook, bindings, assertions) == [], value
        assert render(find_template(playbook), bindings)
    for value in refused:
        found = faults(playbook, put(sample, path, value), assertions)
        assert found, value
        assert {name.split("[")[0] for name, _ in found} <= {
            f"bindings.{path}",
            f"bindings.{path}.mode",
            "bindings.verification.max_wait_seconds",  # a window longer than the wait
            "bindings.execution.provider",  # follows the runner's
        }, found


def required_paths(template: Template) -> list[str]:
    def walk(schema: dict[str, Any], prefix: str) -> list[str]:
        found = []
        for name in schema.get("required", []):
            path = f"{prefix}{name}"
            found += [path, *walk(schema["properties"][name], f"{path}.")]
        return found

    return walk(json_schema(template.bindings), "")


@pytest.mark.parametrize("template", PUBLISHED, ids=lambda t: t.id)
def test_every_required_binding_is_missed(template: Template) -> None:
    """Leaving out any one required member is refused as missing, by its path."""
    sample = bindings_of(template.id)
    for path in required_paths(template):
        assert (f"bindings.{path}", "missing_field") in faults(template.id, drop(sample, path)), path
    assert "traffic_sample_event" in required_paths(find_template(CASE))  # never defaulted (R-PB-25)


@pytest.mark.parametrize("template", PUBLISHED, ids=lambda t: t.id)
def test_every_object_is_closed(template: Template) -> None:
    """A key that no object declares is refused at every level, by its path."""

    def objects(value: Any, path: str) -> list[str]:
        if not isinstance(value, dict):
            return []
        return [path, *(p for name, inner in value.items() for p in objects(inner, f"{path}.{name}".strip(".")))]

    sample = with_hosted(bindings_of(template.id))
    for path in objects(sample, ""):
        extra = put(sample, f"{path}.surprise".strip("."), 1)
        assert faults(template.id, extra) == [(f"bindings.{path}.surprise".replace("..", "."), "unknown_field")]
    assertions = {**assertions_of(template.id), "surprise": True}
    assert faults(template.id, sample, assertions) == [("readiness_assertions.surprise", "unknown_field")]


FORBIDDEN = {
    CASE: ["enabled", "allowed_actions", "mode", "merge", "deploy", "rollback", "data_boundary"],
    REVIEW: ["enabled", "allowed_actions", "draft_pr", "publish", "send", "data_boundary"],
}


@pytest.mark.parametrize(("playbook", "name"), [(p, name) for p, names in FORBIDDEN.items() for name in names])
@pytest.mark.parametrize("value", [True, False, None, "x", {}])
def test_a_locked_field_is_refused_by_name(playbook: str, name: str, value: Any) -> None:
    """Binding what the playbook locks is its own fault, whatever the value, its locked value too (R-PB-13, R-PB-14)."""
    assert faults(playbook, {**bindings_of(playbook), name: value}) == [(f"bindings.{name}", "locked_field")]


def test_a_locked_nested_field_is_refused_by_name() -> None:
    """The query that judges is locked in both playbooks."""
    sample = put(case_bindings(), "verification.blueprint_id", "deploy-recurrence")
    assert faults(CASE, sample) == [("bindings.verification.blueprint_id", "locked_field")]
    sample = {**review_bindings(), "report_plan": {"blueprint_id": "top-events"}}
    assert faults(REVIEW, sample) == [
        ("bindings.report_plan", "unknown_field"),
        ("bindings.report_plan.blueprint_id", "locked_field"),
    ]


def test_review_takes_no_repository() -> None:
    """A report needs no repository, so binding one is refused (R-PB-17)."""
    sample = put(review_bindings(), "runner.repository", "https://code.example/a")
    assert faults(REVIEW, sample) == [("bindings.runner.repository", "unknown_field")]


@pytest.mark.parametrize("playbook", [CASE, REVIEW])
@pytest.mark.parametrize("works", list(EXECUTIONS))
@pytest.mark.parametrize("executes", list(EXECUTIONS))
def test_execution_follows_the_runner(playbook: str, works: str, executes: str) -> None:
    """The execution is that of the runner's provider (R-PB-18)."""
    sample = put(bindings_of(playbook), "runner.provider", works)
    sample["execution"] = EXECUTIONS[executes]
    assert faults(playbook, sample) == ([] if works == executes else [("bindings.execution.provider", "invalid_value")])


@pytest.mark.parametrize("agent", ["coding_agent_a", "coding_agent_b"])
def test_a_coding_agent_takes_nothing_but_its_name(agent: str) -> None:
    """Anything beside the provider is refused for the two coding agents (R-PB-18)."""
    sample = put(case_bindings(), "runner.provider", agent)
    sample["execution"] = {"provider": agent, "custom": EXECUTIONS["custom"]["custom"]}
    assert faults(CASE, sample) == [("bindings.execution.custom", "unknown_field")]


def test_auto_merge_needs_both_of_its_assertions() -> None:
    """Either assertion missing or false refuses auto_merge; review_required takes any (R-PB-28)."""
    names = ["provider_auto_merge_access_confirmed", "branch_protection_required_checks_confirmed"]
    both = [(f"readiness_assertions.{name}", "invalid_value") for name in names]
    sample = with_auto_merge(case_bindings())
    assert faults(CASE, sample, case_assertions()) == both
    assert faults(CASE, sample, ASSERTED | dict.fromkeys(names, False)) == both
    assert faults(CASE, sample, ASSERTED | {names[1]: False}) == both[1:]
    assert faults(CASE, sample, ASSERTED) == []
    assert faults(CASE, case_bindings(), ASSERTED | {names[0]: False}) == []


@pytest.mark.parametrize("template", PUBLISHED, ids=lambda t: t.id)
def test_assertions_are_booleans_and_required(template: Template) -> None:
    """A required assertion is a boolean that has to be sent; false is a gap and no fault (G-100)."""
    whole = assertions_of(template.id)
    for name in template.required_assertions:
        path = f"readiness_assertions.{name}"
        assert faults(template.id, bindings_of(template.id), drop(whole, name)) == [(path, "missing_field")]
        for value in (None, 1, "true"):
            found = faults(template.id, bindings_of(template.id), {**whole, name: value})
            assert found == [(path, "invalid_value")]
        assert faults(template.id, bindings_of(template.id), {**whole, name: False}) == []
        [gap] = assertion_gaps(template, {**whole, name: False})
        assert (gap.code, name in gap.message) == ("assertion_false", True)
    assert assertion_gaps(template, whole) == []


def test_every_fault_is_found_at_once() -> None:
    """Many faults are one answer."""
    sample = {**case_bindings(), "name": "", "enabled": True, "surprise": 1, "runner": 7}
    sample = drop(put(sample, "budgets.max_prs_per_day", 101), "escalation")
    assert set(faults(CASE, sample, {})) == {
        ("bindings.name", "invalid_value"),
        ("bindings.enabled", "locked_field"),
        ("bindings.surprise", "unknown_field"),
        ("bindings.runner", "invalid_value"),
        ("bindings.budgets.max_prs_per_day", "invalid_value"),
        ("bindings.escalation", "missing_field"),
        *((f"readiness_assertions.{name}", "missing_field") for name in case_assertions()),
    }
    for nonsense in (None, [], "x", 5):
        assert faults(CASE, nonsense) == [("bindings", "invalid_value")]


# ---- the published record


@pytest.mark.parametrize("template", PUBLISHED, ids=lambda t: t.id)
def test_a_published_version_never_changes(template: Template) -> None:
    """The hash is the one of publication, and it is the SHA-256 of exactly the documents of G-117 (R-PB-04)."""
    published = json.loads((GOLDEN / f"{template.id}@{template.version}.template.json").read_text())
    assert template_hash(template.id, template.version) == TEMPLATE_HASHES[template.id, template.version]
    assert hashlib.sha256(rfc8785.dumps(published)).hexdigest() == TEMPLATE_HASHES[template.id, template.version]
    assert set(published) == {
        "id",
        "version",
        "trigger_kind",
        "output_kind",
        "locked_invariants",
        "render_request_schema",
        "run_output_schema",
    }


GOLDEN_ENTRIES = {
    "error-to-draft-pr@4.0.0.review.json": (CASE, case_bindings(), case_assertions()),
    "error-to-draft-pr@4.0.0.auto-merge.json": (CASE, with_auto_merge(with_hosted(case_bindings())), ASSERTED),
    "weekly-funnel-review@2.0.0.json": (REVIEW, review_bindings(), assertions_of(REVIEW)),
    "weekly-funnel-review@2.0.0.custom.json": (REVIEW, with_custom(review_bindings()), assertions_of(REVIEW)),
}


@pytest.mark.parametrize("name", GOLDEN_ENTRIES)
def test_rendering_is_byte_stable(name: str) -> None:
    """The same bindings give the same bytes as at publication, in whatever order they come (R-PB-06)."""
    playbook, bindings, assertions = GOLDEN_ENTRIES[name]
    template = find_template(playbook)
    golden = (GOLDEN / name).read_bytes()
    assert canonical(assemble_entry(template, bindings, assertions)) == golden
    shuffled = dict(reversed(json.loads(json.dumps(bindings)).items()))
    assert canonical(assemble_entry(template, shuffled, assertions)) == golden


def test_case_policy_locks() -> None:
    """R-PB-08 and R-PB-10 hold in the rendered policy, with the delivery of R-PB-21 by default."""
    policy = plain(render(find_template(CASE), case_bindings()))
    assert policy["enabled"] is False
    assert policy["playbook_id"] == CASE
    assert policy["playbook_version"] == "4.0.0"
    assert policy["required_trust"] == "customer_provider"
    assert policy["runner_mode"] == "draft_only"
    assert policy["allowed_actions"] == ["draft_pr", "escalate"]
    assert policy["forbidden_actions"] == [
        "direct_merge",
        "force_merge",
        "merge_bypass",
        "deploy",
        "rollback",
        "direct_push",
    ]
    assert policy["code_delivery"] == {"mode": "review_required"}
    assert policy["trigger"]["kind"] == "unhandled_cases"
    assert policy["verification"]["blueprint_id"] == "deploy-recurrence"
    assert policy["verification"]["traffic_sample_event"] == "checkout_completed"
    assert policy["data_boundary"] == {"telemetry_instruction_authority": "none"}
    assert policy["workflow"] is None
    assert "environment" not in policy["runner"]


def test_review_policy_locks() -> None:
    """R-PB-11, R-PB-12 and the one graph of R-AUT-13 hold in the rendered policy."""
    policy = plain(render(find_template(REVIEW), review_bindings()))
    assert policy["enabled"] is False
    assert policy["report_kind"] == "funnel_review"
    assert policy["allowed_actions"] == ["record_report", "escalate"]
    assert policy["forbidden_actions"] == ["draft_pr", "change_code", "publish", "send", "merge", "deploy"]
    assert policy["trigger"] == {"kind": "schedule", **review_bindings()["schedule"]}
    assert policy["report_plan"] == {"blueprint_id": "ordered-funnel-period-compare", **review_bindings()["funnel"]}
    assert (policy["budgets"]["max_prs_per_day"], policy["budgets"]["max_attempts_per_case_revision"]) == (0, 1)
    assert policy["workflow"] == {
        "version": 3,
        "nodes": [
            "trigger.schedule.cron@1.0.0",
            "query.analytics.ordered-funnel-period-compare@1.0.0",
            "agent.funnel-review@1.0.0",
            "effect.report.private@1.0.0",
        ],
    }
    assert policy["data_boundary"] == {"telemetry_instruction_authority": "none"}


@pytest.mark.parametrize(
    ("sent", "kept", "shown"),
    [
        (25, "25.0", 25),
        (25.0, "25.0", 25),
        (0.1, "0.1", 0.1),
        (9999.999999, "9999.999999", 9999.999999),
        (1e-06, "0.000001", 0.000001),
    ],
)
def test_costs_stay_exact(sent: float, kept: str, shown: float) -> None:
    """A cost is the decimal that was written, never a binary neighbour of it."""
    policy = render(find_template(CASE), put(case_bindings(), "budgets.max_cost_usd_per_run", sent))
    assert policy.budgets.max_cost_usd_per_run == Decimal(kept)
    number = plain(policy)["budgets"]["max_cost_usd_per_run"]
    assert (number, type(number)) == (shown, type(shown))


def test_published_schemas_are_what_is_enforced() -> None:
    """An outside validator draws the same line as the checks, for every bound in this file."""
    for parameter in cases():
        playbook, prepare, path, accepted, refused = parameter.values
        validator = jsonschema.Draft202012Validator(json_schema(find_template(playbook).bindings))
        sample = prepare(bindings_of(playbook))
        for value in accepted:
            assert validator.is_valid(put(sample, path, value)), (path, value)
        for value in refused:
            beyond_schema = path.startswith(("schedule.", "verification.m", "verification.o")) or path in {
                "runner.repository",
                "budgets.max_runs_per_day",  # 1.0 is an integer to JSON Schema
                "runner.provider",
            }
            assert beyond_schema or not validator.is_valid(put(sample, path, value)), (path, value)


def test_findings_are_closed() -> None:
    """The report shapes take exactly the keys of R-AUT-47 and R-AUT-48."""
    report: dict[str, Any] = {
        "kind": "funnel_review",
        "period_start": 0,
        "period_end": 604800,
        "source_hash": "0" * 64,
        "findings": [
            {
                "kind": "metric",
                "metric": "conversion",
                "unit": "ratio",
                "prior_value": 0.2,
                "current_value": None,
                "change": 1,
                "source_columns": ["current_users"],
            },
            {"kind": "readiness_gap", "code": "sample", "message": "Too small."},
        ],
        "limitations": [],
    }
    assert problems(FunnelReviewOutput, report, "report") == []
    assert msgspec.convert(report, FunnelReviewOutput)
    report["findings"][1]["why"] = "because"
    assert [p.path for p in problems(FunnelReviewOutput, report, "report")] == ["report.findings[1].why"]


# ---- finding a version


def test_versions_are_found_by_id_and_number() -> None:
    """The latest is the default; unknown ids and versions are told apart (R-PB-03)."""
    assert [(t.id, t.version) for t in latest_templates()] == [(CASE, "4.0.0"), (REVIEW, "2.0.0")]
    assert find_template(CASE) is find_template(CASE, "4.0.0")
    with pytest.raises(PlaybookNotFound):
        find_template("deploy-to-production")
    with pytest.raises(PlaybookVersionNotFound) as refusal:
        find_template(CASE, "3.0.0")
    assert refusal.value.details == {"available_versions": ["4.0.0"]}
