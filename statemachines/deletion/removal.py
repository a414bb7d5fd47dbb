"""A deletion: a project or an account on its way out, from the fence to the receipt (R-DEL, G-130, G-131).

Its stream is scoped by the deletion's own id, as a sign-in's is by its own: erasing a project or an account never
reaches what says that, why and how completely it was erased. Its neighbour is the stream of the project or the person,
which is fenced in the same unit and ends with it.

`PurgingBegan` is the erasure event: from its place in the log on, and never before, the payloads of `scope_id` may be
erased. Everything that a person may want to know of what goes is in the stream by then: what the manifest counts was
counted under the exclusive gate of the fence, so that every answer shows the same.
"""

from enum import Enum
from typing import Literal

import msgspec

from statemachines.kernel.canonical import canonical_sha256
from statemachines.kernel.machine import Event, Rejection, StateMachine, Stream, destination, transition_table

Kind = Literal["project", "account"]

KEPT_SECONDS = 30 * 86_400
"""How long the receipt of a deletion can be read again (G-130)."""
SAMPLE_LIMIT = 20
FOLLOW_UP_LIMIT = 100


def stream(deletion_id: str) -> Stream:
    """History of a deletion."""
    return Stream(MACHINE, deletion_id, deletion_id)


class Status(Enum):
    """Where a deletion stands. LAPSED: its receipt has been kept for as long as was promised."""

    ABSENT = "absent"
    FENCED = "fenced"
    PURGING = "purging"
    DELETED = "deleted"
    LAPSED = "lapsed"


class ManifestCounts(msgspec.Struct, frozen=True):
    """How much of each kind there was; samples come in the order of these fields. Events are counted only."""

    contracts: int = 0
    automations: int = 0
    credentials: int = 0
    trigger_receipts: int = 0
    claims: int = 0
    runs: int = 0
    approvals: int = 0
    grants: int = 0
    pr_proofs: int = 0
    verifications: int = 0
    reports: int = 0
    events: int = 0


class ManifestSample(msgspec.Struct, frozen=True):
    """One thing that goes: names and times alone, nothing that anybody wrote."""

    type: str
    id: str
    automation_id: str | None
    status: str
    created_at: int


class Manifest(msgspec.Struct, frozen=True):
    """What a deletion takes along (R-DEL-02). The hash is of everything before it."""

    counts: ManifestCounts = ManifestCounts()
    samples: list[ManifestSample] = []
    samples_truncated: bool = False
    manifest_sha256: str = ""


class Cascaded(msgspec.Struct, frozen=True):
    """What goes with an account."""

    projects: int = 0
    api_keys: int = 0
    credentials: int = 0
    memberships: int = 0
    webhooks: int = 0
    cases: int = 0


class ExternalFollowUp(msgspec.Struct, frozen=True):
    """Something outside that the service cannot end, for a person to look at (R-DEL-05)."""

    kind: str
    reference: str | None
    run_id: str | None
    action: str


class DeletionFenced(Event, frozen=True):
    """A deletion was accepted; nothing that holds authority over the scope commits after this.

    `parent_id` is the deletion of an account that takes this project along. The hashes recognise a repeat of the
    request: `command_key_sha256` by its key, `api_key_sha256` by the key of the caller, who may have none by then.
    """

    TOPIC = "deletion.fenced.v1"
    kind: Kind
    scope_id: str
    account_id: str
    parent_id: str | None
    command_key_sha256: str
    api_key_sha256: str
    manifest: Manifest
    cascaded: Cascaded
    fenced_at: int


class PurgingBegan(Event, frozen=True):
    """The erasure event: rows go from here on, and the payloads of `scope_id` may be erased.

    Of an account the manifest and what cascades are complete by now: the sums over the projects that go with it.
    """

    TOPIC = "deletion.purging_began.v1"
    scope_id: str
    manifest: Manifest = Manifest()
    cascaded: Cascaded = Cascaded()
    external_follow_ups: list[ExternalFollowUp] = msgspec.field(default_factory=list)
    began_at: int = 0


class DeletionCompleted(Event, frozen=True):
    """No row is left, and no payload."""

    TOPIC = "deletion.completed.v1"
    deleted_at: int


class DeletionReceiptLapsed(Event, frozen=True):
    """The receipt has been kept for thirty days; nobody is shown it any more."""

    TOPIC = "deletion.receipt_lapsed.v1"
    lapsed_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [DeletionFenced.TOPIC, Status.ABSENT, Status.FENCED],
        [PurgingBegan.TOPIC, Status.FENCED, Status.PURGING],
        [DeletionCompleted.TOPIC, Status.PURGING, Status.DELETED],
        [DeletionReceiptLapsed.TOPIC, Status.DELETED, Status.LAPSED],
    ],
)


