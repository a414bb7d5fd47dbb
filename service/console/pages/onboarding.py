"""The onboarding of a project: its plan, the approval of it, and the proof."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from schemas.onboarding import ProofRequest
from service.console.kit.page import Fields, FormProblem, Redirect, View, body_of, first, form, page
from service.console.kit.visit import ReadRefused, Visit, local
from statemachines.onboarding import lifecycle

# The proof of a plan, piece by piece: seen, missing, or unverified.

Json = dict[str, Any]

WHY = {
    "proof_session_project_mismatch": "The proof session belongs to another project.",
    "proof_session_not_active": "The proof session is over. Start the proof again.",
    "proof_session_outside_window": "The proof session has expired. Start the proof again.",
    "runtime_marker_binding_invalid": "The runtime marker is not that of this session.",
    "ci_credential_binding_unavailable": "No workflow is bound, and there is no live CI credential.",
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


STEPS = (
    (lifecycle.Status.PLANNED, "Planned", "An agent has handed in a plan."),
    (lifecycle.Status.APPROVED, "Approved", "An owner has approved it, by its hash."),
    (lifecycle.Status.PROVING, "Proving", "The product runs with markers of the proof."),
    (lifecycle.Status.VERIFIED, "Verified", "Every signal of the plan has been seen."),
)
"""The states of an onboarding in their order, each with its title and a sentence."""


@page("projects/{project_id}/onboarding", section="onboarding")
async def show_onboarding(visit: Visit) -> View:
    """Show the state of the onboarding."""
    project_id = visit.values["project_id"]
    said = await visit.ask("get_onboarding", {"project_id": project_id})
    if said.ok:
        return await _view(visit, said.body)
    if said.error["code"] == "onboarding_not_started":
        return await _view(visit, None)
    if said.error["code"] == "owner_required":
        return await _view(visit, None, member=True)
    raise ReadRefused(said)


@form("projects/{project_id}/onboarding/verify", section="onboarding")
async def verify(visit: Visit, fields: Fields) -> View | Redirect:
    """Verify the proof, and show its gaps. Raises FormProblem."""
    project_id = visit.values["project_id"]
    headers = {"if-match": first(fields, "_if_match")}
    said = await visit.ask("verify_onboarding", {"project_id": project_id}, headers=headers)
    if not said.ok:
        raise FormProblem(said.status, said.error)
    place = f"projects/{project_id}/onboarding"
    if said.body["ok"]:
        return Redirect(place, "verify_onboarding")
    visit.place = place
    return await _view(visit, said.body["state"], said.body["remaining"])


@form("projects/{project_id}/onboarding/proof", section="onboarding")
async def start_proof(visit: Visit, fields: Fields) -> View:
    """Start a proof, and show its markers this once. Raises FormProblem."""
    project_id = visit.values["project_id"]
    headers = {"if-match": first(fields, "_if_match")}
    body = body_of(fields, ProofRequest)
    said = await visit.ask("start_onboarding_proof", {"project_id": project_id}, body=body, headers=headers)
    if not said.ok:
        raise FormProblem(said.status, said.error)
    facts = {
        "markers": said.body["one_time_markers"],
        "session": said.body["state"]["proof_session"],
        "after": local(f"projects/{project_id}/onboarding"),
    }
    return View("onboarding/markers.html", "Keep these markers now", facts, project_id)


async def _view(visit: Visit, state: Json | None, remaining: Json | None = None, *, member: bool = False) -> View:
    project_id = visit.values["project_id"]
    map_ = None if state is not None else await visit.try_read("get_signal_map", project_id=project_id)
    plan = map_ if state is None else state["plan"]
    receipt = map_["receipt"] if state is None and map_ is not None else (state or {}).get("receipt")
    facts = {
        "state": state,
        "map": map_,
        "plan": plan,
        "member": member,
        "steps": _steps(state),
        "checked": remaining is not None,
        "pieces": [] if plan is None else pieces_of(plan, remaining=remaining, receipt=receipt),
        "report": await visit.try_read("get_verify_report", project_id=project_id),
        "answers": await visit.try_read("list_answer_contracts", project_id=project_id),
        "base_url": visit.call.services.settings.base_url,
    }
    follows = [lifecycle.stream(project_id).id]
    return View("onboarding/state.html", "Onboarding", facts, project_id, _told(state), follows)


def _told(state: Json | None) -> Mapping[str, str]:
    """The facts of a decision."""
    if state is None:
        return {"Status": "no plan"}
    return {"Status": state["status"], "Plan hash": state["plan_sha256"], "Revision": str(state["revision"])}


def _steps(state: Json | None) -> list[tuple[str, str, str]]:
    """Each step with its sentence and its mark: done, current, or none."""
    order = [status.value for status, _, _ in STEPS]
    reached = -1 if state is None else order.index(state["status"])
    done = len(order) if reached == len(order) - 1 else reached
    marks = ["done" if index < done else "current" if index == reached else "" for index in range(len(order))]
    return [(title, sentence, mark) for (_, title, sentence), mark in zip(STEPS, marks, strict=True)]


PAGES = [show_onboarding]
FORMS = [verify, start_proof]
