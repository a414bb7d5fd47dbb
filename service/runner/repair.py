"""One repair: the customer's program in a clean working copy, then the bounds, then the tests, then a commit."""

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from service.runner import child
from service.runner.bounds import Policy, Violation, find_violations, is_plain, lines_of
from service.runner.change import KeptChange, RunNote, cut_diff, write_evidence
from service.runner.files import NotPlain
from service.runner.git import FILE, REPOSITORY, Changed, GitFailed, GitRemote, LeftFile, Objects, Store
from service.runner.pull import plain_words
from service.runner.tree import WorkingCopy, read_beside, read_change, working_copy
from service.runner.wall import Wall

FOR_PEOPLE, BY_HOST = "review_required", "auto_merge"
MAX_TITLE, MAX_WORDS_BYTES = 120, 4096
_TITLE, _REASON = "title.txt", "reason.txt"
_GRANTED = (
    "repository", "base_branch", "head_branch", "head_sha", "delivery_mode", "files_changed", "changed_lines", "tests",
)  # fmt: skip
_SHOWN_VIOLATIONS = 10


class NoRepair(Exception):
    """There is no change to deliver. The message tells people why."""


class Program(NamedTuple):
    """The program for repairs, its additional variables, and its time."""

    command: list[str]
    passed: list[str]
    seconds: int | None


Isolate = Literal["auto", "always", "never"]
"""Whether programs run behind the wall: where there is one, nowhere else, or not at all."""


class RepairPlace(NamedTuple):
    """The place of the repairs: the stores, the remote, the program, and the wall around it."""

    store: Store
    remote: GitRemote
    order: Program
    wall: Wall
    isolate: Isolate


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


def make(work: RepairPlace, job: RepairJob, note: RunNote, heartbeat: child.Heartbeat) -> dict[str, Any]:
    """Make, judge, test and commit a change. Raises NoRepair, GitFailed, NotPlain."""
    if (left := note.worker()) is not None:
        child.end_worker(left)
    note.begin_attempt()
    ends = time.monotonic() + job.seconds
    branch = job.policy.base_branch
    with working_copy(work.store, job.run["run_id"], work.remote, branch, job.base) as copy:
        evidence = copy.beside / "evidence.json"
        write_evidence(evidence, job.run, job.told["policy"], job.case)
        environment = {
            **child.kept_environment(work.order.passed),
            "SERVICE_EVIDENCE": str(evidence),
            "SERVICE_TITLE_FILE": str(copy.beside / _TITLE),
            "SERVICE_REASON_FILE": str(copy.beside / _REASON),
            "SERVICE_RUN_ID": job.run["run_id"],
        }
        run = _Programs(work, copy, heartbeat, note)
        ended = run(work.order.command, environment, job.seconds)
        if ended.late:
            raise NoRepair(f"The repair did not end within {job.seconds} s.")
        if ended.code != 0:
            raise NoRepair(f"The repair ended with code {ended.code}.")
        title, reason = read_title(copy, job.run), _read_words(copy, _REASON)
        change, packed, diff = _commit(work, job, copy, title)
        change["tests"] = _test(job, run, ends - time.monotonic())
    note.keep_change(change, job.base, packed, diff, reason)
    return change


def _commit(work: RepairPlace, job: RepairJob, copy: WorkingCopy, title: str) -> tuple[dict[str, Any], bytes, str]:
    """Read, judge and commit what a repair left. The tests run afterwards, and see nothing of the store.

    Returns the change, its objects and its diff. Raises NoRepair, GitFailed.
    """
    with work.store.objects(work.remote, job.policy.base_branch, job.base) as objects:
        try:
            tree, changes = judge(objects, job.policy, read_change(copy, objects))
        except (GitFailed, NotPlain, OSError) as error:
            raise NoRepair("The files that the repair left are no tree that git can keep.") from error
        message = f"{title}\n\nAutomation-Run: {job.run['run_id']}\n"
        commit = objects.commit(tree, message, job.run["started_at"])
        packed, diff, patch = objects.pack(commit), cut_diff(objects.diff(commit)), objects.patch_id(commit)
    change = {
        "repository": job.policy.repository,
        "base_branch": job.policy.base_branch,
        "head_branch": branch_of(job.run),
        "head_sha": commit,
        "delivery_mode": job.policy.mode,
        "files_changed": [change.path for change in changes],
        "changed_lines": lines_of(changes),
        "tests": [],
        "title": title,
        "tree_sha": tree,
    }
    return change | ({} if patch is None else {"patch_id": patch}), packed, diff


