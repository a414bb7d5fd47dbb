"""The automation contract: saved disabled, enabled by an owner, stopped by any member (G-101, G-103).

One stream a project, its id made from the project id. Every event is an accepted change and moves the revision that
clients send as If-Match (G-121). Each enable turns automations on under a *generation*, the revision it led to: what
was issued under another generation is void, so one stop ends it all (R-AUT-08).
"""

import hashlib
from collections.abc import Collection
from enum import Enum
from functools import lru_cache
from typing import Any

import msgspec

import schemas.contracts.contract as rendered
from schemas.contracts.contract import EnableReceipt
from schemas.contracts.playbook import AutoMerge, CodeDelivery
from statemachines.contracts import policy as policies
from statemachines.contracts.documents import POLICY_VERSION, Document, Facts, SavedAutomation, find_gaps, read_policy
from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    require_given,
    require_none,
    require_same,
    transition_table,
)

RECEIPTS_KEPT = 100


def stream(project_id: str) -> Stream:
    """History of a project's automation contract."""
    return Stream(MACHINE, project_id, derived_id("ctr", project_id))


class Status(Enum):
    """Where a contract stands."""

    ABSENT = "absent"
    DISABLED = "disabled"
    ENABLED = "enabled"
    PAUSED = "paused"


class ContractSaved(Event, frozen=True):
    """An owner saved a contract; all its automations are off."""

    TOPIC = "automation_contract.saved.v1"
    DOCUMENT = True
    contract_id: str
    policy_version: int
    contract_sha256: str
    automations: list[SavedAutomation]
    saved_by: str
    saved_at: int


class ContractEnabled(Event, frozen=True):
    """An owner turned automations on; carries the durable receipt (R-AUT-05).

    `command` is the SHA-256 of who asked under which idempotency key, `request` the digest of what was asked.
    """

    TOPIC = "automation_contract.enabled.v1"
    receipt_id: str
    contract_id: str
    contract_sha256: str
    contract_revision: int
    previous_etag: str
    etag: str
    automation_ids: list[str]
    enabled_by: str
    enabled_at: int
    command: str
    request: str


class AutomationDisabled(Event, frozen=True):
    """A member turned one automation off; others stay on."""

    TOPIC = "automation_contract.automation_disabled.v1"
    automation_id: str
    reason: str | None
    disabled_by: str
    disabled_at: int


class LastAutomationDisabled(Event, frozen=True):
    """A member turned the last automation off."""

    TOPIC = "automation_contract.last_automation_disabled.v1"
    automation_id: str
    reason: str | None
    disabled_by: str
    disabled_at: int


class ContractPaused(Event, frozen=True):
    """A member stopped everything."""

    TOPIC = "automation_contract.paused.v1"
    reason: str | None
    paused_by: str
    paused_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        # event                       from             to
        [ContractSaved.TOPIC, Status.ABSENT, Status.DISABLED],
        [ContractSaved.TOPIC, Status.DISABLED, Status.DISABLED],
        [ContractSaved.TOPIC, Status.ENABLED, Status.DISABLED],
        [ContractSaved.TOPIC, Status.PAUSED, Status.DISABLED],
        [ContractEnabled.TOPIC, Status.DISABLED, Status.ENABLED],
        [ContractEnabled.TOPIC, Status.ENABLED, Status.ENABLED],
        [ContractEnabled.TOPIC, Status.PAUSED, Status.ENABLED],
        [AutomationDisabled.TOPIC, Status.ENABLED, Status.ENABLED],
        [LastAutomationDisabled.TOPIC, Status.ENABLED, Status.DISABLED],
        [ContractPaused.TOPIC, Status.DISABLED, Status.PAUSED],
        [ContractPaused.TOPIC, Status.ENABLED, Status.PAUSED],
    ],
)


class Automation(msgspec.Struct, frozen=True):
    """One automation of the current contract.

    `generation` is the revision at which it was last turned on, `withdrawn_at` when it was last off (epoch seconds).
    """

    saved: SavedAutomation
    enabled: bool = False
    generation: int = 0
    withdrawn_at: int = 0


class KeptReceipt(msgspec.Struct, frozen=True):
    """An enable receipt with the command and request that a replay has to repeat."""

    receipt: EnableReceipt
    command: str
    request: str


