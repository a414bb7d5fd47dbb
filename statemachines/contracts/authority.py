"""From the contract to the authority of one automation: what triggers, claims, runs and grants decide by."""

from __future__ import annotations

from functools import lru_cache

import schemas.contracts.contract as rendered
from schemas.contracts.playbook import AutoMerge, CodeDelivery
from statemachines.contracts.contract import Contract, Status
from statemachines.contracts.documents import SavedAutomation, read_policy
from statemachines.contracts.policy import (
    Authority,
    CaseTrigger,
    Delivery,
    Limits,
    Playbook,
    Policy,
    ReviewPlan,
    ScheduleTrigger,
    Scope,
    Thresholds,
    VerificationTerms,
)


def authority_of(contract: Contract, automation_id: str) -> Authority:
    """Where an automation stands in the contract now; without a policy when the contract does not have it."""
    automation = contract.find(automation_id)
    paused = contract.status is Status.PAUSED
    if automation is None:
        return Authority(automation_id=automation_id, paused=paused, contract_revision=contract.revision)
    return Authority(
        automation_id=automation_id,
        enabled=automation.enabled,
        paused=paused,
        generation=automation.generation,
        withdrawn_at=automation.withdrawn_at,
        contract_revision=contract.revision,
        policy_sha256=automation.saved.policy_sha256,
        policy=policy_of(automation.saved),
    )


@lru_cache(maxsize=64)  # An automation may be a quarter of a megabyte, and is read in a moment.
def policy_of(saved: SavedAutomation) -> Policy:
    """Terms of a saved automation's policy, in the types of execution."""
    policy = read_policy(saved.policy)
    playbook = Playbook(saved.playbook_id, saved.playbook_version, saved.template_hash)
    environment = policy.runner.environment if isinstance(policy.runner.environment, str) else None
    if isinstance(policy, rendered.WeeklyFunnelReviewPolicy):
        return Policy(
            playbook=playbook,
            schedule_trigger=ScheduleTrigger(
                cron=policy.trigger.cron,
                timezone=policy.trigger.timezone,
                start_window_seconds=policy.trigger.start_window_seconds,
                period_days=policy.report_plan.period_days,
            ),
            review=ReviewPlan(list(policy.report_plan.events), policy.report_plan.minimum_sample_size),
            environment=environment,
            limits=_limits(policy.budgets),
        )
    return Policy(
        playbook=playbook,
        case_trigger=CaseTrigger(
            policy.trigger.max_cases_per_sweep,
            policy.trigger.cooldown_seconds,
            Thresholds(
                policy.trigger.materiality.minimum_event_count,
                policy.trigger.materiality.maximum_last_seen_age_seconds,
            ),
        ),
        repository=policy.runner.repository,
        default_branch=policy.runner.default_branch,
        environment=environment,
        scope=Scope(
            list(policy.scope.allowed_paths),
            list(policy.scope.test_commands),
            policy.scope.max_files_changed,
            policy.scope.max_changed_lines,
        ),
        limits=_limits(policy.budgets),
        delivery=_delivery(policy.code_delivery),
        verification=VerificationTerms(
            policy.verification.observation_window_seconds,
            policy.verification.max_wait_seconds,
            policy.verification.min_sample_size,
            policy.verification.traffic_sample_event,
        ),
    )


def _limits(budgets: rendered.CaseLimits | rendered.ReportLimits) -> Limits:
    return Limits(
        max_runs_per_day=budgets.max_runs_per_day,
        max_prs_per_day=budgets.max_prs_per_day,
        max_attempts_per_case_revision=budgets.max_attempts_per_case_revision,
        max_turns_per_run=budgets.max_turns_per_run,
        max_runtime_seconds=budgets.max_runtime_seconds,
        max_cost_usd_per_run=format(budgets.max_cost_usd_per_run, "f"),
    )


def _delivery(delivery: CodeDelivery) -> Delivery:
    if isinstance(delivery, AutoMerge):
        return Delivery("auto_merge", delivery.merge_method, list(delivery.required_status_checks))
    return Delivery()
