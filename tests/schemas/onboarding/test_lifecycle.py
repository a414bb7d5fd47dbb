"""The requests and states of onboarding: closed at every level, bounded in every field."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from schemas.onboarding.lifecycle import OnboardingState, ProvingState, Receipt, ReviewRequest, StartRequest
from schemas.onboarding.proof import ProofRequest
from tests.support.plans import Path, accepts, full_plan, plan_body, set_at, snapshot_body


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
