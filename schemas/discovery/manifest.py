"""Wire shapes of the setup manifest and of the capabilities (R-DISC-06 to R-DISC-08, G-166)."""

from __future__ import annotations

from typing import Literal

import msgspec

Place = Literal["server", "browser", "ci", "scheduler", "owner"]


class SetupVariable(msgspec.Struct, frozen=True, kw_only=True):
    """An environment variable, and the part that needs it."""

    name: str
    secret: bool
    required: bool
    where: Place
    purpose: str


class FrameworkVariables(msgspec.Struct, frozen=True, kw_only=True):
    """The way in which the code of one language reads its variables."""

    language: str
    where: Place
    reads: str
    variables: list[str]
    snippet: str


class HostVariables(msgspec.Struct, frozen=True, kw_only=True):
    """The store of one kind of host."""

    host: str
    store: str
    variables: list[str]
    note: str


class PreflightCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A check before the first request."""

    check: str
    when_it_fails: str


class PreflightChecks(msgspec.Struct, frozen=True, kw_only=True):
    """The checks of each credential, of the tools and of the service."""

    api_key: PreflightCheck
    dsn: PreflightCheck
    ci_credential: PreflightCheck
    runner_credential: PreflightCheck
    tools: PreflightCheck
    service: PreflightCheck


class LocalState(msgspec.Struct, frozen=True, kw_only=True):
    """The files of an agent: those to keep, and those to delete."""

    keep: list[str]
    delete: list[str]
    never_commit: list[str]
    resume_from: str


class PublicQueries(msgspec.Struct, frozen=True, kw_only=True):
    """The operations for publishing numbers."""

    publish: str
    read: str
    key_parameter: str
    note: str


class SetupManifest(msgspec.Struct, frozen=True, kw_only=True):
    """The variables, checks and files of a setup."""

    schema_version: int
    principle: str
    project_setup_endpoint: str
    runtime_env: list[SetupVariable]
    owner_env: list[SetupVariable]
    framework_env_matrix: list[FrameworkVariables]
    host_env_matrix: list[HostVariables]
    env_preflight_checks: PreflightChecks
    local_state: LocalState
    public_queries: PublicQueries
    next_action: str


class Capability(msgspec.Struct, frozen=True, kw_only=True):
    """A capability with its operations. `reason` is null while it is available here."""

    id: str
    title: str
    available: bool
    reason: str | None
    operations: list[str]
    docs: str


class Surface(msgspec.Struct, frozen=True, kw_only=True):
    """One way in or out of the service."""

    available: bool
    url: str
    description: str


class Surfaces(msgspec.Struct, frozen=True, kw_only=True):
    """The ways in and out."""

    api: Surface
    guides: Surface
    mcp: Surface
    ingest: Surface
    webhooks: Surface
    public_queries: Surface


class AuthType(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of credential."""

    kind: str
    env_var: str
    reaches: str


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """The capabilities of this installation. Only `generated_at` may differ between two reads."""

    schema_version: int
    generated_at: int
    principle: str
    discovery: dict[str, str]
    auth_types: list[AuthType]
    surfaces: Surfaces
    capabilities: list[Capability]
    next_action: str