class Contract(msgspec.Struct, frozen=True):
    """What the decisions about a contract depend on; the newest receipts last."""

    status: Status = Status.ABSENT
    contract_id: str = ""
    revision: int = 0
    contract_sha256: str = ""
    automations: list[Automation] = []
    receipts: list[KeptReceipt] = []

    @property
    def etag(self) -> str:
        """Strong tag of the current revision, with its quotes."""
        return make_etag(self.contract_id, self.revision)

    def find(self, automation_id: str) -> Automation | None:
        """One automation by its id."""
        return next((a for a in self.automations if a.saved.automation_id == automation_id), None)


def make_etag(contract_id: str, revision: int) -> str:
    """Make the quoted tag of a revision (G-101)."""
    return f'"ac:{contract_id}:{revision}"'


class ContractNotFound(Rejection):
    """No contract has been saved."""

    code = "automation_contract_not_found"


class ContractConflict(Rejection):
    """The contract has nothing on that this could act on."""

    code = "automation_disabled"


class ReadinessIncomplete(Rejection):
    """An automation to be enabled has readiness gaps, which the details list."""

    code = "readiness_incomplete"


class EnableKeyReused(Rejection):
    """The idempotency key enabled something else before."""

    code = "idempotency_key_reused"


class EnableWish(msgspec.Struct, frozen=True):
    """The wish to turn automations on: all of them without `automation_id`. `if_match` is the raw quoted tag."""

    receipt_id: str
    automation_id: str | None
    if_match: str | None
    command: str
    request: str


def command_of(principal: str, key: str) -> str:
    """Hex SHA-256 of who asks ("kind:id") under which idempotency key."""
    return hashlib.sha256(f"{principal}\x00{key}".encode()).hexdigest()


def decide_save(
    state: Contract, document: Document, *, contract_id: str, if_match: str | None, saved_by: str, now: int
) -> list[Event]:
    """Save a checked contract with everything off (R-AUT-02, R-AUT-03). Raises IfMatchRequired, PreconditionFailed."""
    if state.status is Status.ABSENT:
        message = "There is no contract to match."
        require_none(if_match, message, "Send the first contract without If-Match.")
    else:
        message = "A contract exists. Replacing it needs If-Match."
        read_first = "Read the contract, decide whether to replace it, and send its etag as If-Match."
        _require_current(state, require_given(if_match, state.etag, message, read_first))
    return [
        ContractSaved(
            contract_id=contract_id,
            policy_version=POLICY_VERSION,
            contract_sha256=document.contract_sha256,
            automations=document.automations,
            saved_by=saved_by,
            saved_at=now,
        )
    ]


def decide_enable(state: Contract, wish: EnableWish, facts: Facts, *, enabled_by: str, now: int) -> list[Event]:
    """Turn automations on (R-AUT-05, R-AUT-56); nothing when this very command did, whatever happened since.

    Raises ContractNotFound, AutomationNotFound, EnableKeyReused, PreconditionFailed, ReadinessIncomplete.
    """
    done = find_receipt(state, wish.command)
    if done is not None:
        if done.request != wish.request:
            raise EnableKeyReused("This idempotency key belongs to another request.", next_action="Use a new key.")
        return []
    _require_saved(state)
    targets = state.automations if wish.automation_id is None else [_require_automation(state, wish.automation_id)]
    _require_current(state, wish.if_match)
    gaps = [
        {"automation_id": target.saved.automation_id, "code": gap.code, "message": gap.message}
        for target in targets
        for gap in find_gaps(target.saved, facts)
    ]
    if gaps:
        raise ReadinessIncomplete(
            "The automation is missing something it needs.",
            next_action="Close the gaps in details.gaps, then enable with the current etag.",
            gaps=gaps,
        )
    return [
        ContractEnabled(
            receipt_id=wish.receipt_id,
            contract_id=state.contract_id,
            contract_sha256=state.contract_sha256,
            contract_revision=state.revision + 1,
            previous_etag=state.etag,
            etag=make_etag(state.contract_id, state.revision + 1),
            automation_ids=[target.saved.automation_id for target in targets],
            enabled_by=enabled_by,
            enabled_at=now,
            command=wish.command,
            request=wish.request,
        )
    ]


