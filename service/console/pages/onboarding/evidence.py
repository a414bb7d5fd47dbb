"""The proof of a plan, piece by piece: seen, missing, or unverified."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

Json = dict[str, Any]

WHY = {
    "proof_session_project_mismatch": "The proof session belongs to another project.",
    "proof_session_not_active": "The proof session is over. Start the proof again.",
    "proof_session_outside_window": "The proof session has expired. Start the proof again.",
    "runtime_marker_binding_invalid": "The runtime marker is not that of this session.",
    "ci_credential_binding_unavailable": "There is no live CI credential.",
    "source_git_sha_missing": "The source snapshot has no commit.",
    "analytics_read_failed": "The analytics could not be read. Verify again.",
    "safe_error_read_failed": "The errors could not be read. Verify again.",
    "deploy_read_failed": "The deploys could not be read. Verify again.",
    "deploy_not_observed": "No deploy of this commit came with the CI marker.",
}
"""Blockers in words."""


UNSEEN = "Not verified yet"


class Piece(NamedTuple):
    """A piece of the proof: its kind, its name, its properties, the finding, and its mark."""

    kind: str
    name: str
    properties: Sequence[str]
    found: str
    mark: str


def pieces_of(plan: Json, *, remaining: Json | None, receipt: Json | None) -> list[Piece]:
    """All pieces of the proof of a plan, after the gaps of a verification or the counts of a receipt."""
    safe = [failure for failure in plan["failures"] if failure["safe_live_proof"]]
    deploy = plan["deploy"]["environment"]
    if receipt is not None:
        return [
            *(_counted("Milestone", one["event"], one["required_properties"], one) for one in receipt["analytics"]),
            _counted("Safe error", receipt["error"]["marker"], receipt["error"]["required_context"], receipt["error"]),
            _counted("Deploy", receipt["deploy"]["environment"], (), receipt["deploy"]),
        ]
    if remaining is None:
        named = [("Milestone", one["event"], one["properties"]) for one in plan["milestones"]]
        named += [("Safe error", one["marker"], one["context"]) for one in safe]
        return [Piece(*one, UNSEEN, "wait") for one in (*named, ("Deploy", deploy, ()))]
    milestones = [_milestone(index, one, remaining["analytics"]) for index, one in enumerate(plan["milestones"])]
    errors = [_safe_error(one, remaining["safe_error"]) for one in safe]
    return [*milestones, *errors, _deploy(deploy, remaining["deploy"])]


def _counted(kind: str, name: str, properties: Sequence[str], counted: Json) -> Piece:
    count = counted["row_count"]
    return Piece(kind, name, properties, f"Seen {count} {'time' if count == 1 else 'times'}", "good")


def _milestone(index: int, milestone: Json, left: Json) -> Piece:
    name, properties = milestone["event"], milestone["properties"]
    if left["blockers"]:
        return Piece("Milestone", name, properties, _reasons(left["blockers"]), "bad")
    if any(one["milestone_index"] == index for one in left["milestones"]):
        return Piece("Milestone", name, properties, "Missing", "bad")
    for one in left["properties"]:
        if one["milestone_index"] == index:
            return Piece("Milestone", name, properties, f"Seen, but never with {_listed(one['properties'])}", "bad")
    return Piece("Milestone", name, properties, "Seen", "good")


def _safe_error(failure: Json, left: Json | None) -> Piece:
    name, context = failure["marker"], failure["context"]
    if left is None:
        return Piece("Safe error", name, context, "Seen", "good")
    if left["blockers"]:
        return Piece("Safe error", name, context, _reasons(left["blockers"]), "bad")
    found = "Missing" if left["marker_missing"] else f"Seen, but never with {_listed(left['context'])}"
    return Piece("Safe error", name, context, found, "bad")


def _deploy(environment: str, left: Json | None) -> Piece:
    if left is None:
        return Piece("Deploy", environment, (), "Seen", "good")
    return Piece("Deploy", environment, (), _reasons(left["blockers"]), "bad")


def _reasons(blockers: Iterable[str]) -> str:
    return " ".join(WHY.get(blocker, blocker) for blocker in blockers)


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names)} together" if len(names) > 1 else "".join(names)
