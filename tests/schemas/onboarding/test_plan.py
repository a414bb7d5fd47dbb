"""Every bound of every field of a plan: at the bound accepted, one past it refused (R-ONB-01 to R-ONB-15)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.onboarding.plan import Plan, SourceSnapshot
from service.onboarding.evidence import reshape
from statemachines.onboarding import stored
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
    kept = reshape(plan, stored.Plan)
    assert msgspec.json.encode(kept) == msgspec.json.encode(plan)
    assert reshape(kept, Plan) == plan