def judge(objects: Objects, policy: Policy, entries: Sequence[LeftFile]) -> tuple[str, list[Changed]]:
    """Write what a repair left as a tree within the policy, and list its changes. Raises NoRepair, GitFailed."""
    base = paths_of(objects)
    seen = [Changed(_text(one.path), FILE, one.mode, 0, one.size) for one in entries]
    if any(one.content is None or one.mode == REPOSITORY or not is_plain(_text(one.path)) for one in entries):
        raise NoRepair(_tell(find_violations(policy, seen, base)))
    tree = objects.write_tree(entries)
    changes = objects.changes(tree)
    if violations := find_violations(policy, changes, base):
        raise NoRepair(_tell(violations))
    if {one.path for one in changes} != {one.path for one in seen}:
        raise GitFailed("git keeps other paths than there are")
    return tree, changes


def _text(path: bytes) -> str:
    return path.decode(errors="surrogateescape")


def paths_of(objects: Objects) -> list[str]:
    """The paths of the base."""
    return [_text(path) for path in objects.files()]


def judge_again(
    objects: Objects, policy: Policy, run: dict[str, Any], kept: KeptChange, binding: dict[str, Any]
) -> None:
    """Hold a commit's objects to the policy, the grant and the note, right before the push. Raises NoRepair."""
    change = kept.change
    commit = change["head_sha"]
    found = objects.changes(commit)
    is_judged = (
        policy.mode == change["delivery_mode"] in {FOR_PEOPLE, BY_HOST}
        and objects.parents(commit) == [kept.base]
        and not find_violations(policy, found, paths_of(objects))
        and [one.path for one in found] == change["files_changed"]
        and lines_of(found) == change["changed_lines"]
        and [one["command"] for one in change["tests"]] == policy.test_commands
        and (change["repository"], change["base_branch"]) == (policy.repository, policy.base_branch)
        and change["head_branch"] == branch_of(run) != policy.base_branch
        and all(binding[name] == change[name] for name in _GRANTED)
    )
    if not is_judged:
        raise NoRepair("The commit here is not the one that was judged and granted. Nothing was pushed.")


class _Programs:
    """Runs programs in a working copy, behind a wall where there is one."""

    def __init__(self, work: RepairPlace, copy: WorkingCopy, heartbeat: child.Heartbeat, note: RunNote) -> None:
        """Raises NoRepair if there has to be a wall, and this machine has none."""
        self._copy = copy
        self._heartbeat = heartbeat
        self._note = note
        self._wall = None
        if work.isolate != "never":
            wall = work.wall._replace(writable=[str(copy.tree.parent)])
            self._wall = wall if wall.stands(copy.tree) else None
            if self._wall is None and work.isolate == "always":
                raise NoRepair("This machine has no namespaces for the program, and --isolate asks for them.")

    def __call__(self, command: list[str], environment: dict[str, str], seconds: float) -> child.Ended:
        """Run a program to its end, or to that of its time."""
        where = self._copy.tree
        command = command if self._wall is None else self._wall.before(command, where)
        keep = self._note.keep_worker
        return child.run(command, where, environment, seconds=seconds, heartbeat=self._heartbeat, began=keep)


def _test(job: RepairJob, run: _Programs, seconds: float) -> list[dict[str, Any]]:
    """Run the policy's commands in order, within the remaining time. Raises NoRepair."""
    ends = time.monotonic() + seconds
    tests: list[dict[str, Any]] = []
    for command in job.policy.test_commands:
        ended = run(["/bin/sh", "-c", command], child.kept_environment(), max(1.0, ends - time.monotonic()))
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


def read_title(copy: WorkingCopy, run: dict[str, Any]) -> str:
    """The title from the repair in plain words. They mention nobody and close nothing. Without one, the case's id."""
    told = _read_words(copy, _TITLE).partition("\n")[0]
    return plain_words(told, MAX_TITLE) or f"Repair {run['case_id']}"


def _read_words(copy: WorkingCopy, name: str) -> str:
    """The text of a file beside the copy. Nothing, unless it is a short and regular one."""
    with suppress(FileNotFoundError, NotPlain):
        return read_beside(copy, name, MAX_WORDS_BYTES).decode(errors="replace")
    return ""