class Deletion(msgspec.Struct, frozen=True):
    """What decisions about a deletion depend on."""

    status: Status = Status.ABSENT
    command_key_sha256: str = ""
    manifest: Manifest = Manifest()
    deleted_at: int = 0


class OtherDeletion(Rejection):
    """Another request has begun a deletion of the same, which goes on."""

    code = "project_deletion_in_progress"


class AskForDeletion(msgspec.Struct, frozen=True):
    """A wish to delete: what, in whose name, by which request."""

    kind: Kind
    scope_id: str
    account_id: str
    command_key_sha256: str
    api_key_sha256: str = ""
    parent_id: str | None = None


def command_key_sha256(user_id: str, key: str) -> str:
    """Recognise a request by who asks and its Idempotency-Key: one key through every answer (R-DEL-01)."""
    return canonical_sha256([user_id, key])


def make_manifest(counts: ManifestCounts, samples: list[ManifestSample]) -> Manifest:
    """Keep the first samples, in the order of types and ids, and hash the whole."""
    types = ManifestCounts.__struct_fields__
    ordered = sorted(samples, key=lambda sample: (types.index(sample.type), sample.id))
    kept = ordered[:SAMPLE_LIMIT]
    things = sum(getattr(counts, name) for name in types if name != "events")
    truncated = things > len(kept)
    shown = {
        "counts": msgspec.to_builtins(counts),
        "sample_limit": SAMPLE_LIMIT,
        "samples": msgspec.to_builtins(kept),
        "samples_truncated": truncated,
    }
    return Manifest(counts, kept, truncated, canonical_sha256(shown))


def sum_manifests(manifests: list[Manifest]) -> Manifest:
    """Add manifests up, with as many samples as one has."""
    fields = ManifestCounts.__struct_fields__
    counts = ManifestCounts(**{name: sum(getattr(manifest.counts, name) for manifest in manifests) for name in fields})
    return make_manifest(counts, [sample for manifest in manifests for sample in manifest.samples])


def decide_fence(
    state: Deletion, wish: AskForDeletion, manifest: Manifest, cascaded: Cascaded, now: int
) -> list[Event]:
    """Accept a deletion; a repeat of the same request records nothing. Raises OtherDeletion for any other."""
    if state.status is not Status.ABSENT:
        if state.command_key_sha256 == wish.command_key_sha256:
            return []
        raise OtherDeletion(
            "Another request has begun this deletion.", next_action="Repeat that request, with its key."
        )
    return [
        DeletionFenced(
            kind=wish.kind,
            scope_id=wish.scope_id,
            account_id=wish.account_id,
            parent_id=wish.parent_id,
            command_key_sha256=wish.command_key_sha256,
            api_key_sha256=wish.api_key_sha256,
            manifest=manifest,
            cascaded=cascaded,
            fenced_at=now,
        )
    ]


def decide_begin_purging(state: Deletion, event: PurgingBegan) -> list[Event]:
    """Let the rows go; a repeat records nothing. The table refuses it before the fence."""
    return [] if state.status in {Status.PURGING, Status.DELETED, Status.LAPSED} else [event]


def decide_complete(state: Deletion, now: int) -> list[Event]:
    """End a deletion of which nothing is left; a repeat records nothing. The table refuses it before the purge."""
    return [] if state.status in {Status.DELETED, Status.LAPSED} else [DeletionCompleted(now)]


def decide_lapse(state: Deletion, now: int) -> list[Event]:
    """End the time of the receipt once it is over; before that, and afterwards, nothing is recorded."""
    if state.status is not Status.DELETED or now < state.deleted_at + KEPT_SECONDS:
        return []
    return [DeletionReceiptLapsed(now)]


def evolve(state: Deletion, event: Event) -> Deletion:
    """Fold an event of a deletion."""
    status = Status[destination(TABLE, event, state.status)]
    match event:
        case DeletionFenced():
            return Deletion(status, event.command_key_sha256, event.manifest)
        case PurgingBegan():
            return msgspec.structs.replace(state, status=status, manifest=event.manifest)
        case DeletionCompleted():
            return msgspec.structs.replace(state, status=status, deleted_at=event.deleted_at)
        case _:
            return msgspec.structs.replace(state, status=status)


MACHINE = StateMachine("del", TABLE, Deletion(), evolve, OtherDeletion, Deletion)
