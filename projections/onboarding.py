"""Onboardings and signal maps as rows."""

from msgspec.structs import replace

from projections.kernel import Row, header, projection
from schemas.kernel.shape import EvidenceSource
from statemachines.kernel.machine import Recorded, source_told
from statemachines.onboarding import lifecycle
from statemachines.onboarding.plan import Plan, Receipt, SourceSnapshot
from statemachines.onboarding.proof import ProofSession
from statemachines.onboarding.signal_map import SignalMapRecorded, SignalMapVerified, SignalMapWithdrawn

# The onboarding of a project as reads show it, with the marker hashes that deploys are matched against.


class OnboardingRow(Row, frozen=True, kw_only=True):
    """One onboarding. `id` is the onboarding id; `state_revision` is what clients see (G-121); times in epoch seconds.

    The session's columns are set together, from a proof start until the plan is replaced; of a marker only its
    SHA-256 is known (G-084). `evidence_source` is that of the receipt, and means nothing without one (G-183).
    """

    status: str
    state_revision: int
    plan: Plan
    plan_sha256: str
    updated_at: int
    approved_at: int | None = None
    proof_session_id: str | None = None
    implementation_source_snapshot: SourceSnapshot | None = None
    runtime_marker_sha256: str | None = None
    ci_marker_sha256: str | None = None
    started_at: int | None = None
    expires_at: int | None = None
    receipt: Receipt | None = None
    evidence_source: EvidenceSource = "local"

    @property
    def etag(self) -> str:
        """The tag of this revision, with its quotes (G-082)."""
        return lifecycle.make_etag(self.id, self.state_revision)

    @property
    def session(self) -> ProofSession | None:
        """The proof session, open or satisfied."""
        if (
            self.proof_session_id is None
            or self.implementation_source_snapshot is None
            or self.runtime_marker_sha256 is None
            or self.ci_marker_sha256 is None
            or self.started_at is None
            or self.expires_at is None
        ):
            return None
        return ProofSession(
            proof_session_id=self.proof_session_id,
            implementation_source_snapshot=self.implementation_source_snapshot,
            runtime_marker_sha256=self.runtime_marker_sha256,
            ci_marker_sha256=self.ci_marker_sha256,
            started_at=self.started_at,
            expires_at=self.expires_at,
        )


def fold_onboarding(row: OnboardingRow | None, recorded: Recorded) -> OnboardingRow | None:
    """Fold an event of an onboarding into its row."""
    match recorded.event:
        case lifecycle.OnboardingPlanned() as event:
            return OnboardingRow(
                **header(recorded),
                status=lifecycle.Status.PLANNED.value,
                state_revision=1 if row is None else row.state_revision + 1,
                plan=event.plan,
                plan_sha256=event.plan_sha256,
                updated_at=event.planned_at,
            )
        case lifecycle.OnboardingApproved() as event if row:
            return _step(row, recorded, lifecycle.Status.APPROVED, event.approved_at, approved_at=event.approved_at)
        case lifecycle.OnboardingProofStarted() as event if row:
            return _step(
                row,
                recorded,
                lifecycle.Status.PROVING,
                event.started_at,
                proof_session_id=event.proof_session_id,
                implementation_source_snapshot=event.implementation_source_snapshot,
                runtime_marker_sha256=event.runtime_marker_sha256,
                ci_marker_sha256=event.ci_marker_sha256,
                started_at=event.started_at,
                expires_at=event.expires_at,
            )
        case lifecycle.OnboardingVerified() as event if row:
            return _step(
                row,
                recorded,
                lifecycle.Status.VERIFIED,
                event.receipt.source_verified_at,
                receipt=event.receipt,
                evidence_source=source_told(event.evidence_source),
            )
    return row


def _step(
    row: OnboardingRow, recorded: Recorded, status: lifecycle.Status, at: int, **changes: object
) -> OnboardingRow:
    return replace(
        row,
        revision=recorded.revision,
        state_revision=row.state_revision + 1,
        status=status.value,
        updated_at=at,
        **changes,
    )


ONBOARDING = projection("onboarding", OnboardingRow, ("onb",), fold_onboarding)


# The signal map of a project as reads show it (R-MAP-01).


class SignalMapRow(Row, frozen=True, kw_only=True):
    """One signal map; a withdrawn one has no row. `evidence_source` is that of the receipt (G-183)."""

    plan: Plan
    plan_sha256: str
    recorded_at: int
    receipt: Receipt | None = None
    evidence_source: EvidenceSource = "local"


def fold_signal_map(row: SignalMapRow | None, recorded: Recorded) -> SignalMapRow | None:
    """Fold an event of a signal map into its row."""
    match recorded.event:
        case SignalMapRecorded() as event:
            return SignalMapRow(
                **header(recorded),
                plan=event.plan,
                plan_sha256=event.plan_sha256,
                recorded_at=event.recorded_at,
            )
        case SignalMapVerified(receipt, source) if row:
            return replace(row, revision=recorded.revision, receipt=receipt, evidence_source=source_told(source))
        case SignalMapWithdrawn():
            return None
    return row


SIGNAL_MAPS = projection("signal_maps", SignalMapRow, ("map",), fold_signal_map)
