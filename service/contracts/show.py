"""The automation contract and the playbooks on the wire."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec

from projections.contracts.contract import AutomationContractRow, AutomationRow
from schemas.contracts.contract import (
    MAX_ERRORS,
    AutomationContract,
    ContractAutomation,
    ContractProblem,
    ContractValidation,
    DisabledContract,
    EnableAnswer,
    FenceEvent,
    PauseAnswer,
    Readiness,
    StartedEffect,
)
from schemas.contracts.playbook import Playbook, PlaybookEndpoints, PlaybookRef, RelatedOperation
from service.contracts.commands import Enabled
from service.contracts.reads import Examined
from statemachines.contracts.contract import Status
from statemachines.contracts.documents import make_document
from statemachines.contracts.playbook import template_hash, versions_of
from statemachines.contracts.templates import Template
from statemachines.kernel.shapes import json_schema

OperationIds = Mapping[tuple[str, str], str]
"""Ids of the API's operations by method and path."""

_NEXT = {
    Status.DISABLED.value: "Create the runner credentials, review the contract, and have an owner enable it.",
    Status.ENABLED.value: "Let your scheduler wake each runner. Pause stops everything at once.",
    Status.PAUSED.value: "Everything is off until an owner reviews this contract and enables it again.",
}


def contract(row: AutomationContractRow) -> AutomationContract:
    """The artifact as clients see it."""
    return AutomationContract(
        contract_id=row.id,
        project_id=row.project_id,
        revision=row.state_revision,
        etag=row.etag,
        contract_sha256=row.contract_sha256,
        enabled=any(automation.enabled for automation in row.automations),
        paused=row.paused_at is not None,
        paused_at=row.paused_at,
        automations=[_automation(automation) for automation in row.automations],
        enable_receipt=row.enable_receipt,
        created_at=row.created_at,
        updated_at=row.updated_at,
        updated_by=row.updated_by,
        next_action=_NEXT[row.status],
    )


def disabled(row: AutomationContractRow) -> DisabledContract:
    """The artifact after a disable; the caller fills in the effects started before."""
    shown = contract(row)
    return DisabledContract(**{name: getattr(shown, name) for name in shown.__struct_fields__}, fence=_fence(row))


def _fence(row: AutomationContractRow) -> FenceEvent:
    """The contract's last event. The stop holds from it on."""
    return FenceEvent(stream_id=row.id, revision=row.revision)


def effects(found: Iterable[Sequence[Any]]) -> list[StartedEffect]:
    """Effects that had begun, as service/runs/background/effects.py reads them."""
    return [
        StartedEffect(kind, automation_id, run_id, grant_id, status, at)
        for _, automation_id, run_id, grant_id, kind, status, at in found
    ]


def _automation(row: AutomationRow) -> ContractAutomation:
    saved = row.saved
    return ContractAutomation(
        # Ids of published playbooks only: nothing else is ever saved.
        playbook=msgspec.convert(
            {"id": saved.playbook_id, "version": saved.playbook_version, "template_hash": saved.template_hash},
            PlaybookRef,
        ),
        bindings=msgspec.json.decode(saved.bindings),
        readiness_assertions=msgspec.json.decode(saved.readiness_assertions),
        policy=msgspec.json.decode(saved.policy),
        automation_id=saved.automation_id,
        enabled=row.enabled,
        enabled_at=row.enabled_at,
        disabled_at=row.disabled_at,
        disabled_reason=row.disabled_reason,
        policy_sha256=saved.policy_sha256,
    )


def validation(project_id: str, examined: Examined) -> ContractValidation:
    """What a save would refuse and an enable would miss."""
    valid = examined.valid
    if valid:
        next_action = "An owner can save this input with PUT. It stays disabled until an owner enables it."
    else:
        next_action = "Correct the errors by their paths, or render the playbook again and use its entry unchanged."
    return ContractValidation(
        valid=valid,
        project_id=project_id,
        errors=[ContractProblem(*problem) for problem in examined.checked.errors[:MAX_ERRORS]],
        readiness=Readiness(ready=valid and not examined.gaps, gaps=examined.gaps),
        contract_sha256=make_document(examined.entries, examined.checked).contract_sha256 if valid else None,
        next_action=next_action,
    )


def enabled(result: Enabled) -> EnableAnswer:
    """The receipt of an enable beside the contract as it stands."""
    shown = contract(result.row)
    still = shown.etag == result.receipt.etag
    return EnableAnswer(
        enable_receipt=result.receipt,
        contract=shown,
        idempotent_replay=result.replay,
        next_action=(
            "Let the scheduler wake the runner of each enabled automation."
            if still
            else "The contract has changed since this receipt. Read its present state here first."
        ),
    )


def paused(row: AutomationContractRow) -> PauseAnswer:
    """The contract after a pause."""
    shown = contract(row)
    assert shown.paused_at is not None, "a paused contract says since when"
    return PauseAnswer(contract=shown, paused_at=shown.paused_at, fence=_fence(row), next_action=shown.next_action)


@cache
def _versions(template_id: str) -> list[str]:
    return [published.version for published in versions_of(template_id)]


def playbook(template: Template, operation_ids: OperationIds) -> Playbook:
    """Catalogue entry of one version (G-117)."""
    versions = _versions(template.id)
    return Playbook(
        id=template.id,
        version=template.version,
        latest=template.version == versions[-1],
        title=template.title,
        description=template.description,
        trigger_kind=template.trigger_kind,
        output_kind=template.output_kind,
        locked_invariants=template.locked_invariants,
        render_request_schema=json_schema(template.request),
        run_output_schema=json_schema(template.output),
        related_operations=[
            RelatedOperation(operation_ids[method, path], method, path) for method, path in template.operations
        ],
        latest_version=versions[-1],
        available_versions=versions,
        endpoints=PlaybookEndpoints(
            detail=f"/v1/automation-playbooks/{template.id}",
            render=f"/v1/projects/{{project_id}}/automation-playbooks/{template.id}/render",
        ),
        template_hash=template_hash(template.id, template.version),
        next_action=template.next_action,
    )