def decide_disable(
    state: Contract,
    automation_id: str,
    *,
    reason: str | None,
    if_match: str | None,
    disabled_by: str,
    now: int,
) -> list[Event]:
    """Disable one automation (R-AUT-07). Raises ContractNotFound, AutomationNotFound, PreconditionFailed."""
    _require_saved(state)
    target = _require_automation(state, automation_id)
    _require_current(state, if_match)
    if not target.enabled:
        return []
    others = any(a.enabled for a in state.automations if a is not target)
    event = AutomationDisabled if others else LastAutomationDisabled
    return [event(automation_id=automation_id, reason=reason, disabled_by=disabled_by, disabled_at=now)]


def decide_disable_all(
    state: Contract, *, reason: str, disabled_by: str, now: int, automation_ids: Collection[str] | None = None
) -> list[Event]:
    """Disable these automations, or all, one after the other, at any revision."""
    on = [a.saved.automation_id for a in state.automations if a.enabled]
    off = [each for each in on if automation_ids is None or each in automation_ids]
    last = [LastAutomationDisabled if len(off) == len(on) else AutomationDisabled]
    kinds = [AutomationDisabled] * (len(off) - 1) + last
    return [
        kind(automation_id=automation_id, reason=reason, disabled_by=disabled_by, disabled_at=now)
        for automation_id, kind in zip(off, kinds, strict=False)
    ]


def decide_pause(state: Contract, *, reason: str | None, paused_by: str, now: int) -> list[Event]:
    """Stop everything at once, from whatever revision (R-AUT-06). Raises ContractNotFound."""
    _require_saved(state)
    if state.status is Status.PAUSED:
        return []
    return [ContractPaused(reason=reason, paused_by=paused_by, paused_at=now)]


def find_receipt(state: Contract, command: str) -> KeptReceipt | None:
    """Return the receipt that a command was given."""
    return next((kept for kept in reversed(state.receipts) if kept.command == command), None)


def _require_saved(state: Contract) -> None:
    if state.status is Status.ABSENT:
        raise ContractNotFound(
            "The project has no automation contract.", next_action="Render a playbook and save the contract."
        )


def _require_automation(state: Contract, automation_id: str) -> Automation:
    found = state.find(automation_id)
    if found is None:
        raise policies.AutomationNotFound(
            "The contract has no such automation.", next_action="Read the contract and name one of its automations."
        )
    return found


def _require_current(state: Contract, if_match: str | None) -> None:
    read_again = "Read the contract again, review it, and retry only if you still want the change."
    require_same(if_match, state.etag, "The contract has changed since you read it.", read_again)


def evolve(state: Contract, event: Any) -> Contract:
    """Fold an event. Never refuses."""
    moved = msgspec.structs.replace(
        state, status=Status[destination(TABLE, event, state.status)], revision=state.revision + 1
    )
    match event:
        case ContractSaved():
            return msgspec.structs.replace(
                moved,
                contract_id=event.contract_id,
                contract_sha256=event.contract_sha256,
                automations=[Automation(saved, withdrawn_at=event.saved_at) for saved in event.automations],
            )
        case ContractEnabled():
            kept = KeptReceipt(receipt_of(event), event.command, event.request)
            return msgspec.structs.replace(
                moved,
                automations=[_turn_on(a, moved.revision, event.automation_ids) for a in state.automations],
                receipts=[*state.receipts, kept][-RECEIPTS_KEPT:],
            )
        case AutomationDisabled() | LastAutomationDisabled():
            left = _turn_off(state.automations, event.disabled_at, event.automation_id)
            return msgspec.structs.replace(moved, automations=left)
        case _:
            return msgspec.structs.replace(moved, automations=_turn_off(state.automations, event.paused_at))


def receipt_of(event: ContractEnabled) -> EnableReceipt:
    """Return the receipt as clients see it."""
    return EnableReceipt(
        receipt_id=event.receipt_id,
        contract_id=event.contract_id,
        contract_sha256=event.contract_sha256,
        contract_revision=event.contract_revision,
        previous_etag=event.previous_etag,
        etag=event.etag,
        automation_ids=event.automation_ids,
        enabled_at=event.enabled_at,
        enabled_by=event.enabled_by,
    )


