"""Wire contracts of projects and their DSN (R-PROJ, G-023, G-026)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.kernel import patterns
from schemas.kernel.shape import Epoch

Alias = Annotated[int, Meta(ge=1, le=2**52)]
RoleName = Literal["owner", "member", "auditor"]


class CreateProject(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Create a project. The caller becomes its owner."""

    name: Annotated[str, Meta(min_length=1, max_length=200, pattern=patterns.LABEL)]


class SdkSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings for SDKs of other services (G-142).

    `sentry_dsn` is for those of Sentry, `posthog_host` and `posthog_key` for those of PostHog, and the others are the
    values of `OTEL_EXPORTER_OTLP_ENDPOINT` and `OTEL_EXPORTER_OTLP_HEADERS` for those of OpenTelemetry.
    """

    sentry_dsn: str
    posthog_host: str
    posthog_key: str
    otlp_endpoint: str
    otlp_headers: str


class DsnEndpoints(msgspec.Struct, frozen=True, kw_only=True):
    """A project by its id, with the endpoints that take its DSN.

    `alias` is the number by which SDKs call it, `sdks` what to paste into them; null where the DSN is.
    """

    id: str
    alias: Alias
    sdks: SdkSettings | None
    logs_url: str
    analytics_url: str
    deploys_url: str
    deploys_note: str


class ProjectCreatedBody(DsnEndpoints, frozen=True, kw_only=True):
    """A new project. Its DSNs are null in a replay of the request."""

    project_id: str
    name: str
    role: RoleName
    dsn: str | None
    dsn_prefix: str
    dsn_recoverable: bool
    public_dsn: str | None
    sdks_public: SdkSettings | None
    created_at: Epoch
    next_action: str


class ProjectItem(msgspec.Struct, frozen=True, kw_only=True):
    """A project as its members list it, never with the raw DSN."""

    id: str
    project_id: str
    alias: Alias
    name: str
    role: RoleName
    dsn_prefix: str
    dsn_recoverable: bool
    created_at: Epoch


class ProjectList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the caller's projects, newest first."""

    projects: list[ProjectItem]
    count: int
    next_cursor: str | None
    next_action: str


class DsnBody(msgspec.Struct, frozen=True, kw_only=True):
    """The DSNs, raw if a recovery copy exists, and the settings for SDKs of other services.

    `public_dsn_prefix` is null in a project without a public DSN.
    """

    project_id: str
    alias: Alias
    sdks: SdkSettings | None
    dsn_prefix: str
    raw_available: bool
    dsn: str | None
    public_dsn: str | None
    public_dsn_prefix: str | None
    sdks_public: SdkSettings | None
    verify_endpoint: str
    rotate_endpoint: str
    next_action: str


class VerifyDsn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Check a DSN against this project."""

    dsn: Annotated[str, Meta(min_length=1, max_length=1000)]


class DsnVerified(msgspec.Struct, frozen=True, kw_only=True):
    """The result. `parsed_project_id` is the project named in the text, whatever its key."""

    ok: bool
    project_id: str
    dsn_prefix: str
    parsed_project_id: str | None
    stored_for_recovery: bool
    next_action: str


class RotateDsn(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Replace the DSN. The body is an empty object."""


class DsnRotatedBody(DsnEndpoints, frozen=True, kw_only=True):
    """The new DSN. `dsn` is null in a replay of the request."""

    name: str
    dsn: str | None
    dsn_recoverable: bool
    next_action: str


class PublicDsnRotatedBody(msgspec.Struct, frozen=True, kw_only=True):
    """The new public DSN, with the endpoints that take it. It is null in a replay of the request."""

    id: str
    alias: Alias
    name: str
    public_dsn: str | None
    public_dsn_prefix: str
    sdks_public: SdkSettings | None
    dsn_recoverable: bool
    logs_url: str
    analytics_url: str
    next_action: str
