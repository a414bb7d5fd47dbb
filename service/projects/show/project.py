"""Projects and their DSN on the wire (R-PROJ-01 to R-PROJ-07, R-PROJ-15, G-023, G-026)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from schemas.projects.project import (
    DsnBody,
    DsnRotatedBody,
    DsnVerified,
    ProjectCreatedBody,
    ProjectItem,
    ProjectList,
    PublicDsnRotatedBody,
    RoleName,
    SdkSettings,
)
from service.auth.secrets import alias_of, make_dsn
from service.projects.commands.dsn import CheckedDsn, IssuedDsn
from service.projects.reads.project import KnownDsn, ListedProject

DEPLOYS_NOTE = "Deploys are recorded from CI, with the DSN or with a ci_deploy credential. Never from a browser."


def project_list(projects: Sequence[ListedProject], next_cursor: str | None, *, can_unseal: bool) -> ProjectList:
    """A page of a person's projects. `can_unseal`: this process has the key of the sealed copies."""
    return ProjectList(
        projects=[_item(project, can_unseal=can_unseal) for project in projects],
        count=len(projects),
        next_cursor=next_cursor,
        next_action="Choose the project to work on, or create one with POST /v1/projects.",
    )


def project_created(base_url: str, issued: IssuedDsn, *, raw: bool) -> ProjectCreatedBody:
    """A new project, with the DSN itself where it is shown for the first time (`raw`)."""
    return ProjectCreatedBody(
        id=issued.project_id,
        **_sdks(base_url, issued.project_id, issued.key if raw else None),
        project_id=issued.project_id,
        name=issued.name,
        role="owner",
        dsn=make_dsn(base_url, issued.key, issued.project_id) if raw else None,
        dsn_prefix=issued.prefix,
        dsn_recoverable=issued.recoverable,
        **_public(base_url, issued.project_id, issued.public_key if raw else None),
        created_at=issued.issued_at,
        next_action="Put the DSN into SERVICE_DSN, then read the next steps of the project."
        if raw
        else "The DSN was shown once. Read it again with GET /v1/projects/{project_id}/dsn.",
        **_endpoints(base_url),
    )


def dsn_rotated(base_url: str, issued: IssuedDsn, *, raw: bool) -> DsnRotatedBody:
    """The DSN that replaces the one before, itself where it is shown for the first time (`raw`)."""
    return DsnRotatedBody(
        id=issued.project_id,
        **_sdks(base_url, issued.project_id, issued.key if raw else None),
        name=issued.name,
        dsn=make_dsn(base_url, issued.key, issued.project_id) if raw else None,
        dsn_recoverable=issued.recoverable,
        next_action="Replace SERVICE_DSN everywhere now. The previous DSN no longer works."
        if raw
        else "The DSN was shown once. Read it with GET /v1/projects/{project_id}/dsn.",
        **_endpoints(base_url),
    )


def public_dsn_rotated(base_url: str, issued: IssuedDsn, *, raw: bool) -> PublicDsnRotatedBody:
    """The public DSN that replaces the one before, itself where it is shown for the first time (`raw`)."""
    endpoints = _endpoints(base_url)
    return PublicDsnRotatedBody(
        id=issued.project_id,
        alias=alias_of(issued.project_id),
        name=issued.name,
        **_public(base_url, issued.project_id, issued.key if raw else None),
        public_dsn_prefix=issued.prefix,
        dsn_recoverable=issued.recoverable,
        logs_url=endpoints["logs_url"],
        analytics_url=endpoints["analytics_url"],
        next_action="Put the public DSN into your pages. A public DSN before it no longer works."
        if raw
        else "The public DSN was shown once. Read it with GET /v1/projects/{project_id}/dsn.",
    )


def dsn(base_url: str, project_id: str, known: KnownDsn) -> DsnBody:
    """The DSNs as far as they are known, and where to verify or rotate the server's."""
    place = f"{base_url}/v1/projects/{project_id}/dsn"
    return DsnBody(
        project_id=project_id,
        **_sdks(base_url, project_id, known.key),
        dsn_prefix=known.prefix,
        raw_available=known.key is not None,
        dsn=None if known.key is None else make_dsn(base_url, known.key, project_id),
        **_public(base_url, project_id, known.public_key),
        public_dsn_prefix=known.public_prefix,
        verify_endpoint=f"{place}/verify",
        rotate_endpoint=f"{place}/rotate",
        next_action="Keep the DSN in SERVICE_DSN."
        if known.key is not None
        else "Verify the DSN you hold. If it is lost, rotate it.",
    )


def dsn_verified(checked: CheckedDsn) -> DsnVerified:
    """Whether a DSN is the project's."""
    return DsnVerified(
        ok=checked.matches,
        project_id=checked.project_id,
        dsn_prefix=checked.prefix,
        parsed_project_id=checked.sent_project_id,
        stored_for_recovery=checked.copied,
        next_action=_after_check(checked),
    )


def _after_check(checked: CheckedDsn) -> str:
    if not checked.matches:
        return "Use the DSN of this project. An owner can read or rotate it."
    return "This is the public DSN. Use it in pages alone." if checked.public else "Nothing to do."


def _item(project: ListedProject, *, can_unseal: bool) -> ProjectItem:
    return ProjectItem(
        id=project.id,
        project_id=project.id,
        alias=alias_of(project.id),
        name=project.name,
        role=cast("RoleName", project.role),
        dsn_prefix=project.dsn_prefix,
        dsn_recoverable=project.copied and can_unseal,
        created_at=project.created_at,
    )


def _sdks(base_url: str, project_id: str, key: str | None) -> dict[str, Any]:
    """The settings for SDKs of other services."""
    return {"alias": alias_of(project_id), "sdks": None if key is None else _settings(base_url, project_id, key)}


def _public(base_url: str, project_id: str, key: str | None) -> dict[str, Any]:
    """The public DSN, and the settings with it."""
    if key is None:
        return {"public_dsn": None, "sdks_public": None}
    return {"public_dsn": make_dsn(base_url, key, project_id), "sdks_public": _settings(base_url, project_id, key)}


def _settings(base_url: str, project_id: str, key: str) -> SdkSettings:
    return SdkSettings(
        sentry_dsn=make_dsn(base_url, key, project_id),
        posthog_host=base_url,
        posthog_key=key,
        otlp_endpoint=base_url,
        otlp_headers=f"authorization=Bearer%20{key}",
    )


def _endpoints(base_url: str) -> dict[str, Any]:
    """The members of DsnEndpoints."""
    return {
        "logs_url": f"{base_url}/v1/logs/",
        "analytics_url": f"{base_url}/v1/analytics/",
        "deploys_url": f"{base_url}/v1/deploys/",
        "deploys_note": DEPLOYS_NOTE,
    }
