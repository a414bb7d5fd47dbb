"""What makes a plan acceptable beyond its form, and its hash. Shared by onboarding and the signal map.

Reasons name the rule and never repeat the text that breaks it: a refused secret must not come back in an error.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from msgspec import Meta

from schemas.kernel import patterns
from schemas.kernel.shape import SAFE_INTEGER, Identifier, SafeEpoch
from statemachines.kernel.canonical import canonical_payload
from statemachines.kernel.machine import Rejection
from statemachines.kernel.telling import fold_text, holds_contact, holds_own_secret, holds_secret_form, name_tells

# Shapes that the events of onboarding and of the signal map hold: a plan as it was approved, and its receipt. They
# are the storage's own. Those of the wire (schemas/onboarding) are made from them and into them at the doors, so a
# change there leaves history as it is. What a shape here takes only ever widens: what is stored stays readable.

Sha256 = Annotated[str, Meta(min_length=64, max_length=64, pattern=patterns.SHA256)]
GitSha = Annotated[str, Meta(min_length=7, max_length=64, pattern=patterns.GIT_SHA)]
RowCount = Annotated[int, Meta(ge=1, le=SAFE_INTEGER)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
PropertyName = Annotated[str, Meta(min_length=1, max_length=160)]
Meaning = Annotated[str, Meta(min_length=1, max_length=1000)]
ObservedProperties = Annotated[tuple[PropertyName, ...], Meta(max_length=100)]

Boundary = Literal["browser_provider", "server_provider"]


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A part of an event: exactly its declared members."""


class SourceSnapshot(Shape, frozen=True):
    """A source tree by its commit and content hash (R-ONB-01)."""

    git_head_sha: GitSha | None
    source_fingerprint_sha256: Sha256
    source_fingerprint_algorithm: Literal["service-source-tree-sha256-v1"]


class SourceTarget(Shape, frozen=True):
    """A place in the source: a repository-relative file and exact text in it (R-ONB-08)."""

    file: Annotated[str, Meta(min_length=1, max_length=800)]
    anchor: Annotated[str, Meta(min_length=1, max_length=500)]


Targets = Annotated[tuple[SourceTarget, ...], Meta(min_length=1)]


class Milestone(Shape, frozen=True):
    """A durable success to be captured as an analytics event (R-ONB-05)."""

    event: Name
    meaning: Meaning
    provider_boundary: Boundary
    properties: tuple[PropertyName, ...]
    targets: Targets


class Failure(Shape, frozen=True):
    """A failure exit to be captured as an exception; exactly one of a plan is safe to provoke (R-ONB-06)."""

    marker: Name
    meaning: Meaning
    provider_boundary: Boundary
    context: tuple[PropertyName, ...]
    safe_live_proof: bool
    targets: Targets


class Deploy(Shape, frozen=True):
    """Where the instrumented commit is to be deployed (R-ONB-07)."""

    environment: Annotated[str, Meta(min_length=1, max_length=160)]
    sha_source: Literal["git_head"]
    targets: Targets


class Window(Shape, frozen=True, rename={"from_": "from"}):
    """The audited span of provider history."""

    from_: SafeEpoch
    to: SafeEpoch


class AnalyticsObservation(Shape, frozen=True, tag_field="kind", tag="analytics"):
    """An analytics event found in the provider's history: counts and names only."""

    event: Name
    observed_properties: ObservedProperties
    row_count: RowCount


class ErrorObservation(Shape, frozen=True, tag_field="kind", tag="error"):
    """An error issue found in the provider's history: counts and names only."""

    issue_id: Identifier
    observed_properties: ObservedProperties
    row_count: RowCount


class HistoricalEvidence(Shape, frozen=True):
    """The audited window of provider history, never proof of current placement (R-ONB-12 to R-ONB-15)."""

    status: Literal["historically_observed"]
    source: Literal["provider_cloud"]
    provider_project_id: Annotated[int, Meta(ge=1, le=SAFE_INTEGER)]
    observed_at: SafeEpoch
    window: Window
    query_receipt_sha256: Sha256
    observations: Annotated[tuple[AnalyticsObservation | ErrorObservation, ...], Meta(min_length=1, max_length=200)]


