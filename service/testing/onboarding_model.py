"""The transition table of onboarding (G-080) written a second time, as a plain model with predictions of answers.

The model knows nothing of the implementation. The pure machine and the real server get the same steps, and each must
answer as predicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

PLANS = ("plan one", "plan two", "plan three")
SNAPSHOTS = ("a" * 40, "c" * 40)


class SentTag(Enum):
    """What a step sends as If-Match."""

    NONE = "none"
    CURRENT = "current"
    PREVIOUS = "previous"
    OLDER = "older"
    FUTURE = "future"
    FOREIGN = "foreign"


class SentHash(Enum):
    """Which plan a review is about."""

    CURRENT = "current"
    OTHER = "other"


class Start(NamedTuple):
    """The owner starts, or plans anew."""

    plan: str
    tag: SentTag


class Approve(NamedTuple):
    """The owner approves the plan of a hash."""

    hash: SentHash
    tag: SentTag


class Replace(NamedTuple):
    """The owner rejects a plan for another one."""

    hash: SentHash
    plan: str
    tag: SentTag


class Proof(NamedTuple):
    """A proof session begins for a commit."""

    snapshot: str
    tag: SentTag


class Verify(NamedTuple):
    """The owner asks for the verdict."""

    tag: SentTag


class Exercise(NamedTuple):
    """The product sends complete evidence under the markers of the session."""


class Expire(NamedTuple):
    """The session's time passes."""


Step = Start | Approve | Replace | Proof | Verify


class StepAnswer(NamedTuple):
    """The answer to a step: HTTP status, error code, `ok` of a verify."""

    status: int
    code: str | None = None
    ok: bool | None = None


STALE = StepAnswer(412, "precondition_failed")
MISSING = StepAnswer(428, "if_match_required")
_OLDER = 2
"""The last revision without an older tag than the previous one."""
CONFLICT = StepAnswer(409, "onboarding_state_conflict")
NOT_STARTED = StepAnswer(404, "onboarding_not_started")


@dataclass(frozen=True)
class OnboardingModel:
    """One onboarding as in the table. `proven`: the open session has complete evidence."""

    status: str = "none"
    revision: int = 0
    plan: str = ""
    snapshot: str = ""
    proven: bool = False
    expired: bool = False

    def tags(self) -> list[SentTag]:
        """Tags that can be sent here and differ from each other."""
        if self.status == "none":
            return [SentTag.NONE, SentTag.FOREIGN, SentTag.FUTURE]
        tags = [SentTag.NONE, SentTag.CURRENT, SentTag.FUTURE, SentTag.FOREIGN]
        return tags + [SentTag.PREVIOUS] * (self.revision > 1) + [SentTag.OLDER] * (self.revision > _OLDER)

    def steps(self) -> list[Step]:
        """Every step that differs from the others here."""
        steps: list[Step] = []
        for tag in self.tags():
            steps += [Start(plan, tag) for plan in PLANS[:2]]
            steps += [Approve(hash_, tag) for hash_ in SentHash]
            steps += [Replace(hash_, plan, tag) for hash_ in SentHash for plan in PLANS[:2]]
            steps += [Proof(snapshot, tag) for snapshot in SNAPSHOTS]
            steps.append(Verify(tag))
        return steps

    def after(self, step: Step) -> tuple[OnboardingModel, StepAnswer]:  # noqa: PLR0911 - one return for each row of the table
        """Return where the step leads and how it is answered."""
        if isinstance(step, Start):
            return self._start(step)
        if self.status == "none":
            return self, NOT_STARTED
        if step.tag is SentTag.NONE:
            return self, MISSING
        if isinstance(step, Verify) and self.status == "verified" and step.tag is SentTag.PREVIOUS:
            return self, StepAnswer(200, ok=True)
        if step.tag is not SentTag.CURRENT:
            return self, STALE
        match step:
            case Approve() | Replace():
                return self._review(step)
            case Proof():
                return self._proof(step)
            case Verify():
                return self._verify()

    def _start(self, step: Start) -> tuple[OnboardingModel, StepAnswer]:  # noqa: PLR0911 - one return for each row of the table
        same = step.plan == self.plan
        planned = OnboardingModel("planned", self.revision + 1, step.plan)
        if self.status == "none":
            return (planned, StepAnswer(201)) if step.tag is SentTag.NONE else (self, STALE)
        if step.tag is SentTag.NONE:
            return self, StepAnswer(200) if same else MISSING
        if step.tag is SentTag.PREVIOUS and self.status == "planned" and same:
            return self, StepAnswer(200)
        if step.tag is not SentTag.CURRENT:
            return self, STALE
        if self.status in {"planned", "verified"} and same:
            return self, StepAnswer(200)
        if self.status == "verified":
            return self, CONFLICT
        return planned, StepAnswer(200)

    def _review(self, step: Approve | Replace) -> tuple[OnboardingModel, StepAnswer]:
        if self.status != "planned":
            return self, CONFLICT
        if step.hash is SentHash.OTHER:
            return self, StepAnswer(409, "plan_hash_mismatch")
        if isinstance(step, Approve):
            return OnboardingModel("approved", self.revision + 1, self.plan), StepAnswer(200)
        return OnboardingModel("planned", self.revision + 1, step.plan), StepAnswer(200)

    def _proof(self, step: Proof) -> tuple[OnboardingModel, StepAnswer]:
        if self.status not in {"approved", "proving"}:
            return self, CONFLICT
        if self.status == "proving" and step.snapshot != self.snapshot:
            return self, StepAnswer(409, "source_snapshot_mismatch")
        return OnboardingModel("proving", self.revision + 1, self.plan, step.snapshot), StepAnswer(201)

    def _verify(self) -> tuple[OnboardingModel, StepAnswer]:
        if self.status == "verified":
            return self, StepAnswer(200, ok=True)
        if self.status != "proving":
            return self, CONFLICT
        if not self.proven or self.expired:
            return self, StepAnswer(200, ok=False)
        return OnboardingModel("verified", self.revision + 1, self.plan, self.snapshot), StepAnswer(200, ok=True)
