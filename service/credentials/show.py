"""Project credentials on the wire, never with a secret but in the answer that made it (R-CRED-03, R-CRED-09)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from projections.credentials.credential import CredentialRow
from schemas.credentials.credential import (
    CredentialCreatedBody,
    CredentialList,
    CredentialMetadata,
    CredentialReplay,
    CredentialRevokedBody,
)
from statemachines.credentials.credential import CI, RUNNER

ENV_VARS = {CI: "SERVICE_CI_API_KEY", RUNNER: "SERVICE_RUNNER_API_KEY"}


class CredentialStanding(NamedTuple):
    """A credential as it stands at `now`; times in epoch seconds."""

    row: CredentialRow
    last_used_at: int | None
    now: int


def credential_created(standing: CredentialStanding, secret: str) -> CredentialCreatedBody:
    """A new credential, with its secret."""
    return CredentialCreatedBody(
        **metadata_of(*standing),
        credential=secret,
        next_action=f"Store the secret as {ENV_VARS[standing.row.kind]} where it is used. It is not shown again.",
    )


def credential_replay(standing: CredentialStanding) -> CredentialReplay:
    """What a repeated creation is told: the credential that it made, as it stands now."""
    return CredentialReplay(**metadata_of(*standing))


def credential_list(credentials: Sequence[CredentialStanding], cursor: str | None) -> CredentialList:
    """A page of the credentials of a project."""
    items = [CredentialMetadata(**metadata_of(*standing)) for standing in credentials]
    next_action = "Revoke a credential that leaked or is no longer needed."
    return CredentialList(credentials=items, next_cursor=cursor, next_action=next_action)


def credential_revoked(standing: CredentialStanding) -> CredentialRevokedBody:
    """A credential as it ended."""
    next_action = "Remove the secret from every place that stores it."
    return CredentialRevokedBody(**metadata_of(*standing), next_action=next_action)


def metadata_of(row: CredentialRow, last_used_at: int | None, now: int) -> dict[str, Any]:
    """The members of CredentialMetadata."""
    return {
        "id": row.id,
        "project_id": row.project_id,
        "name": row.name,
        "prefix": row.prefix,
        "created_by": row.created_by,
        "kind": row.kind,
        "scopes": row.scopes,
        "automation_id": row.automation_id,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "last_used_at": last_used_at,
        "revoked_at": row.revoked_at,
        "revoke_reason": row.revoke_reason,
        "active": row.active(now),
        "env_var": ENV_VARS[row.kind],
        "runner_id": row.runner_id,
    }
