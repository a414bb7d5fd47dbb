"""Wire contract of the install contract and of a project's setup (R-INST-01 to R-INST-04, G-061)."""

from __future__ import annotations

from typing import Literal

import msgspec

from schemas.kernel.shape import EvidenceSource, HistoryCheck, Identifier

InstallState = Literal["project_setup_loaded", "plan_drafted", "plan_approved", "implemented", "verified", "blocked"]
GateCode = Literal[
    "signal_map_missing",
    "implementation_report_missing",
    "no_events_received",
    "no_deploy_recorded",
    "no_error_received",
]


class InstallStep(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """A step of the flow: the operation that leads from one state to the next, and its condition."""

    from_: str
    method: Literal["GET", "POST", "PUT"]
    path: str
    to: str
    condition: str


Instrumentation = Literal["provider", "dsn"]


class InstallWay(msgspec.Struct, frozen=True):
    """A way to instrument a product (G-181)."""

    instrumentation: Instrumentation
    description: str
    guide: str


class InstallContract(msgspec.Struct, frozen=True, kw_only=True):
    """The install flow as a whole. Each operation of it is served here. `gates` stop a verification."""

    contract_version: Literal[3] = 3
    principle: str
    ways: list[InstallWay]
    states: list[str]
    operations: list[InstallStep]
    gates: list[GateCode]
    next_action: str


class SetupProject(msgspec.Struct, frozen=True, kw_only=True):
    """The project, the caller's role in it, and the first characters of its DSN."""

    name: str
    role: Literal["owner", "member", "auditor"]
    dsn_prefix: str


class ProjectVariable(msgspec.Struct, frozen=True, kw_only=True):
    """An environment variable. `where` it belongs: with the installing person, in the running product, or in CI.

    A value is never shown.
    """

    name: str
    secret: bool
    required: bool
    where: Literal["owner", "runtime", "ci"]


class SetupEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses to send telemetry and deploys to."""

    logs: str
    analytics: str
    deploys: str
    browser_config: str


class SetupReadiness(msgspec.Struct, frozen=True, kw_only=True):
    """The arrivals so far."""

    has_events: bool
    has_deploys: bool
    install_verified: bool


class ProjectSetup(msgspec.Struct, frozen=True, kw_only=True):
    """All that an installation in a product needs to know, but the secrets."""

    project_id: Identifier
    project: SetupProject
    install_state: InstallState
    instrumentation: Instrumentation
    env: list[ProjectVariable]
    endpoints: SetupEndpoints
    readiness: SetupReadiness
    evidence_source: EvidenceSource
    historical_evidence_check: HistoryCheck | None
    docs: str
    next_action: str
