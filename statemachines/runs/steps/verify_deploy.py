"""Whether a deployed fix holds: recurrence first, then traffic, both counted by the server (G-111, R-AUT-44, R-AUT-45).

Zero traffic is never success: it is pending until the deadline and a failure from then on.
"""

from __future__ import annotations

import msgspec

from schemas.kernel.shape import EvidenceSource
from statemachines.contracts.policy import VerificationTerms
from statemachines.kernel.machine import Rejection, allowed_next
from statemachines.kernel.readings import STALE_SECONDS
from statemachines.runs import events as e
from statemachines.runs import run as runs
from statemachines.runs.run import Run, RunNotFound, RunTerminal
from statemachines.runs.steps.book import Book, Effects
from statemachines.runs.steps.end_run import end_run
from statemachines.runs.verdict import BoundDeploy, CountedBy, CountedIn, Sample, Verdict, VerificationOutcome


class Counts(msgspec.Struct, frozen=True):
    """What a provider counted from the deploy up to `observed_to`: sample events, and errors of the fingerprint.

    `counted_by` as in Sample, `counted_in` and `evidence_source` as in Verdict. `waiting_at` is the present moment, in
    epoch seconds, if the exceptions of the connected provider were read no further than `observed_to` (G-182).
    """

    sample: int
    recurrences: int
    observed_to: int
    counted_by: CountedBy | None = None
    counted_in: CountedIn | None = None
    evidence_source: EvidenceSource = "local"
    waiting_at: int | None = None


class DeployNotBound(Rejection):
    """No trusted deploy of the proven commit is bound to the run (G-111)."""

    code = "deploy_not_bound"


def observation_end(terms: VerificationTerms, deployed_at: int, settled: int) -> int:
    """Last instant that counts when everything received up to `settled` is there to be counted (G-134).

    What happens after the deadline decides nothing. Never before the deploy: then there is nothing to count yet.
    """
    return max(deployed_at, min(settled, deployed_at + terms.max_wait_seconds))


def decide_verification(terms: VerificationTerms, deployed_at: int, counts: Counts) -> Verdict:
    """Judge the counts of a deploy made at `deployed_at`, by the moment up to which they were taken (G-134).

    The clock of the commit is later: what happened in between has not been looked at, so it may not count as quiet.
    Exceptions of the connected provider are waited for until STALE_SECONDS after the deadline (G-182).
    """
    waited = counts.observed_to - deployed_at
    in_vain = (counts.waiting_at or 0) - deployed_at >= terms.max_wait_seconds + STALE_SECONDS
    sample = Sample(
        event=terms.traffic_sample_event,
        count=counts.sample,
        minimum=terms.min_sample_size,
        recurrence_count=counts.recurrences,
        observed_from=deployed_at,
        observed_to=counts.observed_to,
        counted_by=counts.counted_by or msgspec.UNSET,
    )
    outcome: VerificationOutcome = "pending"
    if counts.recurrences > 0:
        outcome = "recurred"
    elif counts.sample >= max(1, terms.min_sample_size) and waited >= terms.observation_window_seconds:
        outcome = "no_recurrence"
    elif waited >= terms.max_wait_seconds or in_vain:
        outcome = "insufficient_traffic"
    counted_in = counts.counted_in or msgspec.UNSET
    return Verdict(outcome, sample, outcome == "no_recurrence", counted_in, counts.evidence_source)


def require_verifiable(run: Run) -> BoundDeploy | None:
    """Return the deploy to verify, or None when the outcome stands already.

    Raises RunNotFound, DeployNotBound, RunTerminal.
    """
    if run.status is runs.Status.ABSENT:
        raise RunNotFound("There is no such run.", next_action="List the runs of the project.")
    if run.verdict is not None:
        return None
    if run.deploy is None:
        if not run.live:
            raise _over(run)
        if run.case_id is None:
            raise DeployNotBound(
                "The run ends with a report: it has no deploy.",
                next_action="Read the run and follow its next_action.",
            )
        raise DeployNotBound(
            "No trusted deploy of the proven commit is bound to the run.",
            next_action="Record the deploy from CI, with the full commit.",
        )
    if run.status is not runs.Status.VERIFYING:
        raise _over(run)
    return run.deploy


def _over(run: Run) -> RunTerminal:
    """Build the refusal of a run that is recorded as over; a CI may still prove what it left outside."""
    left = allowed_next(runs.MACHINE, run)
    return RunTerminal("The run is over.", next_action="Read the run for its outcome.", allowed_next=left)


def verify_run(book: Book, counts: Counts | None, now: int) -> tuple[Verdict, Effects]:
    """Judge what was counted, and end the run when that decides it. A repeat after the end returns the verdict.

    `counts` are None for a run whose outcome stood already: it stays. Raises what require_verifiable raises.
    """
    run = book.run
    deploy = require_verifiable(run)
    if deploy is None:
        assert run.verdict is not None
        return run.verdict, {}
    assert counts is not None, "an outcome that stood before the locks stands under them"
    verdict = decide_verification(run.terms.verification, deploy.recorded_at, counts)
    if verdict.outcome == "pending":
        return verdict, {}
    ended = e.RunVerified(verdict, now) if verdict.passed else e.RunVerificationFailed(verdict, now)
    return verdict, end_run(book, ended, now, revoke_claim=False)
