"""Wire contracts of project credentials (R-CRED, G-040, G-041)."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.kernel import patterns
from schemas.kernel.shape import Epoch, PageQuery

CredentialKind = Literal["ci_deploy", "automation_runner"]
CredentialScope = Literal[
    "deploys:write",
    "automation_proofs:write",
    "cases:read",
    "triggers:read",
    "triggers:issue",
    "claims:write",
    "runs:read",
    "runs:write",
    "approvals:request",
]
AutomationId = Annotated[str, Meta(min_length=1, max_length=100, pattern=patterns.SLUG_OF_100)]

DEFAULT_LIFETIME = 7776000  # seconds: 90 days
MAX_CREATE_BYTES = 16384


class CreateCredential(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Create a credential. `automation_id` is required for a runner and refused for CI (R-CRED-07)."""

    kind: CredentialKind
    name: Annotated[str, Meta(min_length=1, max_length=200)]
    automation_id: AutomationId | msgspec.UnsetType = msgspec.UNSET
    expires_in_seconds: Annotated[int, Meta(ge=300, le=31536000)] = DEFAULT_LIFETIME


class CredentialMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """A credential without its secret."""

    id: str
    project_id: str
    name: str
    prefix: str
    created_by: str
    kind: CredentialKind
    scopes: list[CredentialScope]
    automation_id: AutomationId | None
    created_at: Epoch
    expires_at: Epoch
    last_used_at: Epoch | None
    revoked_at: Epoch | None
    revoke_reason: str | None
    active: bool
    env_var: Literal["SERVICE_CI_API_KEY", "SERVICE_RUNNER_API_KEY"]
    runner_id: str | None


class CredentialCreatedBody(CredentialMetadata, frozen=True, kw_only=True):
    """A new credential with its secret, which no other answer ever holds."""

    credential: Annotated[str, Meta(pattern="^service_(ci|runner)_[0-9A-Za-z]{43}$")]
    idempotent_replay: bool = False
    next_action: str


class CredentialReplay(CredentialMetadata, frozen=True, kw_only=True):
    """What a repeated create returns about the credential that it created (R-CRED-09)."""

    idempotent_replay: bool = True


class CredentialQuery(PageQuery, frozen=True):
    """A page holds as many credentials as any project is likely to have."""

    limit: Annotated[int, Meta(ge=1, le=200)] = 200


class CredentialList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the project's credentials, newest first."""

    credentials: list[CredentialMetadata]
    next_cursor: str | None = None
    next_action: str


class RevokeCredential(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Revoke a credential, optionally with a reason."""

    reason: Annotated[str, Meta(min_length=1, max_length=500)] | msgspec.UnsetType = msgspec.UNSET


class CredentialRevokedBody(CredentialMetadata, frozen=True, kw_only=True):
    """The revoked credential."""

    next_action: str
