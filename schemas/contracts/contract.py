"""Wire contracts of the automation contract: what an owner saves, enables, pauses and disables (G-101, G-103).

The entries of an input are decoded loosely and checked one by one, so that an answer names every fault of every
entry. `policy_version` is the integer 2 (G-011).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.contracts.playbook import (
    AutomationId,
    ErrorToDraftPrAssertions,
    ErrorToDraftPrBindings,
    Gap,
    PlaybookRef,
    Sha256,
    WeeklyFunnelReviewAssertions,
    WeeklyFunnelReviewBindings,
)
from schemas.contracts.policy import (
    ErrorToDraftPrEntry,
    ErrorToDraftPrPolicy,
    WeeklyFunnelReviewEntry,
    WeeklyFunnelReviewPolicy,
)
from schemas.kernel.shape import Closed, one_of

MAX_CONTRACT_BYTES = 262144
MAX_AUTOMATIONS = 20
MAX_ERRORS = 1000
MAX_EFFECTS = 50

Entries = Annotated[
    list[Annotated[Any, one_of(ErrorToDraftPrEntry, WeeklyFunnelReviewEntry, deep=True)]],
    Meta(min_length=1, max_length=MAX_AUTOMATIONS),
]
"""Entries of a contract, as renders return them."""
BoundPolicy = Annotated[dict[str, Any], one_of(ErrorToDraftPrPolicy, WeeklyFunnelReviewPolicy)]
Reason = Annotated[str, Meta(min_length=1, max_length=500)]


class ContractInput(Closed, frozen=True):
    """A disabled contract, composed of rendered candidates."""

    policy_version: Literal[2]
    automations: Entries


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A rendered, disabled automation, and the contract input that would save it (G-100)."""

    kind: Literal["automation_candidate"] = "automation_candidate"
    project_id: str
    playbook: PlaybookRef
    enabled: bool = False
    automation: BoundPolicy
    contract_input: ContractInput
    candidate_sha256: Sha256
    readiness_gaps: list[Gap]
    next_action: str


class EnableRequest(Closed, frozen=True):
    """The automation to enable. All of them when none is named."""

    automation_id: AutomationId | UnsetType = UNSET


class PauseRequest(Closed, frozen=True):
    """The reason for a pause."""

    reason: Reason | UnsetType = UNSET


class DisableRequest(Closed, frozen=True):
    """Disable one automation. To enable one, use the enable operation."""

    enabled: Annotated[bool, Meta(extra_json_schema={"const": False})]
    reason: Reason | UnsetType = UNSET


class EnableReceipt(msgspec.Struct, frozen=True, kw_only=True):
    """The record of one enable: the person, the automations and the contract (G-103)."""

    receipt_id: str
    contract_id: str
    contract_sha256: Sha256
    contract_revision: int
    previous_etag: str
    etag: str
    automation_ids: list[str]
    enabled_at: int
    enabled_by: str


class ContractAutomation(msgspec.Struct, frozen=True, kw_only=True):
    """One automation of a saved contract: its entry and its state."""

    playbook: PlaybookRef
    bindings: Annotated[dict[str, Any], one_of(ErrorToDraftPrBindings, WeeklyFunnelReviewBindings)]
    readiness_assertions: Annotated[dict[str, Any], one_of(ErrorToDraftPrAssertions, WeeklyFunnelReviewAssertions)]
    policy: BoundPolicy
    automation_id: str
    enabled: bool
    enabled_at: int | None
    disabled_at: int | None
    disabled_reason: str | None
    policy_sha256: Sha256


class AutomationContract(msgspec.Struct, frozen=True, kw_only=True):
    """The contract, as PUT, GET and PATCH return it. `etag` is also the response header."""

    contract_id: str
    project_id: str
    policy_version: Literal[2] = 2
    revision: int
    etag: str
    contract_sha256: Sha256
    enabled: bool
    paused: bool
    paused_at: int | None
    automations: list[ContractAutomation]
    enable_receipt: EnableReceipt | None
    created_at: int
    updated_at: int
    updated_by: str
    next_action: str


class EnableAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The receipt of an enable with the current contract. On a replay they may differ."""

    enable_receipt: EnableReceipt
    contract: AutomationContract
    idempotent_replay: bool
    next_action: str


class FenceEvent(msgspec.Struct, frozen=True):
    """The event after which nothing new begins: its stream and revision."""

    stream_id: str
    revision: int


class StartedEffect(msgspec.Struct, frozen=True):
    """A provider call that began before the stop and is not settled. A stop does not undo it.

    `unresolved`: its run has ended, and the result of the call is unknown.
    """

    kind: Literal["draft_pr", "auto_merge"]
    automation_id: str
    run_id: str
    grant_id: str
    status: Literal["consumed", "unresolved"]
    started_at: int


class PauseAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The contract with everything off, and what had begun before.

    `effects_started` is null if it could not be read in time. The stop is in force, and automation-control
    lists the effects.
    """

    contract: AutomationContract
    paused_at: int
    fence: FenceEvent
    effects_started: Annotated[list[StartedEffect], Meta(max_length=MAX_EFFECTS)] | None = None
    effects_truncated: bool = False
    next_action: str


class DisabledContract(AutomationContract, frozen=True, kw_only=True):
    """The contract with one automation off, and its earlier effects, both as in PauseAnswer."""

    fence: FenceEvent
    effects_started: Annotated[list[StartedEffect], Meta(max_length=MAX_EFFECTS)] | None = None
    effects_truncated: bool = False


class ContractProblem(msgspec.Struct, frozen=True):
    """One fault of an input, by its path."""

    path: str
    code: str
    message: str


class AutomationGap(msgspec.Struct, frozen=True):
    """A condition that must hold before this automation can be enabled."""

    automation_id: str
    code: str
    message: str


class Readiness(msgspec.Struct, frozen=True):
    """The readiness of every automation."""

    ready: bool
    gaps: list[AutomationGap]


class ContractValidation(msgspec.Struct, frozen=True, kw_only=True):
    """The validation of the input. `contract_sha256` is null if the input is not valid."""

    valid: bool
    project_id: str
    errors: Annotated[list[ContractProblem], Meta(max_length=MAX_ERRORS)]
    readiness: Readiness
    contract_sha256: Sha256 | None
    next_action: str
