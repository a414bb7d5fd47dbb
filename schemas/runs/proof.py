"""The proof of a run: its whole chain as it was recorded, in a form that is checked without the service.

The document holds facts only; its reader draws the conclusions. scripts/verify_proof.py checks whether
they are complete and as they were written.
"""

from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.kernel.origins import Origins, origins
from schemas.kernel.shape import Closed
from schemas.runs.approval import Branch, HeadSha, MergeMethod, Path
from schemas.runs.run import HttpsUrl, PrNumber, Run

Hex32 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$", description="32 bytes in lowercase hex.")]
Hash = Annotated[str, Meta(pattern="^[A-Za-z0-9+/]{43}=$", description="A SHA-256 in base64.")]
Revision = Annotated[int, Meta(ge=1)]


class ProofHead(msgspec.Struct, frozen=True):
    """The head of a stream: the number of its last event, and that event's chain hash."""

    revision: Revision
    chain: Hex32


class ProofEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One event with its whole envelope.

    `recorded_at` counts microseconds since the epoch, as the leaf hash does. `position` is the place in
    the log of all streams, null for a new event without one. No hash of the stream covers it.
    """

    PROVENANCE: ClassVar[Origins] = origins(telemetry="payload")

    project_id: str
    stream_id: str
    revision: Revision
    kind: str
    topic: str
    event_id: str
    command_id: str
    actor_kind: str
    actor_id: str
    request_id: str
    correlation_id: str
    causation_id: str
    recorded_at: Annotated[int, Meta(description="Microseconds since the epoch.")]
    position: Annotated[int, Meta(ge=1)] | None
    payload: dict[str, Any]
    salt: Annotated[str, Meta(pattern=r"^([0-9a-f]{2})*$", description="Hashed in front of the canonical payload.")]
    payload_hash: Hex32
    leaf: Hex32
    chain: Hex32


class ProofStream(msgspec.Struct, frozen=True):
    """One stream from its first event to its head."""

    project_id: str
    stream_id: str
    kind: str
    head: ProofHead
    events: list[ProofEvent]


class ProofLink(msgspec.Struct, frozen=True):
    """A member of a payload that names another stream of the document, such as `deploy.deploy_id`."""

    stream_id: str
    revision: Revision
    member: str
    names: str


class ProofInclusion(msgspec.Struct, frozen=True):
    """Proof of an event in the log (RFC 6962, section 2.1.1): hashes from its sibling up to the root's child."""

    position: Annotated[int, Meta(ge=1)]
    hashes: Annotated[list[Hash], Meta(max_length=63)]


class RunProof(msgspec.Struct, frozen=True, kw_only=True):
    """Everything recorded along the chain of one run, at one moment (`made_at`, epoch seconds).

    `checkpoint` is the signed note of the log, null before the first one. `inclusion` has a proof for each event below
    it. `document_sha256` is taken of the RFC 8785 form of the document without that member.
    """

    format: Literal["service-run-proof-1", "service-run-proof-2"] = "service-run-proof-2"
    project_id: str
    run_id: str
    made_at: int
    streams: list[ProofStream]
    links: list[ProofLink]
    checkpoint: str | None
    inclusion: list[ProofInclusion]
    next_action: str
    document_sha256: Hex32


# Wire contract of pull-request proof: what a trusted CI observed (G-110, R-AUT-43). It carries no times.

Observation = Literal["pr_opened", "checks_passed", "auto_merge_enabled", "merged", "closed", "reopened"]


class StatusCheck(Closed, frozen=True):
    """One check on the head commit, and how it ended."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    conclusion: Annotated[str, Meta(min_length=1, max_length=100)]


class RecordPrProof(Closed, frozen=True, kw_only=True):
    """An observation of the granted pull request."""

    observation: Observation
    repository: Annotated[str, Meta(min_length=1, max_length=500)]
    pr_number: PrNumber
    pr_url: HttpsUrl
    head_branch: Branch
    base_branch: Branch
    head_sha: HeadSha
    draft: bool
    required_status_checks: Annotated[list[StatusCheck], Meta(max_length=100)] | UnsetType = UNSET
    branch_protection_enforced: bool | UnsetType | None = UNSET
    bypass_used: bool | UnsetType | None = UNSET
    auto_merge_enabled: bool | UnsetType = UNSET
    merge_method: MergeMethod | UnsetType = UNSET
    merge_commit_sha: HeadSha | UnsetType = UNSET
    merged: bool | UnsetType = UNSET
    closed_by: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType = UNSET
    commits: Annotated[list[HeadSha], Meta(max_length=50)] | UnsetType = UNSET
    files_changed: (
        Annotated[
            list[Path], Meta(min_length=1, max_length=1000, description="Every file that the pull request changes.")
        ]
        | UnsetType
    ) = UNSET
    tree_sha: HeadSha | UnsetType = UNSET
    patch_id: HeadSha | UnsetType = UNSET


class PrProof(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded proof, and the run after it."""

    proof_id: str
    run_id: str
    observation: Observation
    trusted: Literal[True] = True
    recorded_at: int
    run: Run
    next_action: str
