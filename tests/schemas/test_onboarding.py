"""Shapes of onboarding: plans, states, proofs."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from schemas.onboarding import (
    OnboardingState,
    OneTimeMarkers,
    Plan,
    ProofRequest,
    ProvingState,
    Receipt,
    ReviewRequest,
    SourceSnapshot,
    StartRequest,
)
from service.onboarding.evidence import reshape
from statemachines.onboarding import plan as plans
from tests.support.plans import (
    Path,
    accepts,
    full_plan,
    history_body,
    plan_body,
    set_at,
    snapshot_body,
    target,
)

# Every bound of every field of a plan: at the bound accepted, one past it refused (R-ONB-01 to R-ONB-15).

BIG = 9007199254740991
M, F, H = ("milestones", 0), ("failures", 0), ("historical_evidence",)
LENGTHS: list[tuple[Path, int, int]] = [
    (("business_question",), 1, 1000),
    (("plan_markdown",), 1, 65536),
    ((*M, "event"), 1, 200),
    ((*M, "meaning"), 1, 1000),
    ((*M, "properties", 0), 1, 160),
    ((*M, "targets", 0, "file"), 1, 800),
    ((*M, "targets", 0, "anchor"), 1, 500),
    ((*F, "marker"), 1, 200),
    ((*F, "meaning"), 1, 1000),
    ((*F, "context", 0), 1, 160),
    ((*F, "targets", 0, "file"), 1, 800),
    ((*F, "targets", 0, "anchor"), 1, 500),
    (("deploy", "environment"), 1, 160),
    (("deploy", "targets", 0, "file"), 1, 800),
    (("deploy", "targets", 0, "anchor"), 1, 500),
    ((*H, "observations", 0, "event"), 1, 200),
    ((*H, "observations", 1, "issue_id"), 8, 200),
    ((*H, "observations", 0, "observed_properties", 0), 1, 160),
]


@pytest.mark.parametrize(("path", "least", "most"), LENGTHS, ids=str)
def test_texts_are_bounded_in_characters(path: Path, least: int, most: int) -> None:
    """A text of the least and of the greatest length is taken, one character less or more is not."""
    letter = "a" if path[-1] == "issue_id" else "ü"
    for length, fits in ((least, True), (most, True), (least - 1, False), (most + 1, False)):
        assert accepts(Plan, set_at(full_plan(), path, letter * length)) is fits, length


NUMBERS: list[tuple[Path, int, int]] = [
    ((*H, "provider_project_id"), 1, BIG),
    ((*H, "observed_at"), 0, BIG),
    ((*H, "window", "from"), 0, BIG),
    ((*H, "window", "to"), 0, BIG),
    ((*H, "observations", 0, "row_count"), 1, BIG),
    ((*H, "observations", 1, "row_count"), 1, BIG),
]


@pytest.mark.parametrize(("path", "least", "most"), NUMBERS, ids=str)
def test_numbers_are_bounded(path: Path, least: int, most: int) -> None:
    """The least and the greatest number are taken, the next ones, fractions and booleans are not."""
    for value, fits in (
        (least, True),
        (most, True),
        (least - 1, False),
        (most + 1, False),
        (1.5, False),
        (True, False),
    ):
        assert accepts(Plan, set_at(full_plan(), path, value)) is fits, value


OBSERVATION = history_body()["observations"][0]
COUNTS: list[tuple[Path, Any, int, int | None]] = [
    (("milestones",), plan_body()["milestones"][0], 1, None),
    (("failures",), plan_body()["failures"][1], 1, None),
    ((*M, "targets"), target(), 1, None),
    ((*F, "targets"), target(), 1, None),
    (("deploy", "targets"), target(), 1, None),
    ((*H, "observations"), OBSERVATION, 1, 200),
    ((*H, "observations", 0, "observed_properties"), "amount", 0, 100),
    ((*M, "properties"), "amount", 0, None),
    ((*F, "context"), "code", 0, None),
]


@pytest.mark.parametrize(("path", "item", "least", "most"), COUNTS, ids=lambda v: str(v)[:40])
def test_lists_are_bounded(path: Path, item: Any, least: int, most: int | None) -> None:
    """Milestones, failures and targets have no upper bound of their own; the body's size is theirs (R-ONB-09)."""
    assert accepts(Plan, set_at(full_plan(), path, [item] * least))
    assert accepts(Plan, set_at(full_plan(), path, [item] * (most or 400)))
    if least:
        assert not accepts(Plan, set_at(full_plan(), path, [item] * (least - 1)))
    if most is not None:
        assert not accepts(Plan, set_at(full_plan(), path, [item] * (most + 1)))


