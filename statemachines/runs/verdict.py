"""The verification of a run: the deploy that it is about, what was counted since, and the verdict (G-111).

They are parts of the run's events. What a shape here takes only ever widens: what is stored stays readable.
"""

from typing import Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from schemas.kernel.shape import EvidenceSource
from statemachines.kernel.machine import source_told
from statemachines.runs.statistics import Statistics

VerificationOutcome = Literal["pending", "no_recurrence", "recurred", "insufficient_traffic"]
CountedBy = Literal["public"]


class BoundDeploy(msgspec.Struct, frozen=True, kw_only=True):
    """The trusted deploy of the proven commit.

    `compared` says that releases of errors are compared with it by version (G-199). Deploys that were bound before this
    do not have it: they go by equality.
    """

    deploy_id: str
    version: str
    environment: str
    sha: str
    recorded_at: int
    compared: Literal["version"] | UnsetType = UNSET


class Sample(msgspec.Struct, frozen=True):
    """The evidence behind an outcome. `counted_by` public: events by the public DSN are among `count` (G-184)."""

    event: str
    count: int
    minimum: int
    recurrence_count: int
    observed_from: int
    observed_to: int
    counted_by: CountedBy | UnsetType = UNSET


MOST_LOOKED: Final = 200
"""Events before a deploy whose environments tell what is usual (G-190)."""


class CountedIn(msgspec.Struct, frozen=True):
    """The environment whose events count as traffic, and how many of the newest `looked` before the deploy named one.

    Events without one count where less than half of those named one (G-190).
    """

    environment: str
    looked: int
    named: int

    @property
    def unnamed(self) -> bool:
        """Whether events without an environment count. Without any earlier event nothing else is usual."""
        return 2 * self.named < max(self.looked, 1)


class Verdict(msgspec.Struct, frozen=True):
    """An outcome with its evidence; `passed` is true for `no_recurrence` alone. Older ones do not tell `counted_in`.

    `evidence_source` is where traffic was counted (G-183). `statistics` compare the deploy with the time before, where
    that could be read, and `maximum_error_probability` is the bound that was in force (G-173).
    """

    outcome: VerificationOutcome
    sample: Sample
    passed: bool
    counted_in: CountedIn | UnsetType = UNSET
    evidence_source: EvidenceSource | UnsetType = UNSET
    statistics: Statistics | UnsetType = UNSET
    maximum_error_probability: str | UnsetType = UNSET

    @property
    def source(self) -> EvidenceSource:
        """Where traffic was counted."""
        return source_told(self.evidence_source)
