"""The published playbooks, one record a version (R-PB-02, R-PB-08 to R-PB-14). A record here is never edited.

A change is a new version beside the old one: contracts and runs name a version by its hash, which covers everything
here but the prose and the list of operations.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
import rfc8785

from schemas.contracts import contract as wire
from schemas.contracts import playbook as playbook_wire
from statemachines.contracts.cron import InvalidSchedule, parse_cron, zone
from statemachines.kernel.machine import Rejection
from statemachines.kernel.shapes import INVALID, UNKNOWN, Problem, json_schema, problems

_PROJECT = "/v1/projects/{project_id}"
_RUN = "/v1/automation-runs/{run_id}"
_ROUTE = tuple[Literal["GET", "POST", "PUT", "PATCH"], str]


@dataclass(frozen=True, kw_only=True, eq=False)
class Template:
    """One published version: what can be bound, what is locked, what a run hands over."""

    id: playbook_wire.PlaybookId
    version: str
    title: str
    description: str
    trigger_kind: Literal["unhandled_cases", "schedule"]
    output_kind: Literal["pull_request", "funnel_review"]
    locked_invariants: dict[str, Any]
    required_assertions: tuple[str, ...]  # false ones are readiness gaps
    request: type[playbook_wire.RenderErrorToDraftPr | playbook_wire.RenderWeeklyFunnelReview]
    bindings: type[playbook_wire.Bindings]
    assertions: type[playbook_wire.Assertions]
    output: type[playbook_wire.SelfHealingOutput | playbook_wire.FunnelReviewOutput]
    operations: tuple[_ROUTE, ...]
    next_action: str

    @property
    def forbidden_overrides(self) -> tuple[str, ...]:
        """Paths inside `bindings` that the playbook decides itself."""
        return tuple(self.locked_invariants["forbidden_overrides"])

    @property
    def allowed_actions(self) -> tuple[str, ...]:
        """What a run may do."""
        return tuple(self.locked_invariants["allowed_actions"])

    @property
    def forbidden_actions(self) -> tuple[str, ...]:
        """What a run may never do."""
        return tuple(self.locked_invariants["forbidden_actions"])


_SETUP: tuple[_ROUTE, ...] = (
    ("GET", "/v1/automation-playbooks/{id}"),
    ("GET", f"{_PROJECT}/signal-map"),
    ("POST", f"{_PROJECT}/automation-playbooks/{{id}}/render"),
    ("POST", f"{_PROJECT}/automation-contract/validate"),
    ("PUT", f"{_PROJECT}/automation-contract"),
    ("GET", f"{_PROJECT}/automation-contract"),
    ("POST", f"{_PROJECT}/credentials"),
    ("POST", f"{_PROJECT}/automation-contract/enable"),
    ("GET", f"{_PROJECT}/automation-control"),
    ("POST", f"{_PROJECT}/automation-contract/pause"),
    ("PATCH", f"{_PROJECT}/automation-contract/automations/{{automation_id}}"),
    ("POST", f"{_PROJECT}/automation-triggers/issue"),
    ("GET", f"{_PROJECT}/automation-trigger-receipts"),
    ("GET", "/v1/automation-trigger-receipts/{receipt_id}"),
)
_RUNNING: tuple[_ROUTE, ...] = (
    ("POST", f"{_PROJECT}/automation-runs"),
    ("GET", _RUN),
    ("PATCH", _RUN),
    ("POST", f"{_RUN}/usage"),
)

ERROR_TO_DRAFT_PR = Template(
    id="error-to-draft-pr",
    version="4.0.0",
    title="Error to draft pull request",
    description=(
        "Self-healing loop: an unhandled customer exception that passes the server's materiality test becomes one"
        " bounded pull request, proven by trusted CI and by the deploy that follows it."
    ),
    trigger_kind="unhandled_cases",
    output_kind="pull_request",
    locked_invariants={
        "enabled": False,
        "required_trust": "customer_provider",
        "runner_mode": "draft_only",
        "allowed_actions": ["draft_pr", "escalate"],
        "forbidden_actions": ["direct_merge", "force_merge", "merge_bypass", "deploy", "rollback", "direct_push"],
        "default_code_delivery": "review_required",
        "supported_code_delivery_modes": ["review_required", "auto_merge"],
        "telemetry_instruction_authority": "none",
        "materiality": {
            "decided_by": "deterministic_server_policy",
            "inputs": ["lifecycle", "event_count", "last_seen_at"],
            "every_check_must_pass": True,
        },
        "verification": {
            "blueprint_id": "deploy-recurrence",
            "deploy": "exact_trusted_recurrence_outcome",
            "traffic": "approved_sample",
        },
        "forbidden_overrides": [
            "enabled",
            "allowed_actions",
            "mode",
            "merge",
            "deploy",
            "rollback",
            "verification.blueprint_id",
            "data_boundary",
        ],
    },
    required_assertions=(
        "repository_pull_request_access_confirmed",
        "ci_proof_callback_configured",
        "deploy_ingest_configured",
    ),
    request=playbook_wire.RenderErrorToDraftPr,
    bindings=playbook_wire.ErrorToDraftPrBindings,
    assertions=playbook_wire.ErrorToDraftPrAssertions,
    output=playbook_wire.SelfHealingOutput,
    operations=(
        *_SETUP,
        ("GET", "/v1/cases/{case_id}/claims/active"),
        ("POST", "/v1/cases/{case_id}/claims"),
        ("POST", "/v1/cases/{case_id}/claims/{claim_id}/renew"),
        ("POST", "/v1/cases/{case_id}/claims/{claim_id}/release"),
        ("GET", "/v1/cases/{case_id}"),
        *_RUNNING,
        ("POST", f"{_RUN}/approvals"),
        ("POST", "/v1/automation-approvals/{approval_id}/decide"),
        ("POST", f"{_RUN}/actions/draft-pr/authorize"),
        ("POST", f"{_RUN}/actions/draft-pr/consume"),
        ("POST", f"{_RUN}/pr-proof"),
        ("POST", f"{_RUN}/actions/auto-merge/authorize"),
        ("POST", f"{_RUN}/actions/auto-merge/consume"),
        ("POST", "/v1/deploys/"),
        ("POST", f"{_RUN}/verify"),
        ("POST", f"{_RUN}/cancel"),
    ),
    next_action="Bind this version to a repository and render a disabled candidate in a project.",
)

WEEKLY_FUNNEL_REVIEW = Template(
    id="weekly-funnel-review",
    version="2.0.0",
    title="Weekly funnel review",
    description=(
        "Self-improving loop: on a schedule one approved funnel is compared with the period before it, and the"
        " runner records one private, typed report of metrics, hypotheses and readiness gaps."
    ),
    trigger_kind="schedule",
    output_kind="funnel_review",
    locked_invariants={
        "enabled": False,
        "required_trust": "customer_provider",
        "runner_mode": "report_only",
        "report_kind": "funnel_review",
        "allowed_actions": ["record_report", "escalate"],
        "forbidden_actions": ["draft_pr", "change_code", "publish", "send", "merge", "deploy"],
        "approved_events": {"minimum": 2, "maximum": 20, "ordered": True, "distinct": True},
        "claims": {"kinds": ["evidence", "hypothesis"], "causality": "never"},
        "telemetry_instruction_authority": "none",
        "max_prs_per_day": 0,
        "max_attempts_per_case_revision": 1,
        "forbidden_overrides": [
            "enabled",
            "allowed_actions",
            "draft_pr",
            "publish",
            "send",
            "report_plan.blueprint_id",
            "data_boundary",
        ],
    },
    required_assertions=("scheduler_execution_configured",),
    request=playbook_wire.RenderWeeklyFunnelReview,
    bindings=playbook_wire.WeeklyFunnelReviewBindings,
    assertions=playbook_wire.WeeklyFunnelReviewAssertions,
    output=playbook_wire.FunnelReviewOutput,
    operations=(
        *_SETUP,
        *_RUNNING,
        ("POST", f"{_RUN}/report-source"),
        ("POST", f"{_RUN}/actions/record-report"),
        ("POST", f"{_RUN}/cancel"),
    ),
    next_action="Bind this version to a schedule and a funnel, and render a disabled candidate in a project.",
)

PUBLISHED: tuple[Template, ...] = (ERROR_TO_DRAFT_PR, WEEKLY_FUNNEL_REVIEW)
"""Every version of every playbook, the versions of one playbook oldest first."""


# Playbooks: find a published version, check a request against it, render the policy it gives (R-PB, G-100, G-117).
# Rendering is a pure function of the request: no project, no clock. So the same request is the same candidate byte
# for byte, and a contract can be held against the server's own rendering at any later time.

LOCKED = "locked_field"

_AUTO_MERGE_ASSERTIONS = ("provider_auto_merge_access_confirmed", "branch_protection_required_checks_confirmed")
_numbers = msgspec.json.Encoder(decimal_format="number")


class PlaybookNotFound(Rejection):
    """No playbook has this id."""

    code = "playbook_not_found"


class PlaybookVersionNotFound(Rejection):
    """The playbook was never published at this version."""

    code = "playbook_version_not_found"


# ---- canonical documents


def canonical(document: Any) -> bytes:
    """RFC 8785 form of a JSON document."""
    return rfc8785.dumps(document)


def sha256_of(document: Any) -> str:
    """Lowercase hex SHA-256 of the canonical form."""
    return hashlib.sha256(canonical(document)).hexdigest()


def plain(value: Any) -> Any:
    """JSON document of a struct, its numbers in their shortest form (25.0 is 25)."""
    return msgspec.json.decode(canonical(msgspec.json.decode(_numbers.encode(value))))


# ---- the catalogue


def versions_of(playbook_id: str) -> list[Template]:
    """Return the published versions, oldest first. Raises PlaybookNotFound."""
    found = [template for template in PUBLISHED if template.id == playbook_id]
    if not found:
        raise PlaybookNotFound("There is no such playbook.", next_action="List the playbooks and use one of their ids.")
    return found


def find_template(playbook_id: str, version: str | None = None) -> Template:
    """Return one version, the latest by default. Raises PlaybookNotFound, PlaybookVersionNotFound."""
    versions = versions_of(playbook_id)
    for template in reversed(versions):
        if version in {None, template.version}:
            return template
    raise PlaybookVersionNotFound(
        "The playbook has no such version.",
        next_action="Read the playbook without a version and use one of its available versions.",
        available_versions=[template.version for template in versions],
    )


def latest_templates() -> list[Template]:
    """Return every playbook at its latest version, in the order of publication."""
    return list({template.id: template for template in PUBLISHED}.values())


@cache
def template_hash(template_id: str, version: str) -> str:
    """SHA-256 that names a published version for ever (G-117)."""
    template = find_template(template_id, version)
    return sha256_of(
        {
            "id": template.id,
            "version": template.version,
            "trigger_kind": template.trigger_kind,
            "output_kind": template.output_kind,
            "locked_invariants": template.locked_invariants,
            "render_request_schema": json_schema(template.request),
            "run_output_schema": json_schema(template.output),
        }
    )


def reference(template: Template) -> playbook_wire.PlaybookRef:
    """Id, version and hash of a version, as candidates and contracts bind it."""
    return playbook_wire.PlaybookRef(template.id, template.version, template_hash(template.id, template.version))


# ---- checks


def check_bindings(template: Template, bindings: Any, path: str) -> list[Problem]:
    """Every fault of a set of bindings: form, bounds, locked fields, and what the values have to agree on."""
    locked = {f"{path}.{name}" for name in template.forbidden_overrides if _holds(bindings, name)}
    found = [
        problem
        for problem in problems(template.bindings, bindings, path)
        if not (problem.code == UNKNOWN and problem.path in locked)
    ]
    found += [
        Problem(name, LOCKED, "Is locked by the playbook and cannot be bound.")
        for name in (f"{path}.{name}" for name in template.forbidden_overrides)
        if name in locked
    ]
    return found + list(_check_agreement(bindings, path))


def check_assertions(template: Template, assertions: Any, bindings: Any, path: str) -> list[Problem]:
    """Every fault of the readiness assertions, which auto_merge demands more of (R-PB-28)."""
    found = problems(template.assertions, assertions, path)
    if _value(bindings, "code_delivery.mode") == "auto_merge" and isinstance(assertions, dict):
        found += [
            Problem(f"{path}.{name}", INVALID, "Must be true when code_delivery is auto_merge.")
            for name in _AUTO_MERGE_ASSERTIONS
            if assertions.get(name, False) is False
        ]
    return found


def assertion_gaps(template: Template, assertions: Any) -> list[playbook_wire.Gap]:
    """Readiness gaps of the required assertions that are false."""
    return [
        playbook_wire.Gap("assertion_false", f"The readiness assertion {name} is false.")
        for name in template.required_assertions
        if not assertions.get(name)
    ]


def _holds(value: Any, dotted: str) -> bool:
    *parents, last = dotted.split(".")
    for name in parents:
        value = value.get(name) if isinstance(value, dict) else None
    return isinstance(value, dict) and last in value


def _value(value: Any, dotted: str) -> Any:
    for name in dotted.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _check_agreement(bindings: Any, path: str) -> Iterable[Problem]:
    """Rules over several values, or beyond what a pattern says; values of a wrong type were reported already."""
    works, executes = _value(bindings, "runner.provider"), _value(bindings, "execution.provider")
    if isinstance(works, str) and isinstance(executes, str) and works != executes:
        yield Problem(f"{path}.execution.provider", INVALID, "Must equal runner.provider.")
    repository = _value(bindings, "runner.repository")
    if isinstance(repository, str) and not _has_host(repository):
        yield Problem(f"{path}.runner.repository", INVALID, "Must name a host, and a valid port if any.")
    window = _value(bindings, "verification.observation_window_seconds")
    wait = _value(bindings, "verification.max_wait_seconds")
    if isinstance(window, int) and isinstance(wait, int) and wait < window:
        yield Problem(f"{path}.verification.max_wait_seconds", INVALID, "Must be at least observation_window_seconds.")
    for name, check in (("cron", parse_cron), ("timezone", zone)):
        text = _value(bindings, f"schedule.{name}")
        if isinstance(text, str):
            try:
                check(text)
            except InvalidSchedule as error:
                yield Problem(f"{path}.schedule.{name}", INVALID, str(error))


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False


# ---- rendering


def render(template: Template, bindings: Any) -> wire.Policy:
    """Render checked bindings into the policy of a disabled automation."""
    bound: playbook_wire.Bindings = msgspec.convert(bindings, template.bindings)
    match bound:
        case playbook_wire.ErrorToDraftPrBindings():
            return _render_error_to_draft_pr(template, bound)
        case playbook_wire.WeeklyFunnelReviewBindings():
            return _render_weekly_funnel_review(template, bound)


def _render_error_to_draft_pr(
    template: Template, bound: playbook_wire.ErrorToDraftPrBindings
) -> wire.ErrorToDraftPrPolicy:
    return wire.ErrorToDraftPrPolicy(
        automation_id=bound.automation_id,
        name=bound.name,
        enabled=False,
        playbook_version="4.0.0",
        required_trust="customer_provider",
        runner_mode="draft_only",
        runner=bound.runner,
        execution=bound.execution,
        trigger=wire.UnhandledCases(
            bound.trigger.max_cases_per_sweep, bound.trigger.cooldown_seconds, bound.trigger.materiality
        ),
        scope=bound.scope,
        budgets=wire.CaseLimits(
            max_runs_per_day=bound.budgets.max_runs_per_day,
            max_prs_per_day=bound.budgets.max_prs_per_day,
            max_attempts_per_case_revision=bound.budgets.max_attempts_per_case_revision,
            max_turns_per_run=bound.budgets.max_turns_per_run,
            max_runtime_seconds=bound.budgets.max_runtime_seconds,
            max_cost_usd_per_run=_exact(bound.budgets.max_cost_usd_per_run),
        ),
        code_delivery=bound.code_delivery,
        allowed_actions=template.allowed_actions,
        forbidden_actions=template.forbidden_actions,
        verification=wire.VerificationPolicy(
            observation_window_seconds=bound.verification.observation_window_seconds,
            max_wait_seconds=bound.verification.max_wait_seconds,
            min_sample_size=bound.verification.min_sample_size,
            traffic_sample_event=bound.traffic_sample_event,
            blueprint_id="deploy-recurrence",
        ),
        escalation=bound.escalation,
        data_boundary=wire.DataBoundary(telemetry_instruction_authority="none"),
        workflow=None,
    )


def _render_weekly_funnel_review(
    template: Template, bound: playbook_wire.WeeklyFunnelReviewBindings
) -> wire.WeeklyFunnelReviewPolicy:
    return wire.WeeklyFunnelReviewPolicy(
        automation_id=bound.automation_id,
        name=bound.name,
        enabled=False,
        playbook_version="2.0.0",
        required_trust="customer_provider",
        runner_mode="report_only",
        runner=bound.runner,
        execution=bound.execution,
        report_kind="funnel_review",
        trigger=wire.Scheduled(bound.schedule.cron, bound.schedule.timezone, bound.schedule.start_window_seconds),
        report_plan=wire.ReportPlan(
            events=bound.funnel.events,
            period_days=bound.funnel.period_days,
            minimum_sample_size=bound.funnel.minimum_sample_size,
            blueprint_id="ordered-funnel-period-compare",
        ),
        budgets=wire.ReportLimits(
            max_runs_per_day=bound.budgets.max_runs_per_day,
            max_prs_per_day=0,
            max_attempts_per_case_revision=1,
            max_turns_per_run=bound.budgets.max_turns_per_run,
            max_runtime_seconds=bound.budgets.max_runtime_seconds,
            max_cost_usd_per_run=_exact(bound.budgets.max_cost_usd_per_run),
        ),
        allowed_actions=template.allowed_actions,
        forbidden_actions=template.forbidden_actions,
        escalation=bound.escalation,
        data_boundary=wire.DataBoundary(telemetry_instruction_authority="none"),
        workflow=wire.Workflow(version=3, nodes=wire.WORKFLOW_NODES),
    )


def _exact(cost: float) -> Decimal:
    """The shortest decimal with the value of the number, as RFC 8785 writes it."""
    return Decimal(repr(cost))


def assemble_entry(template: Template, bindings: Any, assertions: Any) -> dict[str, Any]:
    """Contract entry of checked bindings: the version, what was bound and stated, and the policy it gives."""
    return {
        "playbook": msgspec.to_builtins(reference(template)),
        "bindings": plain(bindings),
        "readiness_assertions": plain(assertions),
        "policy": plain(render(template, bindings)),
    }