SNAPSHOT = ("source_snapshot",)
FORMS: list[tuple[Path, list[Any], list[Any]]] = [
    (
        (*SNAPSHOT, "git_head_sha"),
        [None, "0" * 7, "f" * 40, "9" * 64],
        ["0" * 6, "0" * 65, "A" * 40, "g" * 40, "", "0" * 40 + "\n", 7],
    ),
    (
        (*SNAPSHOT, "source_fingerprint_sha256"),
        ["0" * 64],
        ["0" * 63, "0" * 65, "A" * 64, None, "0" * 64 + "\n", "0" * 63 + "\n"],
    ),
    ((*SNAPSHOT, "source_fingerprint_algorithm"), ["service-source-tree-sha256-v1"], ["v1", "", None]),
    ((*M, "provider_boundary"), ["browser_provider", "server_provider"], ["browser", "", None]),
    ((*F, "provider_boundary"), ["browser_provider", "server_provider"], ["server", None]),
    ((*F, "safe_live_proof"), [True, False], [1, "true", None]),
    (("deploy", "sha_source"), ["git_head"], ["head", None]),
    ((*H, "status"), ["historically_observed"], ["observed"]),
    ((*H, "source"), ["provider_cloud"], ["local"]),
    ((*H, "query_receipt_sha256"), ["0" * 64], ["0" * 63, "0" * 65, "F" * 64]),
    ((*H, "observations", 0, "kind"), ["analytics"], ["error", "log", None]),
    ((*H, "observations", 1, "issue_id"), ["A.b_c:d-1"], ["-1234567", "has space", "ünicode-1", "abcdefgh\n"]),
    (H, [None], [{}, []]),
]


@pytest.mark.parametrize(("path", "good", "bad"), FORMS, ids=lambda v: str(v)[:40])
def test_forms_and_constants(path: Path, good: list[Any], bad: list[Any]) -> None:
    """Hashes, constants and identifiers have exactly their documented form."""
    for value in good:
        assert accepts(Plan, set_at(full_plan(), path, value)), value
    for value in bad:
        assert not accepts(Plan, set_at(full_plan(), path, value)), value


def test_a_plan_survives_its_wire_form() -> None:
    """Encoding and decoding a plan gives the plan: its hash can be taken of either."""
    plan = msgspec.convert(full_plan(), Plan)
    assert msgspec.json.decode(msgspec.json.encode(plan), type=Plan) == plan
    assert msgspec.json.decode(msgspec.json.encode(plan)) == full_plan()
    snapshot = msgspec.convert(snapshot_body(), SourceSnapshot)
    assert msgspec.json.decode(msgspec.json.encode(snapshot)) == snapshot_body()


def test_what_is_stored_of_a_plan_is_what_came_in() -> None:
    """The shapes of the storage take every member, and lead back to the same plan on the wire."""
    plan = msgspec.convert(full_plan(), Plan)
    kept = reshape(plan, plans.Plan)
    assert msgspec.json.encode(kept) == msgspec.json.encode(plan)
    assert reshape(kept, Plan) == plan


# The requests and states of onboarding: closed at every level, bounded in every field.


def objects_in(value: Any, path: Path = ()) -> list[Path]:
    """Return the paths of all objects in a body."""
    found: list[Path] = [path] if isinstance(value, dict) else []
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in members:
        found += objects_in(member, (*path, key))
    return found


def at(body: Any, path: Path) -> Any:
    for step in path:
        body = body[step]
    return body


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (StartRequest, {"intent": "start", "plan": full_plan()}),
        (ReviewRequest, {"decision": "approve", "plan_sha256": "0" * 64}),
        (ReviewRequest, {"decision": "replace", "plan_sha256": "0" * 64, "replacement_plan": full_plan()}),
        (ProofRequest, {"implementation_source_snapshot": snapshot_body()}),
    ],
    ids=["start", "approve", "replace", "proof"],
)
def test_requests_are_strict_at_every_level(kind: Any, body: dict[str, Any]) -> None:
    """In every object of a request each member is required and no other is taken (R-ONB-42, R-ERR-16)."""
    assert accepts(kind, body)
    for path in objects_in(body):
        extra = copy.deepcopy(body)
        at(extra, path)["surplus"] = 1
        assert not accepts(kind, extra), path
        for name in at(body, path):
            less = copy.deepcopy(body)
            del at(less, path)[name]
            assert not accepts(kind, less), (*path, name)


def test_a_review_is_closed_either_or() -> None:
    """An approval takes no replacement plan, and no third decision exists (R-ONB-47)."""
    assert not accepts(ReviewRequest, {"decision": "approve", "plan_sha256": "0" * 64, "replacement_plan": full_plan()})
    assert not accepts(ReviewRequest, {"decision": "reject", "plan_sha256": "0" * 64})


