"""Wire contracts of project credentials (R-CRED, G-040, G-041)."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.kernel import patterns
from schemas.kernel.shape import Closed, Epoch, PageQuery, WorkflowRun

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


class ListedCredential(CredentialMetadata, frozen=True, kw_only=True):
    """A credential in the list. `run` is that of an exchanged one, and absent from others (G-171)."""

    run: WorkflowRun | msgspec.UnsetType = msgspec.UNSET


class CredentialQuery(PageQuery, frozen=True):
    """A page holds as many credentials as any project is likely to have."""

    limit: Annotated[int, Meta(ge=1, le=200)] = 200
    exchanged: bool = False


class CredentialList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the project's credentials, newest first."""

    credentials: list[ListedCredential]
    next_cursor: str | None = None
    next_action: str


class RevokeCredential(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Revoke a credential, optionally with a reason."""

    reason: Annotated[str, Meta(min_length=1, max_length=500)] | msgspec.UnsetType = msgspec.UNSET


class CredentialRevokedBody(CredentialMetadata, frozen=True, kw_only=True):
    """The revoked credential."""

    next_action: str


# Wire contract of CI bindings, and of the exchange of a run's token (G-171).

MAX_EXCHANGE_BYTES = 16384

Issuer = Annotated[str, Meta(min_length=1, max_length=300, pattern=patterns.HTTP_URL)]
RepositoryNumber = Annotated[str, Meta(pattern=patterns.REPOSITORY_NUMBER)]


class AddCiBinding(Closed, frozen=True, kw_only=True):
    """Bind a workflow. Without `environment`, its jobs exchange in any environment and in none."""

    name: Annotated[str, Meta(min_length=1, max_length=200, pattern=patterns.PRINTABLE)]
    issuer: Issuer
    repository_id: RepositoryNumber
    owner_id: RepositoryNumber
    ref: Annotated[str, Meta(max_length=251, pattern=patterns.BOUND_REF)]
    workflow: Annotated[str, Meta(max_length=300, pattern=patterns.WORKFLOW_PATH)]
    environment: Annotated[str, Meta(min_length=1, max_length=255, pattern=patterns.PRINTABLE)] | msgspec.UnsetType = (
        msgspec.UNSET
    )


class CiBinding(msgspec.Struct, frozen=True, kw_only=True):
    """A binding in force, with the number of its live credentials."""

    id: str
    name: str
    issuer: str
    repository_id: str
    owner_id: str
    ref: str
    workflow: str
    environment: str | None
    created_by: str
    created_at: Epoch
    live_credentials: Annotated[int, Meta(ge=0)]


class CiBindingList(msgspec.Struct, frozen=True, kw_only=True):
    """The bindings of a project, oldest first, and the issuers that may be bound."""

    project_id: str
    bindings: list[CiBinding]
    count: int
    issuers: list[str]
    audience: str
    etag: str
    next_action: str


class CiBindingChanged(msgspec.Struct, frozen=True, kw_only=True):
    """A binding as it was added or removed, and the tag of all bindings after that."""

    project_id: str
    binding: CiBinding
    etag: str
    next_action: str


class ExchangeCiToken(Closed, frozen=True):
    """The token of a run, for a credential of a project."""

    project_id: Annotated[str, Meta(min_length=1, max_length=200, pattern=patterns.VISIBLE_ASCII)]
    token: Annotated[str, Meta(min_length=1, max_length=MAX_EXCHANGE_BYTES, pattern=patterns.VISIBLE_ASCII)]


class CiTokenExchanged(msgspec.Struct, frozen=True, kw_only=True):
    """A credential for the run, with its secret, which no other answer ever holds."""

    id: str
    project_id: str
    credential: Annotated[str, Meta(pattern="^service_ci_[0-9A-Za-z]{43}$")]
    prefix: str
    kind: Literal["ci_deploy"] = "ci_deploy"
    scopes: list[CredentialScope]
    run: WorkflowRun
    created_at: Epoch
    expires_at: Epoch
    env_var: Literal["SERVICE_CI_API_KEY"] = "SERVICE_CI_API_KEY"
    next_action: str
