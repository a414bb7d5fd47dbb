"""Which deploy is the one that a run waits for: from a trusted CI, of the proven commit (G-110, R-AUT-43)."""

from __future__ import annotations

from statemachines.runs import events as e
from statemachines.runs import run as runs
from statemachines.runs.run import Run
from statemachines.runs.steps.book import Book, Effects, is_open
from statemachines.runs.verdict import BoundDeploy


def waits_for(run: Run, sha: str | None) -> bool:
    """Whether the run waits for a trusted CI deploy of this commit, wherever that is to be (G-110)."""
    if run.status is not runs.Status.PR_OPENED or sha is None or sha != run.proven_commit:
        return False
    return run.terms.delivery.mode != "auto_merge" or run.proof("auto_merge_enabled") is not None


def binds(run: Run, sha: str | None, environment: str) -> bool:
    """Whether a trusted CI deploy of this commit, in this environment, is the one that the run waits for (G-134)."""
    return waits_for(run, sha) and run.terms.environment in (None, environment)


def bind_deploy(book: Book, deploy: BoundDeploy, now: int) -> Effects:
    """Bind a trusted CI deploy to the run that waits for it; nothing when it does not."""
    if not is_open(book, now) or not binds(book.run, deploy.sha, deploy.environment):
        return {}
    until = deploy.recorded_at + book.run.terms.verification.max_wait_seconds
    return {book.run_id: [e.RunDeployBound(deploy, until, now)]}
