"""Contract documents: held against the server's own rendering before anything is saved (G-101, G-116).

A contract binds bytes: what an owner sent is kept in canonical form and hashed, and stays readable under that hash
whatever later versions of this program would render. Documents come as decoded JSON whose integers lie within
+-(2**53 - 1), which the body gate has made sure of.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from schemas.contracts.contract import ErrorToDraftPrPolicy, Policy
from schemas.contracts.playbook import Gap, PlaybookRef
from schemas.kernel.shape import EvidenceSource
from statemachines.contracts import playbook as playbooks
from statemachines.kernel.shapes import INVALID, MISSING, Problem, problems, unknown

POLICY_VERSION: Final = 2
DUPLICATE = "duplicate_automation_id"
WORKFLOW = "workflow_graph_disabled"

_MEMBERS = ("playbook", "bindings", "readiness_assertions", "policy")


class SavedAutomation(msgspec.Struct, frozen=True):
    """One entry of a contract as it is stored: its documents are canonical JSON texts, which their hashes name."""

    automation_id: str
    playbook_id: str
    playbook_version: str
    template_hash: str
    bindings: str
    readiness_assertions: str
    policy: str
    policy_sha256: str


class Document(NamedTuple):
    """A checked contract: its entries, and the SHA-256 of the canonical input."""

    automations: list[SavedAutomation]
    contract_sha256: str


class Checked(NamedTuple):
    """Outcome of a check: the faults, the entries without fault, and the entries whose workflow is not enabled."""

    errors: list[Problem]
    automations: list[SavedAutomation]
    other_workflows: list[str]

    @property
    def locked_paths(self) -> list[str]:
        """Where the input departs from what the server renders or locks."""
        return [problem.path for problem in self.errors if problem.code in {playbooks.LOCKED, WORKFLOW}]


def contract_input(entries: list[Any]) -> dict[str, Any]:
    """Make the input document of these entries."""
    return {"policy_version": POLICY_VERSION, "automations": entries}


def check_contract(entries: list[Any]) -> Checked:
    """Check every entry and what they have to be together. Never raises for what an entry holds."""
    errors: list[Problem] = []
    automations: list[SavedAutomation] = []
    other_workflows: list[str] = []
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        path = f"automations[{index}]"
        found = list(_check_entry(entry, path))
        automation_id = _automation_id(entry)
        if automation_id is not None:
            if automation_id in seen:
                found.append(Problem(f"{path}.bindings.automation_id", DUPLICATE, "Names another entry already."))
            seen.add(automation_id)
            if any(problem.code == WORKFLOW for problem in found):
                other_workflows.append(automation_id)
        errors += found
        if not found:
            automations.append(_save(entry))
    return Checked(errors, automations, other_workflows)


def make_document(entries: list[Any], checked: Checked) -> Document:
    """Make the contract of entries that passed the check."""
    assert not checked.errors, "a contract with faults is not saved"
    return Document(checked.automations, playbooks.sha256_of(contract_input(entries)))


def _automation_id(entry: Any) -> str | None:
    bindings = entry.get("bindings") if isinstance(entry, dict) else None
    automation_id = bindings.get("automation_id") if isinstance(bindings, dict) else None
    return automation_id if isinstance(automation_id, str) else None


def _check_entry(entry: Any, path: str) -> Iterator[Problem]:
    if not isinstance(entry, dict):
        yield Problem(path, INVALID, "Must be an object.")
        return
    for name in entry:
        if name not in _MEMBERS:
            yield unknown(path, name)
    for name in _MEMBERS:
        if name not in entry:
            yield Problem(f"{path}.{name}", MISSING, "Is required.")
    found = problems(PlaybookRef, entry["playbook"], f"{path}.playbook") if "playbook" in entry else []
    yield from found
    if found or "playbook" not in entry:
        return
    try:
        template = playbooks.find_template(entry["playbook"]["id"], entry["playbook"]["version"])
    except playbooks.PlaybookVersionNotFound as refusal:
        yield Problem(f"{path}.playbook.version", refusal.code, str(refusal))
        return
    if entry["playbook"]["template_hash"] != playbooks.reference(template).template_hash:
        yield Problem(f"{path}.playbook.template_hash", playbooks.LOCKED, "Is not the published hash of this version.")
    yield from _check_parts(template, entry, path)


def _check_parts(template: playbooks.Template, entry: dict[str, Any], path: str) -> Iterator[Problem]:
    bindings = entry.get("bindings")
    if "readiness_assertions" in entry:
        yield from playbooks.check_assertions(
            template, entry["readiness_assertions"], bindings, f"{path}.readiness_assertions"
        )
    if "bindings" not in entry:
        return
    found = playbooks.check_bindings(template, bindings, f"{path}.bindings")
    yield from found
    if "policy" not in entry:
        return
    if not found:
        yield from _check_policy(
            playbooks.plain(playbooks.render(template, bindings)), entry["policy"], f"{path}.policy"
        )


def _check_policy(rendered: dict[str, Any], sent: Any, path: str) -> Iterator[Problem]:
    if not isinstance(sent, dict):
        yield Problem(path, INVALID, "Must be an object.")
        return
    if "workflow" in sent and not _same(sent["workflow"], rendered["workflow"]):
        yield Problem(f"{path}.workflow", WORKFLOW, "Only the published workflow of this playbook can be enabled.")
        rendered = rendered | {"workflow": sent["workflow"]}
    for place in _differences(rendered, sent, path):
        yield Problem(place, playbooks.LOCKED, "Differs from what the server renders from the bindings.")


def _differences(rendered: Any, sent: Any, path: str) -> Iterator[str]:
    """Innermost members at which two documents differ, as canonical JSON tells them apart (1 is not true)."""
    if isinstance(rendered, dict) and isinstance(sent, dict):
        for name in sorted(rendered.keys() | sent.keys()):
            if name not in rendered or name not in sent:
                yield f"{path}.{name}"
            else:
                yield from _differences(rendered[name], sent[name], f"{path}.{name}")
    elif not _same(rendered, sent):
        yield path


def _same(left: Any, right: Any) -> bool:
    return playbooks.canonical(left) == playbooks.canonical(right)


def _save(entry: dict[str, Any]) -> SavedAutomation:
    playbook = entry["playbook"]
    return SavedAutomation(
        automation_id=entry["bindings"]["automation_id"],
        playbook_id=playbook["id"],
        playbook_version=playbook["version"],
        template_hash=playbook["template_hash"],
        bindings=playbooks.canonical(entry["bindings"]).decode(),
        readiness_assertions=playbooks.canonical(entry["readiness_assertions"]).decode(),
        policy=playbooks.canonical(entry["policy"]).decode(),
        policy_sha256=playbooks.sha256_of(entry["policy"]),
    )


def read_policy(text: str) -> Policy:
    """Decode a stored policy; its cost is the exact decimal of the text."""
    policy: Policy = msgspec.json.decode(text, type=Policy)
    return policy


# What an automation still needs before it can be enabled (G-101): found the same way on validate and on enable. The
# facts come from elsewhere: the signal map, the events seen so far, the live credentials. Event names stay out of
# the messages, which say positions instead: a name is the customer's text.


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts of a project: its map's verification, its approved and observed events, its live credentials.

    `proven_by`: the source of the map's proof, None before it. `required_evidence`: the source required, None for any
    (G-183). `provider_stale`: the exceptions of the connected provider were last read too long ago (G-182).
    """

    proven_by: EvidenceSource | None = None
    required_evidence: EvidenceSource | None = None
    provider_stale: bool = False
    approved_events: frozenset[str] = frozenset()
    observed_events: frozenset[str] = frozenset()
    ci_credential: bool = False
    runner_credentials: frozenset[str] = frozenset()  # automation ids


