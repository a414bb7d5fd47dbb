"""Whether a deployed fix holds: recurrence first, then traffic, both counted by the server (G-111, R-AUT-44, R-AUT-45).

Zero traffic is never success: it is pending until the deadline and a failure from then on.
"""

from typing import NamedTuple

import msgspec
from msgspec import UnsetType

from schemas.contracts.playbook import FunnelReviewOutput
from schemas.kernel.shape import EvidenceSource
from statemachines import reports
from statemachines.contracts.policy import VerificationTerms
from statemachines.kernel.machine import STALE_SECONDS, Event, Rejection, allowed_next
from statemachines.runs import events as e
from statemachines.runs import run as runs
from statemachines.runs.statistics import Statistics
from statemachines.runs.steps.advance_run import enter, not_allowed
from statemachines.runs.steps.book import Book, Effects, FencingToken, is_open, merge
from statemachines.runs.steps.end_run import end_run
from statemachines.runs.steps.use_grant import require_runner_of
from statemachines.runs.verdict import BoundDeploy, CountedBy, CountedIn, Sample, Verdict, VerificationOutcome


class Counts(msgspec.Struct, frozen=True):
    """What a provider counted from the deploy up to `observed_to`: sample events, and errors of the fingerprint.

    `counted_by` as in Sample, `counted_in` and `evidence_source` as in Verdict. `waiting_at` is the present moment, in
    epoch seconds, if the exceptions of the connected provider were read no further than `observed_to` (G-182).
    `statistics` are None where the time before the deploy could not be read.
    """

    sample: int
    recurrences: int
    observed_to: int
    counted_by: CountedBy | None = None
    counted_in: CountedIn | None = None
    evidence_source: EvidenceSource = "local"
    waiting_at: int | None = None
    statistics: Statistics | None = None


class DeployNotBound(Rejection):
    """No trusted deploy of the proven commit is bound to the run (G-111)."""

    code = "deploy_not_bound"


def observation_end(terms: VerificationTerms, deployed_at: int, settled: int) -> int:
    """Last instant that counts when everything received up to `settled` is there to be counted (G-134).

    What happens after the deadline decides nothing. Never before the deploy: then there is nothing to count yet.
    """
    return max(deployed_at, min(settled, deployed_at + terms.max_wait_seconds))


