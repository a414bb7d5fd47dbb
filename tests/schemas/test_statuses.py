"""Words of the wire for what machines know: the same set, or a table with what differs."""

from __future__ import annotations

from enum import Enum
from typing import Any, get_args

import msgspec
import pytest

from schemas import alerts as alert_wire
from schemas import webhooks as webhook_wire
from schemas.cases import case as case_wire
from schemas.cases import suppression as suppression_wire
from schemas.install import AnswerContract, GapWord
from schemas.kernel.shape import Role
from schemas.runs import approval as approval_wire
from schemas.runs import receipt as receipt_wire
from schemas.runs import run as run_wire
from service.cases.case import status_of
from statemachines import alerts
from statemachines.accounts import membership
from statemachines.cases import agent_run, case, suppression
from statemachines.onboarding import lifecycle, proof
from statemachines.runs import approval, claim, grant, receipt, run

HIDDEN = {"absent"}


def words(kind: Any) -> set[str]:
    """The words of a type, without null."""
    return {kind} if isinstance(kind, str) else {word for one in get_args(kind) for word in words(one)}


def member(kind: type[msgspec.Struct], name: str) -> Any:
    return next(field.type for field in msgspec.structs.fields(kind) if field.encode_name == name)


@pytest.mark.parametrize(
    ("known", "shown", "hidden"),
    [
        (membership.Role, Role, set()),
        (alerts.Op, alert_wire.ThresholdOp, set()),
        (alerts.RowMatch, alert_wire.RowsLookedAt, set()),
        (alerts.Status, alert_wire.AlertStatus, {"deleted"}),
        (agent_run.Outcome, case_wire.AgentRunStatus, set()),
        (suppression.Action, suppression_wire.SuppressionAction, set()),
        (proof.GapCode, GapWord, set()),
        (proof.QuestionStatus, member(AnswerContract, "status"), set()),
        (lifecycle.Status, member(webhook_wire.OnboardingTold, "status"), set()),
        (approval.Status, approval_wire.ApprovalStatus, set()),
        (grant.Status, member(approval_wire.Grant, "status"), set()),
        (receipt.Status, receipt_wire.ReceiptStatus, set()),
        (claim.Status, member(receipt_wire.Claim, "status"), set()),
    ],
    ids=lambda one: f"{one.__module__}.{one.__name__}" if isinstance(one, type) and issubclass(one, Enum) else "",
)
def test_a_machine_and_the_wire_have_the_same_words(known: type[Enum], shown: Any, hidden: set[str]) -> None:
    """But for what has no place in an answer: a thing that is not there, and one that is gone."""
    assert {one.value for one in known} - HIDDEN - hidden == words(shown)


def test_a_case_has_three_words_for_five_states() -> None:
    """An overflow case counts as open, a merged one as ignored."""
    assert {status_of(one.value) for one in case.Status if one is not case.Status.ABSENT} == words(case_wire.CaseStatus)


def test_a_status_of_a_run_is_a_phase_and_an_outcome() -> None:
    """Both parts are words of the wire, and no word is left over."""
    shown = [one for one in run.Status if one is not run.Status.ABSENT]
    assert {one.phase for one in shown} == words(run_wire.RunPhase)
    assert {one.outcome for one in shown} - {None} == words(run_wire.RunStatus)