class Plan(Shape, frozen=True):
    """The plan that a human approves as a whole, by its hash (R-ONB-02, G-081)."""

    business_question: Annotated[str, Meta(min_length=1, max_length=1000)]
    plan_markdown: Annotated[str, Meta(min_length=1, max_length=65536)]
    source_snapshot: SourceSnapshot
    historical_evidence: HistoricalEvidence | None
    milestones: Annotated[tuple[Milestone, ...], Meta(min_length=1)]
    failures: Annotated[tuple[Failure, ...], Meta(min_length=1)]
    deploy: Deploy


class AnalyticsReceipt(Shape, frozen=True):
    """One milestone seen under the session's marker."""

    event: Name
    provider_boundary: Boundary
    required_properties: tuple[PropertyName, ...]
    observed_properties: tuple[PropertyName, ...]
    row_count: RowCount


class ErrorReceipt(Shape, frozen=True):
    """The safe error seen under the session's marker."""

    marker: Name
    provider_boundary: Boundary
    required_context: tuple[PropertyName, ...]
    observed_context: tuple[PropertyName, ...]
    row_count: RowCount


class DeployReceipt(Shape, frozen=True):
    """The trusted deploy as it was seen under the session's CI marker."""

    environment: Annotated[str, Meta(min_length=1, max_length=160)]
    source_snapshot: SourceSnapshot
    row_count: RowCount


class Receipt(Shape, frozen=True):
    """Proof that the approved plan is in the running source (R-ONB-35)."""

    evidence_status: Literal["source_verified"]
    source_verified_at: SafeEpoch
    analytics: Annotated[tuple[AnalyticsReceipt, ...], Meta(min_length=1)]
    error: ErrorReceipt
    deploy: DeployReceipt


# A drive letter is a scheme of one letter; a colon after the first slash belongs to a file name.
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SIGNS = ("\n/", "\\", "..", ":")  # of a file that may not be relative, among others one a line

MAX_ISSUES = 50  # that a refusal names; a plan has thousands of places
ONE_SAFE_FAILURE = "Exactly one failure carries safe_live_proof true."
PERSONAL_NAME = "The name suggests direct personal data."
SECRET_NAME = "The name suggests a secret."  # noqa: S105 - a sentence, not a secret
HOLDS_SECRET = "The text holds a credential of this service."  # noqa: S105 - a sentence, not a secret
HOLDS_FORM = "The text holds a secret by its form: a credential, a key or the number of a card."
HOLDS_CONTACT = "The text holds an e-mail address or a telephone number."
NOT_RELATIVE = "The file is a path inside the repository: no root, drive, scheme, backslash or '..'."
WINDOW_ORDER = "The window does not end before it begins."


class FieldIssue(NamedTuple):
    """A field by its path, and the rule it breaks."""

    field: str
    reason: str


class PlanRefused(Rejection):
    """The form of a plan is right and its content is not (R-ERR-06, G-006)."""

    code = "invalid_payload"

    def __init__(self, issues: Sequence[FieldIssue]) -> None:
        super().__init__(
            "The request body breaks the rules of this operation.",
            next_action="Correct the fields named in details and send the request again.",
            missing_fields=[],
            invalid_fields=[{"field": issue.field, "reason": issue.reason} for issue in issues[:MAX_ISSUES]],
            unknown_fields=[],
        )


class ProposedPlan(NamedTuple):
    """A plan found acceptable, with its hash."""

    plan: Plan
    sha256: str


def propose(plan: Plan, path: str = "plan") -> ProposedPlan:
    """Check and hash a plan that came in. Raises PlanRefused naming fields under `path`, '' of a body by itself."""
    check_plan(plan, path)
    return ProposedPlan(plan, hash_plan(plan))


def is_repository_relative(file: str) -> bool:
    """Whether a file stays inside the repository whatever the platform."""
    return not (file.startswith("/") or "\\" in file or ".." in file.split("/") or _SCHEME.match(file))