def decide_verification(
    terms: VerificationTerms, deployed_at: int, counts: Counts, maximum: str | None = None
) -> Verdict:
    """Judge the counts of a deploy made at `deployed_at`, by the moment up to which they were taken (G-134).

    The clock of the commit is later: what happened in between has not been looked at, so it may not count as quiet.
    Exceptions of the connected provider are waited for until STALE_SECONDS after the deadline (G-182). With a
    `maximum`, success also waits for the error probability to reach it (G-173, G-202).
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
    elif (
        counts.sample >= max(1, terms.min_sample_size)
        and waited >= terms.observation_window_seconds
        and _sure(counts.statistics, maximum)
    ):
        outcome = "no_recurrence"
    elif waited >= terms.max_wait_seconds or in_vain:
        outcome = "insufficient_traffic"
    counted_in = counts.counted_in or msgspec.UNSET
    statistics, bound = counts.statistics or msgspec.UNSET, msgspec.UNSET if maximum is None else maximum
    passed = outcome == "no_recurrence"
    return Verdict(outcome, sample, passed, counted_in, counts.evidence_source, statistics, bound)


def _sure(statistics: Statistics | None, maximum: str | None) -> bool:
    return maximum is None or (statistics is not None and statistics.reaches(float(maximum)))


def require_verifiable(run: runs.Run) -> BoundDeploy | None:
    """Return the deploy to verify, or None when the outcome stands already.

    Raises RunNotFound, DeployNotBound, RunTerminal.
    """
    if run.status is runs.Status.ABSENT:
        raise runs.RunNotFound("There is no such run.", next_action="List the runs of the project.")
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


def _over(run: runs.Run) -> runs.RunTerminal:
    """Build the refusal of a run that is recorded as over; a CI may still prove what it left outside."""
    left = allowed_next(runs.MACHINE, run)
    return runs.RunTerminal("The run is over.", next_action="Read the run for its outcome.", allowed_next=left)


def verify_run(book: Book, counts: Counts | None, now: int, maximum: str | None = None) -> tuple[Verdict, Effects]:
    """Judge what was counted, and end the run when that decides it. A repeat after the end returns the verdict.

    `counts` are None for a run whose outcome stood already: it stays. `maximum` is the project's bound of the error
    probability (G-202). Raises what require_verifiable raises.
    """
    run = book.run
    deploy = require_verifiable(run)
    if deploy is None:
        assert run.verdict is not None
        return run.verdict, {}
    assert counts is not None, "an outcome that stood before the locks stands under them"
    verdict = decide_verification(run.terms.verification, deploy.recorded_at, counts, maximum)
    if verdict.outcome == "pending":
        return verdict, {}
    ended = e.RunVerified(verdict, now) if verdict.passed else e.RunVerificationFailed(verdict, now)
    return verdict, end_run(book, ended, now, revoke_claim=False)


# Which deploy is the one that a run waits for: from a trusted CI, of the proven commit (G-110, R-AUT-43).


def waits_for(run: runs.Run, sha: str | None) -> bool:
    """Whether the run waits for a trusted CI deploy of this commit, wherever that is to be (G-110)."""
    if run.status is not runs.Status.PR_OPENED or sha is None or sha != run.proven_commit:
        return False
    return run.terms.delivery.mode != "auto_merge" or run.proof("auto_merge_enabled") is not None


def binds(run: runs.Run, sha: str | None, environment: str) -> bool:
    """Whether a trusted CI deploy of this commit, in this environment, is the one that the run waits for (G-134)."""
    return waits_for(run, sha) and run.terms.environment in (None, environment)


def bind_deploy(book: Book, deploy: BoundDeploy, now: int) -> Effects:
    """Bind a trusted CI deploy to the run that waits for it; nothing when it does not."""
    if not is_open(book, now) or not binds(book.run, deploy.sha, deploy.environment):
        return {}
    until = deploy.recorded_at + book.run.terms.verification.max_wait_seconds
    return {book.run_id: [e.RunDeployBound(deploy, until, now)]}


# The report of a scheduled run: its source, read once, and the record that ends the run (G-112, R-AUT-37). The
# intent is committed before anybody asks a provider, and moves the run on; what was read is stored by a unit of its
# own, which the state revision does not concern: the numbers are the same whatever the runner has charged meanwhile.
# A repeat of what is done already is answered before the fence, and so is the wish that made the intent.


class SourceRead(NamedTuple):
    """What a provider said of a plan, or why it said nothing."""

    provider: str
    reading: reports.FunnelReading


def want_source(book: Book, token: FencingToken, now: int) -> Effects:
    """Commit to reading the source; no events when that was done, or when there is one.

    Raises what enter raises, RunTransitionNotAllowed.
    """
    require_runner_of(book, token)
    report = book.report
    if report.source is not None:
        return {}
    if report.status is reports.Status.INTENDED and token.state_revision == report.state_revision:
        token = _of_now(book, token)
    book, effects = enter(book, token, now)
    plan = _plan_of(book)
    run = book.run
    wish = reports.SourceWish(
        run_id=book.run_id,
        automation_id=run.automation_id,
        plan=plan,
        state_revision=run.state_revision,
        patient_until=now + min(reports.PATIENCE_SECONDS, (run.deadline_at - now) // 2),
    )
    events = reports.decide_intend(report, wish, now)
    noted: list[Event] = [e.RunReportSourceIntended(book.report_id, now)] if events else []
    return merge(effects, {book.report_id: events, book.run_id: noted})


def store_source(book: Book, token: FencingToken, read: SourceRead, now: int) -> Effects:
    """Store what was read as the run's one source; no events when there is one.

    Raises what enter raises, RunTransitionNotAllowed, ReportSourceUnread.
    """
    require_runner_of(book, token)
    if book.report.source is not None:
        return {}
    book, effects = enter(book, _of_now(book, token), now)
    _plan_of(book)
    stored = reports.decide_materialize(book.report, read.provider, read.reading, now)
    return merge(effects, {book.report_id: stored})


def record_report(book: Book, token: FencingToken, document: FunnelReviewOutput, now: int) -> Effects:
    """Record the one report, and end the run with it; no events for the same report again.

    Raises what enter raises, RunTransitionNotAllowed, and what decide_record raises.
    """
    require_runner_of(book, token)
    by = token.holder.runner_id
    if book.report.status is reports.Status.RECORDED:
        reports.decide_record(book.report, document, by, now)
        return {}
    book, effects = enter(book, token, now)
    _plan_of(book)
    recorded = reports.decide_record(book.report, document, by, now)
    sha256 = reports.evolve(book.report, recorded[0]).report_sha256
    assert sha256 is not None, "what was recorded has a hash"
    ended = end_run(book, e.RunReported(book.report_id, sha256, now), now, revoke_claim=False)
    return merge(effects, {book.report_id: recorded}, ended)


def _of_now(book: Book, token: FencingToken) -> FencingToken:
    """The same wish, at the revision that the run has now."""
    return token._replace(state_revision=book.run.state_revision)


def _plan_of(book: Book) -> reports.FunnelPlan:
    """What the run's report is about. Raises RunTransitionNotAllowed for a run that makes none, or not now."""
    run = book.run
    plan = run.terms.review
    if isinstance(plan, UnsetType) or run.status not in {runs.Status.STARTED, runs.Status.RUNNING}:
        raise not_allowed(book)
    return plan
