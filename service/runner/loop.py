"""The loop: the next step of a run follows from the service, the remote and the code host. A crash loses nothing.

Nothing here remembers a step. Every turn reads the run and takes the one missing step. The sealed note has the
rest: the commit, and the permission for the one call.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from service.runner.access import Repository, Unsuitable
from service.runner.answers import Json
from service.runner.bounds import Policy, read_policy
from service.runner.change import KeptChange, Notes, RunNote
from service.runner.child import Heartbeat
from service.runner.files import NotPlain
from service.runner.git import GitFailed
from service.runner.merging import PROVEN_ON, Merging, draft_grant, is_merged_by_host, observed
from service.runner.pull import Draft, HostRefused, Pull, Story, describe
from service.runner.repair import BY_HOST, FOR_PEOPLE, NoRepair, RepairJob, RepairPlace, branch_of, judge_again, make
from service.runner.service_calls import Service, ServiceRefused
from service.runner.web import GaveUp

MAX_ATTEMPTS = 3
MAX_REASON = 2000
MAX_EVIDENCE_FILES = 20
TEMPO = (1.0, 2.0, 4.0, 8.0, 10.0)

_ANOTHERS = "is another runner's. That one goes on, or its lease ends, or an owner cancels the run."
_APPROVED_OTHERWISE = "A person approved another commit than the one that is in this checkout."
HOPELESS = frozenset(
    {"scope_violation", "budget_exhausted", "delivery_mode_mismatch", "approval_rejected", "duplicate_patch"}
)
"""Refusals for a person to look at. No other attempt in the run betters them."""


class Stopped(Exception):
    """The runner leaves a run as it is."""


class Escalated(Exception):
    """The run was handed to a person."""


class Delivery(NamedTuple):
    """A change that this start may deliver: as it was kept, its objects, and what was granted."""

    kept: KeptChange
    packed: bytes
    binding: Json


class RunnerSettings(NamedTuple):
    """How this runner works."""

    turns: int
    cost_usd: float
    asks: bool
    names_error: bool
    renew_seconds: float
    checks_seconds: float
    say: Callable[[str], None]


class Runner:
    """Works the runs of one automation, in one checkout."""

    def __init__(
        self,
        services: tuple[Service, Service],
        repository: Repository,
        work: RepairPlace,
        notes: Notes,
        settings: RunnerSettings,
    ) -> None:
        """`services` is the service, patiently, and for the heartbeat of a program that cannot wait."""
        self._service, self._beats = services
        self._repository = repository
        self._work = work
        self._notes = notes
        self._settings = settings

    def work(self) -> bool:
        """Go on with every open run, or begin one. False if one of them stopped short. Raises GaveUp."""
        runs = self._service.open_runs()
        self._notes.forget({run["run_id"] for run in runs})
        runs = [run for run in runs if not self._is_left_alone(run)]
        if all(_waits_for(run) for run in runs):
            begun = self._begin()
            runs += [begun] if begun else []
        if not runs:
            self._settings.say("Nothing to do.")
        well = True
        for run in runs:
            well = self._carry(run) and well
        return well

    def _is_left_alone(self, run: Json) -> bool:
        """Whether another runner is at work on a run, of which this checkout knows nothing: its claim is not ours."""
        if _waits_for(run) or draft_grant(run) is not None or self._notes.knows(run["run_id"]):
            return False
        case = {"case_id": run["case_id"], "case_revision": run["case_revision"]}
        try:
            self._service.claim({"receipt_id": run["trigger_receipt_id"], "case": case})
        except ServiceRefused as refused:
            if not refused.outdated:
                raise
            self._settings.say(f"{run['run_id']} {_ANOTHERS}")
            return True
        return False

    def _begin(self) -> Json | None:
        """Claim the case of a receipt and start its run. Both may be repeated: there is one claim and one run."""
        for receipt in self._service.receipts():
            if receipt["case"] is None:
                continue
            claim = None
            try:
                claim = self._service.claim(receipt)
                return self._service.start(receipt)
            except ServiceRefused as refused:
                if not refused.outdated:
                    raise
                self._settings.say(f"{receipt['receipt_id']} {refused}")
                if claim is not None and refused.code != "receipt_already_consumed":
                    self._give_back(claim)
        return None

    def _give_back(self, claim: Json) -> None:
        try:
            self._service.release(claim, "The run could not be started.")
        except ServiceRefused as refused:
            self._settings.say(f"{claim['claim_id']} {refused}")

    def _carry(self, run: Json) -> bool:
        """Take steps until the run needs no more of this runner. False if it stopped short."""
        say = self._settings.say
        try:
            say(f"{run['run_id']} {self._until_it_waits(run)}")
        except (
            ServiceRefused,
            Stopped,
            Escalated,
            GitFailed,
            HostRefused,
            Unsuitable,
            NotPlain,
            ValueError,
        ) as stopped:
            say(f"{run['run_id']} {stopped}")
            return False
        return True

    def _until_it_waits(self, run: Json) -> str:
        last: tuple[Any, ...] = ()
        while True:
            try:
                waits_for = self._step(run)
            except NoRepair as none:
                self._escalate(run, str(none))
            except ServiceRefused as refused:
                if not refused.outdated:
                    raise
                if refused.code in HOPELESS:
                    self._escalate(run, _because(refused))
                # The state is another one than we supposed: read it, and decide again. Once for each state.
                run = self._service.run(run["run_id"])
                place = (run["state_revision"], run["phase"], refused.code)
                if run["finished_at"] is None and place == last:
                    raise
                last = place
                continue
            if waits_for is not None:
                return waits_for
            run = self._service.run(run["run_id"])

    def _step(self, run: Json) -> str | None:
        """Take the next step of a run. Returns the reason to wait, or None to go on."""
        if run["finished_at"] is not None:
            raise Stopped(f"ended as {run['status']}")
        waits_for = _waits_for(run)
        if waits_for is not None:
            return waits_for
        if run["phase"] == "human_review":
            return self._await_person(run)
        note = self._notes.of(run["run_id"])
        if run["status"] == "draft_pr_opened":
            _, policy = self._policy(run)
            settings = self._settings
            merging = Merging(self._service, self._repository.host, settings.checks_seconds, settings.say)
            return merging.step(run, policy, note, self._heartbeat(run))
        grant = draft_grant(run)
        return self._prepare(run, note) if grant is None else self._deliver(run, grant, note)

    # ---- before the grant

    def _prepare(self, run: Json, note: RunNote) -> str | None:
        """Charge, repair, ask a person where one is wanted, and authorize the pull request."""
        self._service.renew(run)
        kept = note.kept
        if kept is None:
            return self._repair(run, note)
        change = kept.change
        asked = [one for one in run["approvals"] if one["action"] == "draft_pr"]
        if asked and asked[-1]["status"] in ("rejected", "expired", "cancelled"):
            raise NoRepair("A person did not approve the change.")
        if asked and _approved_head(asked[-1]) not in (None, change["head_sha"]):
            raise NoRepair(_APPROVED_OTHERWISE)
        if not asked and self._settings.asks:
            evidence = {
                "head_sha": change["head_sha"],
                "files_changed": change["files_changed"][:MAX_EVIDENCE_FILES],
                "changed_files": len(change["files_changed"]),
                "changed_lines": change["changed_lines"],
                "tests_passed": len(change["tests"]),
                "diff": kept.diff,
            }
            body = {"action": "draft_pr", "summary": change["title"], "evidence": evidence}
            self._service.step(run, "POST", "/approvals", body)
            self._settings.say(f"{run['run_id']} asked a person to approve")
            return None
        self._service.step(run, "POST", "/actions/draft-pr/authorize", change)
        return None

    def _policy(self, run: Json) -> tuple[Json, Policy]:
        """Read the policy, and hold it to the repository before anything is done by it. Raises Unsuitable."""
        told = self._service.policy(run)
        policy = read_policy(told, run["policy_sha256"])
        self._repository.check(policy)
        return told, policy

    def _repair(self, run: Json, note: RunNote) -> str | None:
        """Charge for one attempt, and make it. An unused charge is not repeated."""
        told, policy = self._policy(run)
        if policy.mode not in (FOR_PEOPLE, BY_HOST):
            raise NoRepair("The contract delivers in a way that this runner does not know.")
        turns = self._settings.turns
        note.settle(run["charges"]["turns"] // turns)
        if note.attempts >= MAX_ATTEMPTS:
            raise NoRepair(f"{MAX_ATTEMPTS} attempts were broken off.")
        seconds = self._seconds(run)
        if run["charges"]["turns"] < (note.attempts + 1) * turns:
            cost = {"cost_usd": self._settings.cost_usd} if self._settings.cost_usd else {}
            charge = {"turns": turns, "runtime_seconds": seconds, "label": "repair", **cost}
            note.begin_charge()
            self._service.step(run, "POST", "/usage", charge)
            return None
        case = self._service.case(run)
        base = self._work.store.head(self._work.remote, policy.base_branch)
        if base is None:
            raise GitFailed(f"The remote has no branch {policy.base_branch}.")
        self._settings.say(f"{run['run_id']} repairs {run['case_id']} on {base[:12]}")
        job = RepairJob(run, told, policy, case, base, seconds)
        change = make(self._work, job, note, self._heartbeat(run))
        what = f"{len(change['files_changed'])} files, {change['changed_lines']} lines"
        self._settings.say(f"{run['run_id']} committed {change['head_sha'][:12]}: {what}")
        return None

    def _seconds(self, run: Json) -> int:
        """The seconds of one attempt. By default all attempts together fit into the contract's time."""
        wanted = self._work.order.seconds or run["limits"]["max_runtime_seconds"] // MAX_ATTEMPTS
        return int(max(1, min(wanted, run["limits"]["max_runtime_seconds"])))

    def _heartbeat(self, run: Json) -> Heartbeat:
        def beat() -> None:
            try:
                self._beats.renew(run)
            except GaveUp as late:
                self._settings.say(f"{run['run_id']} could not renew its lease yet: {late}")

        return Heartbeat(beat, self._settings.renew_seconds)

    def _await_person(self, run: Json) -> str | None:
        """Wait until nobody has to decide any more, and keep the lease meanwhile."""
        heartbeat = self._heartbeat(run)
        beaten = time.monotonic()
        tempo = iter(TEMPO)
        pause = next(tempo)
        while run["phase"] == "human_review" and run["finished_at"] is None:
            if time.monotonic() - beaten >= heartbeat.seconds:
                heartbeat.beat()
                beaten = time.monotonic()
            asked_at = time.monotonic()
            latest, told = self._service.changed_run(run, heartbeat.seconds)
            asked_for = time.monotonic() - asked_at
            if latest["state_revision"] == run["state_revision"] and asked_for < min(pause, heartbeat.seconds):
                time.sleep(min(told or pause, heartbeat.seconds))
                pause = next(tempo, TEMPO[-1])
            run = latest
        return None

    # ---- the grant and its one call

    def _deliver(self, run: Json, grant: Json, note: RunNote) -> str | None:
        """Use the grant once: push the branch, open the pull request, report it. Without permission, only look."""
        binding = grant["binding"]
        kept = note.kept
        if kept is not None and kept.change["head_sha"] != binding["head_sha"]:
            kept = None
        if grant["status"] == "authorized":
            if kept is None:
                raise Stopped("has a grant for another runner's commit. That one goes on, or the lease ends the run.")
            self._service.renew(run)
            body = {"grant_id": grant["grant_id"]}
            if self._service.step(run, "POST", "/actions/draft-pr/consume", body).get("call_authorized") is True:
                note.allow_call(grant["grant_id"])
            return None
        self._service.renew(run)
        _, policy = self._policy(run)
        delivery = None
        if kept is not None and note.may_call(grant["grant_id"]):
            delivery = Delivery(kept, note.packed(), binding)
        pull = self._pull(run, policy, delivery)
        if pull.head_sha not in (None, binding["head_sha"]):
            raise NoRepair("The pull request of this branch has another commit than the granted one.")
        opened = {"number": pull.number, "url": pull.url, "head_sha": binding["head_sha"]}
        self._service.step(run, "PATCH", "", {"status": "draft_pr_opened", "pull_request": opened})
        self._settings.say(f"{run['run_id']} opened {pull.url}")
        return None

    def _pull(self, run: Json, policy: Policy, delivery: Delivery | None) -> Pull:
        """Find the one pull request, or open it if this start may. Raises NoRepair."""
        host = self._repository.host
        branch, base = branch_of(run), policy.base_branch
        found = host.find(branch, base)
        if found is not None:
            return found
        if delivery is None:
            raise NoRepair("The grant was consumed, and there is no pull request. Nobody may open it now.")
        change = delivery.kept.change
        story = Story(run, self._case_to_name(run), delivery.kept.reason, self._service.pages)
        pushed = self._work.store.head(self._work.remote, branch)
        if pushed is None:
            self._push(run, policy, delivery)
        elif pushed != change["head_sha"]:
            raise NoRepair("The branch of this run has another commit at the code host.")
        self._service.renew(run)  # Refused if the run was cancelled or stopped meanwhile.
        try:
            ready = policy.mode == BY_HOST
            text = describe(story, change, by_host=ready)
            return host.open(Draft(branch, base, change["head_sha"], change["title"], text, ready=ready))
        except HostRefused as refused:
            if refused.final:
                raise NoRepair(str(refused)) from refused
            raise

    def _case_to_name(self, run: Json) -> Json | None:
        """The case as it counts now. None where the error is to stay unnamed, or the case cannot be read any more."""
        if self._settings.names_error:
            with suppress(ServiceRefused):
                return self._service.case(run)
        return None

    def _push(self, run: Json, policy: Policy, delivery: Delivery) -> None:
        """Judge the commit once more, in a new store, and push it from there. Raises NoRepair, GitFailed."""
        branch, sha = branch_of(run), delivery.kept.change["head_sha"]
        store, remote = self._work.store, self._work.remote
        with store.objects(remote, policy.base_branch, delivery.kept.base) as objects:
            objects.unpack(delivery.packed)
            judge_again(objects, policy, run, delivery.kept, delivery.binding)
            try:
                objects.push(branch, sha)
            except GitFailed:
                if store.head(remote, branch) != sha:
                    raise

    def _escalate(self, run: Json, reason: str) -> None:
        """Hand the run to a person, and say so. Raises Escalated."""
        status = "escalated"
        for attempt in range(MAX_ATTEMPTS):
            latest = self._service.run(run["run_id"])
            if latest["finished_at"] is not None:
                break
            try:
                self._service.step(latest, "PATCH", "", {"status": status, "reason": reason[:MAX_REASON]})
            except ServiceRefused as refused:
                if not refused.outdated or attempt == MAX_ATTEMPTS - 1:
                    raise
                # A person may have refused even that the run is handed over.
                status = "failed" if refused.code == "approval_rejected" else status
            else:
                break
        raise Escalated(f"{status}: {reason}")


def _because(refused: ServiceRefused) -> str:
    """A refusal in words, with the address of the other pull request where there is one."""
    other = refused.details.get("pr_url")
    return f"{refused} The other one is {other}" if isinstance(other, str) else str(refused)


def _approved_head(approval: Json) -> Any:
    """The commit that a person saw. None: the request named none."""
    evidence = approval.get("evidence")
    return evidence.get("head_sha") if isinstance(evidence, dict) else None


def _waits_for(run: Json) -> str | None:
    """The reason to leave a run alone. None while there is something to do."""
    if run["case_id"] is None:
        return "has no case, and so nothing to repair"
    if run["status"] == "draft_pr_opened" and not is_merged_by_host(run):
        return "waits for CI to prove the pull request and to record the deploy"
    if run["status"] == "draft_pr_opened" and observed(run) in PROVEN_ON:
        return "waits for CI to prove the merge and to record the deploy"
    return "waits for the service to verify the deploy" if run["status"] == "verifying" else None