def plan_issues(plan: Plan, path: str = "plan") -> list[FieldIssue]:
    """List what is wrong with a plan whose form is right, each with the path of its field under `path`."""
    # A plan may have thousands of places, and hardly one holds a secret. All texts together tell, at a twentieth of the
    # cost of looking at each: a line of its own hides none, and what spans two of them is no finding below.
    parts = msgspec.to_builtins(plan)
    issues = list(_text_issues(parts, path)) if _tells("\n".join(_texts(parts)), code=False) else []
    history = plan.historical_evidence
    if history is not None and history.window.to < history.window.from_:
        issues.append(FieldIssue(f"{path}.historical_evidence.window.to", WINDOW_ORDER))
    for i, milestone in enumerate(plan.milestones):
        issues.extend(_name_issues(milestone.properties, f"{path}.milestones[{i}].properties"))
    for i, failure in enumerate(plan.failures):
        issues.extend(_name_issues(failure.context, f"{path}.failures[{i}].context"))
    if sum(failure.safe_live_proof for failure in plan.failures) != 1:
        issues.append(FieldIssue(f"{path}.failures", ONE_SAFE_FAILURE))
    issues.extend(_file_issues(plan, path))
    return [issue._replace(field=issue.field.removeprefix(".")) for issue in issues]


def check_plan(plan: Plan, path: str = "plan") -> None:
    """Raise PlanRefused unless the plan is acceptable (R-ONB-03, R-ONB-04, R-ONB-11, G-086)."""
    issues = plan_issues(plan, path)
    if issues:
        raise PlanRefused(issues)


def hash_plan(plan: Plan) -> str:
    """Hash a plan: lowercase hex SHA-256 of its RFC 8785 form (G-081).

    A plan holds no floats, and its keys are declared, so its sorted encoding is that form.
    """
    return hashlib.sha256(canonical_payload(plan)).hexdigest()


def _tells(text: str, *, code: bool) -> str | None:
    """What a text holds that must not be in a plan. In `code` addresses are taken: `git@host.example` is no person."""
    text = fold_text(text)
    if holds_own_secret(text):
        return HOLDS_SECRET
    if holds_secret_form(text):
        return HOLDS_FORM
    return HOLDS_CONTACT if not code and holds_contact(text) else None


def _texts(value: Any) -> list[str]:
    found, left = [], [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, dict):
            left += one.values()
        elif isinstance(one, list | tuple):
            left += one
    return found


def _text_issues(value: Any, path: str, *, code: bool = False) -> Iterator[FieldIssue]:
    match value:
        case str():
            if rule := _tells(value, code=code):
                yield FieldIssue(path, rule)
        case dict():
            for key, member in value.items():
                yield from _text_issues(member, f"{path}.{key}", code=code or key == "targets")
        case list() | tuple():
            for i, member in enumerate(value):
                yield from _text_issues(member, f"{path}[{i}]", code=code)
        case _:
            pass


def _all_plain(files: str) -> bool:
    """Whether files, one a line, hold nothing that could make one of them not relative. False: look at each."""
    return not (files.startswith("/") or any(sign in files for sign in _SIGNS))


def _name_issues(names: tuple[str, ...], path: str) -> Iterator[FieldIssue]:
    for i, name in enumerate(names):
        if told := name_tells(name):
            yield FieldIssue(f"{path}[{i}]", PERSONAL_NAME if told == "person" else SECRET_NAME)


def _file_issues(plan: Plan, path: str) -> Iterator[FieldIssue]:
    places = [(f"{path}.milestones[{i}]", m.targets) for i, m in enumerate(plan.milestones)]
    places += [(f"{path}.failures[{i}]", f.targets) for i, f in enumerate(plan.failures)]
    places.append((f"{path}.deploy", plan.deploy.targets))
    for place, targets in places:
        if _all_plain("\n".join([target.file for target in targets])):
            continue
        for i, target in enumerate(targets):
            if not is_repository_relative(target.file):
                yield FieldIssue(f"{place}.targets[{i}].file", NOT_RELATIVE)
