"""Wire contracts of a proof: its start, the marker pair, and what remains (R-ONB-28 to R-ONB-34, R-ONB-51)."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Final, Literal

from msgspec import Meta

from schemas.kernel.shape import Closed
from schemas.onboarding.lifecycle import ProvingState, VerifiedState
from schemas.onboarding.plan import Boundary, Name, PropertyName, SourceSnapshot

MAX_PROOF_BYTES = 4096
PROOF_PROPERTY: Final = "service_onboarding_proof"
PROOF_VARIABLE: Final = "SERVICE_ONBOARDING_PROOF"
PROOF_HEADER: Final = "X-Service-Onboarding-Proof"

MarkerValue = Annotated[str, Meta(min_length=20, max_length=1000)]


class ProofRequest(Closed, frozen=True):
    """Body of a proof start: the snapshot of the final committed tree (R-ONB-51)."""

    implementation_source_snapshot: SourceSnapshot


class RuntimeMarker(Closed, frozen=True):
    """The place of the marker in the running product (R-ONB-28)."""

    property_name: Literal["service_onboarding_proof"]
    value: MarkerValue
    environment_variable: Literal["SERVICE_ONBOARDING_PROOF"]
    browser_session_storage_key: Literal["service_onboarding_proof"]


class CiMarker(Closed, frozen=True):
    """The place of the marker in the deploy job (R-ONB-29)."""

    header_name: Literal["X-Service-Onboarding-Proof"]
    value: MarkerValue
    environment_variable: Literal["SERVICE_ONBOARDING_PROOF"]


class OneTimeMarkers(Closed, frozen=True):
    """The pair that is shown once (R-ONB-30)."""

    runtime: RuntimeMarker
    ci: CiMarker


class ProofStarted(Closed, frozen=True):
    """Answer to a proof start (R-ONB-52)."""

    state: ProvingState
    one_time_markers: OneTimeMarkers


class ProofBlocker(Enum):
    """The reason why a possible effect does not count (R-ONB-34)."""

    PROJECT_MISMATCH = "proof_session_project_mismatch"
    NOT_ACTIVE = "proof_session_not_active"
    OUTSIDE_WINDOW = "proof_session_outside_window"
    RUNTIME_MARKER_INVALID = "runtime_marker_binding_invalid"
    CI_CREDENTIAL_UNAVAILABLE = "ci_credential_binding_unavailable"
    GIT_SHA_MISSING = "source_git_sha_missing"
    ANALYTICS_READ_FAILED = "analytics_read_failed"
    SAFE_ERROR_READ_FAILED = "safe_error_read_failed"
    DEPLOY_READ_FAILED = "deploy_read_failed"
    DEPLOY_NOT_OBSERVED = "deploy_not_observed"


class RemainingMilestone(Closed, frozen=True):
    """An approved event that was not seen at all."""

    milestone_index: Annotated[int, Meta(ge=0)]
    event: Name
    provider_boundary: Boundary


class RemainingProperties(Closed, frozen=True):
    """An approved event that was seen, but never with all its properties at once."""

    milestone_index: Annotated[int, Meta(ge=0)]
    event: Name
    properties: Annotated[tuple[PropertyName, ...], Meta(min_length=1)]
    requirement: Literal["present_and_nonempty_together"] = "present_and_nonempty_together"


class RemainingAnalytics(Closed, frozen=True):
    """The analytics still missing from the proof (R-ONB-31)."""

    blockers: tuple[ProofBlocker, ...] = ()
    milestones: tuple[RemainingMilestone, ...] = ()
    properties: tuple[RemainingProperties, ...] = ()


class RemainingSafeError(Closed, frozen=True):
    """The safe error still missing from the proof (R-ONB-32)."""

    marker: Name
    provider_boundary: Boundary
    marker_missing: bool
    context: tuple[PropertyName, ...]
    blockers: tuple[ProofBlocker, ...] = ()
    context_requirement: Literal["present_and_nonempty_together"] = "present_and_nonempty_together"


class RemainingDeploy(Closed, frozen=True):
    """The deploy still missing from the proof (R-ONB-33)."""

    environment: Annotated[str, Meta(min_length=1, max_length=160)]
    blockers: Annotated[tuple[ProofBlocker, ...], Meta(min_length=1)]


class Remaining(Closed, frozen=True):
    """The gaps of the proof. Every member is empty when the proof is complete."""

    analytics: RemainingAnalytics = RemainingAnalytics()
    safe_error: RemainingSafeError | None = None
    deploy: RemainingDeploy | None = None


class VerifyAnswer(Closed, frozen=True):
    """Answer to a verify (R-ONB-54)."""

    ok: bool
    state: ProvingState | VerifiedState
    remaining: Remaining