STATE: dict[str, Any] = {
    "installation_complete": False,
    "evidence_status": {"historical": "not_established", "source": "pending"},
    "etag": '"onb:onb_00000000000000000000000000:1"',
    "next_action": {
        "id": "exercise_and_verify",
        "instruction": "x",
        "requires_human": False,
        "operation": {"method": "POST", "path": "/v1/x"},
        "checklist": ["1", "2", "3", "4"],
        "completion_condition": "x",
        "guide_anchor": "/install.md#exercise-and-verify",
    },
    "contract_version": 3,
    "project_id": "proj_0001",
    "onboarding_id": "onb_00000000000000000000000000",
    "revision": 1,
    "plan_sha256": "0" * 64,
    "updated_at": 0,
    "plan": plan_body(),
}
SESSION = {"proof_session_id": "ps_000000", "status": "open", "started_at": 1, "expires_at": 2}
RECEIPT: dict[str, Any] = {
    "evidence_status": "source_verified",
    "source_verified_at": 1,
    "analytics": [
        {
            "event": "e",
            "provider_boundary": "server_provider",
            "required_properties": [],
            "observed_properties": [],
            "row_count": 1,
        }
    ],
    "error": {
        "marker": "m",
        "provider_boundary": "server_provider",
        "required_context": [],
        "observed_context": [],
        "row_count": 1,
    },
    "deploy": {"environment": "production", "source_snapshot": snapshot_body(), "row_count": 1},
}


@pytest.mark.parametrize(
    "body",
    [
        {"status": "planned", **STATE},
        {"status": "approved", **STATE, "approved_at": 3},
        {"status": "proving", **STATE, "implementation_source_snapshot": snapshot_body(), "proof_session": SESSION},
        {
            "status": "verified",
            **STATE,
            "next_action": None,
            "implementation_source_snapshot": snapshot_body(),
            "proof_session": {**SESSION, "status": "satisfied"},
            "receipt": RECEIPT,
        },
    ],
    ids=["planned", "approved", "proving", "verified"],
)
def test_each_state_has_its_own_members_and_no_others(body: dict[str, Any]) -> None:
    """A state holds what its status has, and what belongs to another status is absent (R-ONB-23)."""
    state = msgspec.json.decode(msgspec.json.encode(body), type=OnboardingState)
    assert msgspec.json.decode(msgspec.json.encode(state)) == body
    own = set(body)
    for foreign in {"approved_at", "implementation_source_snapshot", "proof_session", "receipt"} - own:
        assert not accepts(OnboardingState, {**body, foreign: None})


RESPONSES: list[tuple[Any, Any, Path, list[Any], list[Any]]] = [
    (ProvingState, None, ("etag",), ['"a"', '"onb:x:1"'], ["a", '""', '"a b"', '"a"\n', 'W/"a"']),
    (ProvingState, None, ("revision",), [1], [0]),
    (ProvingState, None, ("updated_at",), [0], [-1]),
    (ProvingState, None, ("contract_version",), [3], [2, "3"]),
    (ProvingState, None, ("project_id",), ["a" * 8, "a" * 200], ["a" * 7, "a" * 201]),
    (ProvingState, None, ("onboarding_id",), ["a" * 8, "a" * 200], ["a" * 7, "a" * 201]),
    (Receipt, RECEIPT, ("analytics",), [RECEIPT["analytics"]], [[]]),
    (Receipt, RECEIPT, ("analytics", 0, "row_count"), [1], [0]),
    (Receipt, RECEIPT, ("error", "row_count"), [1], [0]),
    (Receipt, RECEIPT, ("deploy", "row_count"), [1], [0]),
    (Receipt, RECEIPT, ("source_verified_at",), [0], [-1]),
    (Receipt, RECEIPT, ("evidence_status",), ["source_verified"], ["pending"]),
]
PROVING = {"status": "proving", **STATE, "implementation_source_snapshot": snapshot_body(), "proof_session": SESSION}


@pytest.mark.parametrize(("kind", "body", "path", "good", "bad"), RESPONSES, ids=lambda v: str(v)[:30])
def test_responses_are_bounded_too(kind: Any, body: Any, path: Path, good: list[Any], bad: list[Any]) -> None:
    """What the service itself may say has the documented bounds (R-ONB-16, R-ONB-18, R-ONB-35)."""
    body = body or PROVING
    for value in good:
        assert accepts(kind, set_at(body, path, value)), value
    for value in bad:
        assert not accepts(kind, set_at(body, path, value)), value


# The wire contracts of a proof (R-ONB-28 to R-ONB-34).


def test_markers_have_fixed_names_and_bounded_values() -> None:
    """A marker's value has 20 to 1000 characters, its places fixed names (R-ONB-28, R-ONB-29)."""
    body = {
        "runtime": {
            "property_name": "service_onboarding_proof",
            "value": "v" * 20,
            "environment_variable": "SERVICE_ONBOARDING_PROOF",
            "browser_session_storage_key": "service_onboarding_proof",
        },
        "ci": {
            "header_name": "X-Service-Onboarding-Proof",
            "value": "v" * 1000,
            "environment_variable": "SERVICE_ONBOARDING_PROOF",
        },
    }
    assert accepts(OneTimeMarkers, body)
    for part in ("runtime", "ci"):
        for length in (19, 1001):
            assert not accepts(OneTimeMarkers, set_at(body, (part, "value"), "v" * length))
        for name in set(body[part]) - {"value"}:
            assert not accepts(OneTimeMarkers, set_at(body, (part, name), "other"))