def _turn_on(automation: Automation, revision: int, automation_ids: list[str]) -> Automation:
    if automation.enabled or automation.saved.automation_id not in automation_ids:
        return automation
    return msgspec.structs.replace(automation, enabled=True, generation=revision)


def _turn_off(automations: list[Automation], at: int, automation_id: str | None = None) -> list[Automation]:
    return [
        msgspec.structs.replace(a, enabled=False, withdrawn_at=at)
        if a.enabled and automation_id in {None, a.saved.automation_id}
        else a
        for a in automations
    ]


MACHINE = StateMachine("ctr", TABLE, Contract(), evolve, ContractConflict, Contract)


# From the contract to the authority of one automation: what triggers, claims, runs and grants decide by.


def enabled_for(contract: Contract, repository: str) -> list[str]:
    """The enabled automations of a repository, however its address is written."""
    key = policies.repository_key(repository)
    return [
        automation.saved.automation_id
        for automation in contract.automations
        if automation.enabled and policies.repository_key(policy_of(automation.saved).repository) == key
    ]


def authority_of(contract: Contract, automation_id: str) -> policies.Authority:
    """Where an automation stands in the contract now; without a policy when the contract does not have it."""
    automation = contract.find(automation_id)
    paused = contract.status is Status.PAUSED
    if automation is None:
        return policies.Authority(automation_id=automation_id, paused=paused, contract_revision=contract.revision)
    return policies.Authority(
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
def policy_of(saved: SavedAutomation) -> policies.Policy:
    """Terms of a saved automation's policy, in the types of execution."""
    policy = read_policy(saved.policy)
    playbook = policies.Playbook(saved.playbook_id, saved.playbook_version, saved.template_hash)
    environment = policy.runner.environment if isinstance(policy.runner.environment, str) else None
    if isinstance(policy, rendered.WeeklyFunnelReviewPolicy):
        return policies.Policy(
            playbook=playbook,
            schedule_trigger=policies.ScheduleTrigger(
                cron=policy.trigger.cron,
                timezone=policy.trigger.timezone,
                start_window_seconds=policy.trigger.start_window_seconds,
                period_days=policy.report_plan.period_days,
            ),
            review=policies.ReviewPlan(list(policy.report_plan.events), policy.report_plan.minimum_sample_size),
            environment=environment,
            limits=_limits(policy.budgets),
        )
    return policies.Policy(
        playbook=playbook,
        case_trigger=policies.CaseTrigger(
            policy.trigger.max_cases_per_sweep,
            policy.trigger.cooldown_seconds,
            policies.Thresholds(
                policy.trigger.materiality.minimum_event_count,
                policy.trigger.materiality.maximum_last_seen_age_seconds,
            ),
        ),
        repository=policy.runner.repository,
        default_branch=policy.runner.default_branch,
        environment=environment,
        scope=policies.Scope(
            list(policy.scope.allowed_paths),
            list(policy.scope.test_commands),
            policy.scope.max_files_changed,
            policy.scope.max_changed_lines,
        ),
        limits=_limits(policy.budgets),
        delivery=_delivery(policy.code_delivery),
        verification=policies.VerificationTerms(
            policy.verification.observation_window_seconds,
            policy.verification.max_wait_seconds,
            policy.verification.min_sample_size,
            policy.verification.traffic_sample_event,
        ),
    )


def _limits(budgets: rendered.CaseLimits | rendered.ReportLimits) -> policies.Limits:
    return policies.Limits(
        max_runs_per_day=budgets.max_runs_per_day,
        max_prs_per_day=budgets.max_prs_per_day,
        max_attempts_per_case_revision=budgets.max_attempts_per_case_revision,
        max_turns_per_run=budgets.max_turns_per_run,
        max_runtime_seconds=budgets.max_runtime_seconds,
        max_cost_usd_per_run=format(budgets.max_cost_usd_per_run, "f"),
    )


def _delivery(delivery: CodeDelivery) -> policies.Delivery:
    if isinstance(delivery, AutoMerge):
        return policies.Delivery("auto_merge", delivery.merge_method, list(delivery.required_status_checks))
    return policies.Delivery()
