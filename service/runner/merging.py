"""The host's own auto-merge under a grant of its own: wait for the checks, then turn it on once. It never merges.

Each turn reads the run and looks at the pull request, and takes the one missing step. CI proves each of them.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from service.runner.access import PullHost
from service.runner.answers import Json
from service.runner.bounds import Policy
from service.runner.change import RunNote
from service.runner.child import Heartbeat
from service.runner.pull import PENDING, HostRefused, Pull
from service.runner.repair import NoRepair, branch_of
from service.runner.service_calls import Service

TEMPO = (1.0, 2.0, 4.0, 8.0, 15.0)
PROVEN_ON = frozenset({"auto_merge_enabled", "merged"})
_MOST_NAMED = 10
FOR_CI = "waits for CI to prove that auto-merge is on"
CLOSED = "waits for CI to prove that a person closed the pull request"


def draft_grant(run: Json) -> Json | None:
    """The grant of the pull request, if it stands or was spent."""
    return _grant(run, "draft_pr")


def merge_grant(run: Json) -> Json | None:
    """The grant of auto-merge, if it stands or was spent."""
    return _grant(run, "auto_merge")


def _grant(run: Json, kind: str) -> Json | None:
    standing = (one for one in run["grants"] if one["kind"] == kind)
    return next((one for one in standing if one["status"] in ("authorized", "consumed", "settled")), None)


def is_merged_by_host(run: Json) -> bool:
    """Whether the change of a run was granted for the host's own merge."""
    grant = draft_grant(run)
    return grant is not None and grant["binding"]["delivery_mode"] == "auto_merge"


def observed(run: Json) -> str | None:
    """The latest observation that CI has proven."""
    proof = run.get("provider_proof")
    return None if proof is None else str(proof["observation"])


class Merging(NamedTuple):
    """What auto-merge needs: the service, the host, the longest wait for checks, and a way to tell."""

    service: Service
    host: PullHost
    seconds: float
    say: Callable[[str], None]

    def step(self, run: Json, policy: Policy, note: RunNote, heartbeat: Heartbeat) -> str | None:
        """Take the next step. Returns the reason to wait, or None to go on. Raises NoRepair, HostRefused."""
        opened = draft_grant(run)
        assert opened is not None, "a run with a pull request has its grant"
        sha = opened["binding"]["head_sha"]
        grant = merge_grant(run)
        if grant is not None and grant["status"] != "authorized":
            return self._turn_on(run, policy, sha, grant, note)
        pull = self._find(run, policy, sha)
        if pull.state == "closed":
            return CLOSED
        if pull.state == "merged" or pull.merges_by is not None:
            raise NoRepair("Somebody merged the pull request, or turned auto-merge on, before it was granted.")
        if grant is None and observed(run) != "checks_passed":
            return self._await_checks(run, policy, sha, heartbeat)
        self.service.renew(run)
        if grant is None:
            binding = {"pr_number": pull.number, "head_sha": sha, "merge_method": policy.merge_method}
            self.service.step(run, "POST", "/actions/auto-merge/authorize", binding)
            return None
        body = {"grant_id": grant["grant_id"]}
        if self.service.step(run, "POST", "/actions/auto-merge/consume", body).get("call_authorized") is True:
            note.allow_call(grant["grant_id"])
        return None

    def _find(self, run: Json, policy: Policy, sha: str) -> Pull:
        """Find the pull request as it was granted. Raises NoRepair."""
        pull = self.host.find(branch_of(run), policy.base_branch)
        if pull is None:
            raise NoRepair("The pull request is not at the code host any more.")
        if pull.head_sha not in (None, sha):
            raise NoRepair("The pull request has another commit than the granted one.")
        if pull.draft and pull.state == "open":
            raise NoRepair("The pull request is a draft, and the host merges none.")
        return pull

    def _await_checks(self, run: Json, policy: Policy, sha: str, heartbeat: Heartbeat) -> str | None:
        """Wait until CI proves readiness, and keep the lease meanwhile. Raises NoRepair."""
        self.say(f"{run['run_id']} waits for the checks of {sha[:12]}")
        ends = time.monotonic() + self.seconds
        beaten, tempo = float("-inf"), iter(TEMPO)
        while True:
            if time.monotonic() - beaten >= heartbeat.seconds:
                heartbeat.beat()
                beaten = time.monotonic()
            ended = self.host.checks(sha)
            states = {name: ended.get(name, PENDING) for name in policy.required_checks}
            if red := [name for name, state in states.items() if state not in (PENDING, "success")]:
                raise NoRepair(f"These required checks did not succeed: {_named(red)}.")
            left = ends - time.monotonic()
            if left <= 0:
                open_yet = [name for name, state in states.items() if state == PENDING]
                raise NoRepair(
                    f"These required checks did not end within {self.seconds:g} s: {_named(open_yet)}."
                    if open_yet
                    else f"Every required check has succeeded, and CI did not prove it within {self.seconds:g} s."
                )
            pause = max(1.0, min(next(tempo, TEMPO[-1]), left, heartbeat.seconds))
            asked_at = time.monotonic()
            latest, told = self.service.changed_run(run, pause)
            if latest["state_revision"] != run["state_revision"] or latest["finished_at"] is not None:
                return None
            time.sleep(max(0.0, min(told or pause, pause) - (time.monotonic() - asked_at)))
            if (pull := self._find(run, policy, sha)).state != "open" or pull.merges_by is not None:
                return None

    def _turn_on(self, run: Json, policy: Policy, sha: str, grant: Json, note: RunNote) -> str | None:
        """Use the grant once: have the host merge by itself. Without permission, only look."""
        pull = self._find(run, policy, sha)
        if pull.state == "closed":
            return CLOSED
        if pull.merges_by is not None or pull.state == "merged":
            return FOR_CI
        if not note.may_call(grant["grant_id"]):
            raise NoRepair("The grant of auto-merge was consumed, and it is off. Nobody may turn it on now.")
        if note.has_called(grant["grant_id"]):
            raise NoRepair("Somebody turned auto-merge off at the code host.")
        self.service.renew(run)  # Refused if the run was cancelled or stopped meanwhile.
        try:
            self.host.turn_on(branch_of(run), policy.base_branch, sha, policy.merge_method)
        except HostRefused as refused:
            if refused.final:
                raise NoRepair(str(refused)) from refused
            raise
        note.called(grant["grant_id"])
        self.say(f"{run['run_id']} turned the host's auto-merge on at {pull.url}")
        return FOR_CI


def _named(checks: list[str]) -> str:
    """The names of checks from the contract, the first ten."""
    return ", ".join(checks[:_MOST_NAMED])
