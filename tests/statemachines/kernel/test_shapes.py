"""Shapes: what is found without problem is what the decoder takes, for bindings bent in any one place."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from schemas.contracts.playbook import SelfHealingOutput
from statemachines.contracts.playbook import PUBLISHED, find_template
from statemachines.kernel.shapes import INVALID, MISSING, problems
from tests.support import few_or_many
from tests.support.playbook_samples import AUTO_MERGE, CASE, EXECUTIONS, render_request

VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-1, 10001)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "x" * 501, "https://code.example/a", "squash", "hosted_ci", "auto_merge", "0 9 * * 1"])
    | st.lists(st.sampled_from(["", "a", "b", 1]), max_size=3)
    | st.sampled_from([{}, {"mode": "review_required"}, AUTO_MERGE, *EXECUTIONS.values(), {"surprise": 1}])
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, inner in items for place in places(inner, (*path, name)))]


def bend(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    bent = copy.deepcopy(document)
    inner = bent
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    return bent


@few_or_many(80, 400)
@given(st.sampled_from(PUBLISHED), st.data())
def test_no_problem_means_the_decoder_takes_it(template: Any, data: st.DataObject) -> None:
    """Rendering converts what the check let through, so the check is never the laxer of the two."""
    request = render_request(template.id)
    bent = bend(request, data.draw(st.sampled_from(places(request))), data.draw(VALUES))
    found = problems(find_template(template.id).request, bent, "request")
    try:
        msgspec.convert(bent, template.request)
    except msgspec.ValidationError:
        assert found
    assert all(problem.path.startswith("request") and problem.message for problem in found)


def test_nullable_parts_of_an_output() -> None:
    """Null stands where a shape allows it and nowhere else; open parts take more keys than they name."""
    output: dict[str, Any] = {
        "run_id": "run_1",
        "status": "succeeded",
        "code_delivery": {"mode": "review_required"},
        "pull_request": {
            "grant_id": "grant_1",
            "delivery_mode": "review_required",
            "draft": True,
            "head_branch": "fix",
            "head_sha": "a" * 40,
            "number": 7,
        },
        "provider_proof": {
            "proof_id": "proof_1",
            "observation": "merged",
            "head_sha": "a" * 40,
            "required_status_checks": [],
            "branch_protection_enforced": None,
            "bypass_used": None,
            "auto_merge_enabled": None,
        },
        "auto_merge_receipt": None,
        "deploy": {"deploy_id": "dep_1", "sha": "a" * 40, "environment": "production"},
        "verification": {"outcome": "no_recurrence", "sample": None, "passed": True},
    }
    assert problems(SelfHealingOutput, output, "output") == []
    output["deploy"] = None
    output["auto_merge_receipt"] = {"grant_id": "grant_2"}
    output["verification"]["sample"] = 5
    assert {(problem.path, problem.code) for problem in problems(SelfHealingOutput, output, "output")} == {
        ("output.deploy", INVALID),
        ("output.auto_merge_receipt.head_sha", MISSING),
        ("output.auto_merge_receipt.merge_method", MISSING),
        ("output.verification.sample", INVALID),
    }
    assert find_template(CASE).output is SelfHealingOutput
