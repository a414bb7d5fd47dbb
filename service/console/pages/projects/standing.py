"""The state of a project's automation in words, and its waiting decisions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from service.console.kit.visit import Json

APPROVAL = "approval_pending"


class ProjectOutlook(NamedTuple):
    """The state in a word with the kind of its badge, the waiting approvals, and further exceptions."""

    word: str
    kind: str
    approvals: Sequence[Json]
    exceptions: Sequence[Json]


def standing_of(control: Json | None) -> ProjectOutlook:
    """The state of the automation by its control. Unknown without."""
    if control is None:
        return ProjectOutlook("unknown", "", [], [])
    waiting = [one for one in control["exceptions"] if one["kind"] == APPROVAL]
    others = [one for one in control["exceptions"] if one["kind"] != APPROVAL]
    word, kind = _state(control["contract"])
    return ProjectOutlook(word, kind, waiting, others)


def plan_waits(onboarding: Json | None) -> bool:
    """Whether an onboarding waits for a decision of a person."""
    return bool(onboarding and (onboarding["next_action"] or {}).get("requires_human"))


def _state(contract: Json | None) -> tuple[str, str]:
    if contract is None:
        return "no contract", ""
    if contract["paused"]:
        return "stopped", "bad"
    return ("on", "good") if contract["enabled"] else ("not enabled", "wait")