def find_gaps(automation: SavedAutomation, facts: Facts) -> list[Gap]:
    """Everything that keeps one automation from being enabled; empty when it is ready."""
    template = playbooks.find_template(automation.playbook_id, automation.playbook_version)
    assertions: dict[str, Any] = msgspec.json.decode(automation.readiness_assertions)
    return [
        *_signal_gaps(read_policy(automation.policy), facts),
        *playbooks.assertion_gaps(template, assertions),
        *_credential_gaps(automation, facts),
    ]


def events_of(automation: SavedAutomation) -> tuple[str, ...]:
    """Event names that the automation's policy depends on."""
    return _events(read_policy(automation.policy))


def _events(policy: Policy) -> tuple[str, ...]:
    if isinstance(policy, ErrorToDraftPrPolicy):
        return (policy.verification.traffic_sample_event,)
    return policy.report_plan.events


def _signal_gaps(policy: Policy, facts: Facts) -> Iterator[Gap]:
    if facts.proven_by is None:
        yield Gap("signal_map_not_verified", "The project's signal map has no source verification receipt.")
    if facts.required_evidence not in {None, facts.proven_by}:
        yield Gap("evidence_source_not_met", "The evidence of the connected provider has not verified the source.")
    events = _events(policy)
    unapproved = [index for index, event in enumerate(events) if event not in facts.approved_events]
    unseen = [index for index, event in enumerate(events) if event not in facts.observed_events]
    if isinstance(policy, ErrorToDraftPrPolicy):
        if unapproved:
            yield Gap("traffic_event_not_approved", "The traffic sample event is not in the approved signal map.")
        if unseen:
            yield Gap("traffic_event_not_observed", "The traffic sample event has not been observed.")
        if facts.provider_stale:
            yield Gap("provider_exceptions_stale", "The provider's exceptions were not read for ten minutes.")
        return
    if unapproved:
        yield Gap("funnel_event_not_approved", f"Not in the approved signal map: {_positions(unapproved)}.")
    if unseen:
        yield Gap("funnel_event_not_observed", f"Not observed so far: {_positions(unseen)}.")


def _positions(indexes: Sequence[int]) -> str:
    return ", ".join(f"funnel.events[{index}]" for index in indexes)


def _credential_gaps(automation: SavedAutomation, facts: Facts) -> Iterator[Gap]:
    if automation.automation_id not in facts.runner_credentials:
        yield Gap("runner_credential_missing", "No live runner credential is bound to this automation.")
    if automation.playbook_id == "error-to-draft-pr" and not facts.ci_credential:
        yield Gap("ci_credential_missing", "The project has no CI binding and no live CI credential.")
