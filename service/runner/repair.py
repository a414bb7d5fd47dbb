"""One repair: the customer's program in a clean working copy, then the bounds, then the tests, then a commit."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any, NamedTuple

from service.runner import child
from service.runner.bounds import Policy, Violation, find_violations, is_plain, lines_of
from service.runner.change import RunNote, write_evidence
from service.runner.child import Heartbeat
from service.runner.git import GitFailed, Store, WorkingCopy

MAX_TITLE = 120
_SHOWN_VIOLATIONS = 10
_MENTIONS = re.compile(r"[@#`<>\[\]]|[^ -~]")


class NoRepair(Exception):
    """There is no change to deliver. The message tells people why."""


class Program(NamedTuple):
    """The program for repairs, its additional variables, and its time."""

    command: list[str]
    passed: list[str]
    seconds: int | None


class RepairJob(NamedTuple):
    """The circumstances of one repair."""

    run: dict[str, Any]
    told: dict[str, Any]
    policy: Policy
    case: dict[str, Any]
    base: str
    seconds: int


def branch_of(run: dict[str, Any]) -> str:
    """The branch of a run: whoever goes on with the run finds it by its name."""
    return f"repair/{run['run_id']}"


def make(order: Program, store: Store, note: RunNote, job: RepairJob, heartbeat: Heartbeat) -> dict[str, Any]:
    """Make, judge, test and commit a change. Raises NoRepair, GitFailed."""
    if (left := note.worker()) is not None:
        child.end_worker(left)
    note.begin_attempt()
    ends = time.monotonic() + job.seconds
    with store.working_copy(job.run["run_id"], job.base) as copy:
        evidence, title_file = copy.beside / "evidence.json", copy.beside / "title.txt"
        write_evidence(evidence, job.run, job.told["policy"], job.case)
        environment = {
            **child.kept_environment(order.passed),
            "SERVICE_EVIDENCE": str(evidence),
            "SERVICE_TITLE_FILE": str(title_file),
            "SERVICE_RUN_ID": job.run["run_id"],
        }
        ended = child.run(
            order.command,
            copy.tree,
            environment,
            seconds=job.seconds,
            heartbeat=heartbeat,
            began=note.keep_worker,
        )
        if ended.late:
            raise NoRepair(f"The repair did not end within {job.seconds} s.")
        if ended.code != 0:
            raise NoRepair(f"The repair ended with code {ended.code}.")
        try:
            tree = store.read_files(copy, job.base)
        except GitFailed as error:
            raise NoRepair("The files that the repair left are no tree that git can keep.") from error
        changes = store.changes(job.base, tree)
        if violations := find_violations(job.policy, changes):
            raise NoRepair(_tell(violations))
        tests = _test(job, copy, ends - time.monotonic(), heartbeat)
        title = read_title(title_file, job.run)
    message = f"{title}\n\nAutomation-Run: {job.run['run_id']}\n"
    commit = store.commit(job.run["run_id"], tree, job.base, message, job.run["started_at"])
    change = {
        "repository": job.policy.repository,
        "base_branch": job.policy.base_branch,
        "head_branch": branch_of(job.run),
        "head_sha": commit,
        "delivery_mode": job.policy.mode,
        "files_changed": [change.path for change in changes],
        "changed_lines": lines_of(changes),
        "tests": tests,
        "title": title,
    }
    note.keep_change(change)
    return change


def _test(job: RepairJob, copy: WorkingCopy, seconds: float, heartbeat: Heartbeat) -> list[dict[str, Any]]:
    """Run the policy's commands in order, within the remaining time. Raises NoRepair."""
    ends = time.monotonic() + seconds
    tests: list[dict[str, Any]] = []
    for command in job.policy.test_commands:
        shell = ["/bin/sh", "-c", command]
        left = max(1.0, ends - time.monotonic())
        ended = child.run(shell, copy.tree, child.kept_environment(), seconds=left, heartbeat=heartbeat)
        if ended.late or ended.code != 0:
            raise NoRepair(f"With the change, test command {len(tests) + 1} of the contract fails.")
        tests.append({"command": command, "passed": True})
    return tests


def _tell(violations: list[Violation]) -> str:
    """Name the broken rules. A path is told only in its plain form."""
    told = [f"{one.rule} ({one.path})" if is_plain(one.path) else one.rule for one in violations[:_SHOWN_VIOLATIONS]]
    if told == ["no_change"]:
        return "The repair changed nothing."
    return f"The change leaves the bounds of the contract: {', '.join(told)}."


def read_title(path: Path, run: dict[str, Any]) -> str:
    """The title from the repair in plain words. They mention nobody and close nothing. Without one, the case's id."""
    try:
        with path.open(errors="replace") as file:
            words = _MENTIONS.sub(" ", file.readline(4 * MAX_TITLE)).split()
    except OSError:
        words = []
    return " ".join(words)[:MAX_TITLE].strip() or f"Repair {run['case_id']}"
