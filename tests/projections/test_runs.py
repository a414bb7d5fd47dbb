"""Read models of automation: a row is its stream's fold at every revision, through JSON as the database keeps it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from projections.kernel import AnyProjection
from projections.runs import (
    APPROVALS,
    CLAIMS,
    GRANTS,
    LEASES,
    LEDGERS,
    PATCHES,
    PULL_REQUESTS,
    RECEIPTS,
    RUNS,
    LedgerRow,
    fold_run,
)
from statemachines.kernel.machine import Recorded, StateMachine, permits
from statemachines.kernel.topics import EVENTS
from statemachines.runs import approval, claim, grant, lease, ledger, patch, pull_request, run
from statemachines.runs import receipt as trigger_receipt
from tests.support.examples import example

PAIRS: dict[str, tuple[AnyProjection, StateMachine[Any]]] = {
    "trigger_receipt": (RECEIPTS, trigger_receipt.MACHINE),
    "lease": (LEASES, lease.MACHINE),
    "claim": (CLAIMS, claim.MACHINE),
    "run": (RUNS, run.MACHINE),
    "approval": (APPROVALS, approval.MACHINE),
    "grant": (GRANTS, grant.MACHINE),
    "ledger": (LEDGERS, ledger.MACHINE),
    "pull_request": (PULL_REQUESTS, pull_request.MACHINE),
    "patch": (PATCHES, patch.MACHINE),
}


@pytest.mark.parametrize("name", PAIRS)
@given(data=st.data())
def test_a_row_is_the_fold_of_its_stream(name: str, data: st.DataObject):
    projection, machine = PAIRS[name]
    assert projection.kinds == (machine.kind,)
    events = [example(event) for topic, event in sorted(EVENTS.items()) if topic.startswith(f"{name}.")]
    state, row, revision = machine.initial, None, 0
    for event in data.draw(st.lists(st.sampled_from(events), min_size=1, max_size=12)):
        if not permits(machine, state, event):
            continue
        state, revision = machine.evolve(state, event), revision + 1
        recorded = Recorded(f"{machine.kind}_1", revision, event, "proj_1", 5, "runner:cred_1")
        row = projection.fold(row, recorded)
        assert (row.project_id, row.id, row.revision) == ("proj_1", f"{machine.kind}_1", revision)
        assert kept(row) == shown(state)
        row = msgspec.json.decode(msgspec.json.encode(row), type=projection.row)
        assert kept(row) == shown(state)


def kept(row: Any) -> Any:
    """The state that a row keeps."""
    return row.ledger if isinstance(row, LedgerRow) else row.state


def shown(state: Any) -> Any:
    """The part of a state that its row keeps: a ledger's does without what single runs have used."""
    if not isinstance(state, ledger.Ledger):
        return state
    return msgspec.structs.replace(state, runs=[ledger.RunAccount("", run.charged_at) for run in state.runs])


def test_a_run_waits_for_its_proven_commit_only_while_it_does():
    """Deploys find a run by its commit from the proof on, and no longer once one is bound or the run is over."""
    from statemachines.runs import events as e

    row = None
    seen = []
    started = msgspec.structs.replace(example(e.RunStarted), terms=e.Terms())
    proof = msgspec.structs.replace(example(e.RunPrProven).proof, observation="pr_opened")
    history = [
        started, example(e.RunDraftPrAuthorized), example(e.RunDraftPrConsumed),
        msgspec.structs.replace(example(e.RunPrProven), proof=proof), example(e.RunDeployBound), example(e.RunVerified),
    ]  # fmt: skip
    for revision, event in enumerate(history, 1):
        row = fold_run(row, Recorded("run_1", revision, event, "proj_1", 5, "ci:cred_1"))
        seen.append((row.phase, row.outcome, row.live, row.proven_commit is not None))
    assert seen[2:] == [
        ("provider_proof_pending", None, True, False),
        ("provider_proof_pending", "draft_pr_opened", True, True),
        ("provider_proof_pending", "verifying", True, False),
        ("verified_or_reported", "succeeded", False, False),
    ]
