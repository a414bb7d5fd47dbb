"""The transition table of onboarding (G-080) written a second time, as a plain model that predicts answers.

The model knows nothing of the implementation: it is driven by the same steps as the pure machine and as the real
server, and each must answer as it predicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

PLANS = ("plan one", "plan two", "plan three")
SNAPSHOTS = ("a" * 40, "c" * 40)


class Tag(Enum):
    """What a step sends as If-Match."""

    NONE = "none"
    CURRENT = "current"
    PREVIOUS = "previous"
    OLDER = "older"
    FUTURE = "future"
    FOREIGN = "foreign"


class Hash(Enum):
    """Which plan a review is about."""

    CURRENT = "current"
    OTHER = "other"


class Start(NamedTuple):
    plan: str
    tag: Tag


class Approve(NamedTuple):
    hash: Hash
    tag: Tag


class Replace(NamedTuple):
    hash: Hash
    plan: str
    tag: Tag


class Proof(NamedTuple):
    snapshot: str
    tag: Tag


class Verify(NamedTuple):
    tag: Tag


class Exercise(NamedTuple):
    """The product sends complete evidence under the markers of the session."""


class Expire(NamedTuple):
    """The session's time passes."""


Step = Start | Approve | Replace | Proof | Verify


class Answer(NamedTuple):
    """The answer to a step: HTTP status, error code, `ok` of a verify."""

    status: int
    code: str | None = None
    ok: bool | None = None


STALE = Answer(412, "precondition_failed")
MISSING = Answer(428, "if_match_required")
CONFLICT = Answer(409, "onboarding_state_conflict")
NOT_STARTED = Answer(404, "onboarding_not_started")


@dataclass(frozen=True)
class Model:
    """One onboarding as in the table. `proven`: the open session has complete evidence."""

    status: str = "none"
    revision: int = 0
    plan: str = ""
    snapshot: str = ""
    proven: bool = False
    expired: bool = False

    def tags(self) -> list[Tag]:
        """Tags that can be sent here and differ from each other."""
        if self.status == "none":
            return [Tag.NONE, Tag.FOREIGN, Tag.FUTURE]
        tags = [Tag.NONE, Tag.CURRENT, Tag.FUTURE, Tag.FOREIGN]
        return tags + [Tag.PREVIOUS] * (self.revision > 1) + [Tag.OLDER] * (self.revision > 2)

    def steps(self) -> list[Step]:
        """Every step that differs from the others here."""
        steps: list[Step] = []
        for tag in self.tags():
            steps += [Start(plan, tag) for plan in PLANS[:2]]
            steps += [Approve(hash_, tag) for hash_ in Hash]
            steps += [Replace(hash_, plan, tag) for hash_ in Hash for plan in PLANS[:2]]
            steps += [Proof(snapshot, tag) for snapshot in SNAPSHOTS]
            steps.append(Verify(tag))
        return steps

    def after(self, step: Step) -> tuple[Model, Answer]:  # noqa: PLR0911 - one return for each row of the table
        """Return where the step leads and how it is answered."""
        if isinstance(step, Start):
            return self._start(step)
        if self.status == "none":
            return self, NOT_STARTED
        if step.tag is Tag.NONE:
            return self, MISSING
        if isinstance(step, Verify) and self.status == "verified" and step.tag is Tag.PREVIOUS:
            return self, Answer(200, ok=True)
        if step.tag is not Tag.CURRENT:
            return self, STALE
        match step:
            case Approve() | Replace():
                return self._review(step)
            case Proof():
                return self._proof(step)
            case Verify():
                return self._verify()

    def _start(self, step: Start) -> tuple[Model, Answer]:  # noqa: PLR0911 - one return for each row of the table
        same = step.plan == self.plan
        planned = Model("planned", self.revision + 1, step.plan)
        if self.status == "none":
            return (planned, Answer(201)) if step.tag is Tag.NONE else (self, STALE)
        if step.tag is Tag.NONE:
            return self, Answer(200) if same else MISSING
        if step.tag is Tag.PREVIOUS and self.status == "planned" and same:
            return self, Answer(200)
        if step.tag is not Tag.CURRENT:
            return self, STALE
        if self.status in {"planned", "verified"} and same:
            return self, Answer(200)
        if self.status == "verified":
            return self, CONFLICT
        return planned, Answer(200)

    def _review(self, step: Approve | Replace) -> tuple[Model, Answer]:
        if self.status != "planned":
            return self, CONFLICT
        if step.hash is Hash.OTHER:
            return self, Answer(409, "plan_hash_mismatch")
        if isinstance(step, Approve):
            return Model("approved", self.revision + 1, self.plan), Answer(200)
        return Model("planned", self.revision + 1, step.plan), Answer(200)

    def _proof(self, step: Proof) -> tuple[Model, Answer]:
        if self.status not in {"approved", "proving"}:
            return self, CONFLICT
        if self.status == "proving" and step.snapshot != self.snapshot:
            return self, Answer(409, "source_snapshot_mismatch")
        return Model("proving", self.revision + 1, self.plan, step.snapshot), Answer(201)

    def _verify(self) -> tuple[Model, Answer]:
        if self.status == "verified":
            return self, Answer(200, ok=True)
        if self.status != "proving":
            return self, CONFLICT
        if not self.proven or self.expired:
            return self, Answer(200, ok=False)
        return Model("verified", self.revision + 1, self.plan, self.snapshot), Answer(200, ok=True)
