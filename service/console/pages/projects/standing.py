"""How the automation of a project stands, in words, and what in it waits for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from service.console.kit.visit import Json

APPROVAL = "approval_pending"


class ProjectStanding(NamedTuple):
    """The state in a word with the kind of its badge, the approvals that wait, and further exceptions."""

    word: str
    kind: str
    approvals: Sequence[Json]
    exceptions: Sequence[Json]


def standing_of(control: Json | None) -> ProjectStanding:
    """How the automation stands by what its control says. Nothing is known without."""
    if control is None:
        return ProjectStanding("unknown", "", [], [])
    waiting = [one for one in control["exceptions"] if one["kind"] == APPROVAL]
    others = [one for one in control["exceptions"] if one["kind"] != APPROVAL]
    word, kind = _state(control["contract"])
    return ProjectStanding(word, kind, waiting, others)


def _state(contract: Json | None) -> tuple[str, str]:
    if contract is None:
        return "no contract", ""
    if contract["paused"]:
        return "stopped", "bad"
    return ("on", "good") if contract["enabled"] else ("not enabled", "wait")
