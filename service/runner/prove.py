"""The command `service-prove`: CI tells the service what the code host says of a repair's pull request.

It reads, and sends what it has read in the order that the service wants. Nothing here changes anything at the host.
"""

import argparse
import os
import re
import sys
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple, NoReturn
from urllib.parse import quote

from service.runner.access import AskedRepository, Unsuitable, make_facing, take_tokens
from service.runner.answers import Json
from service.runner.ci_service import ID_TOKEN, STORED, CiService, take_credentials
from service.runner.facts import Facing, PullFacts, branches_of, is_of_repository
from service.runner.git import GitFailed, GitRemote, Store
from service.runner.pull import PENDING, HostRefused, Pull, say
from service.runner.web import GaveUp, JsonAnswer

DONE, FAILED = 0, 1
CREATED, CONFLICT = (200, 201), 409
TEMPO = (1.0, 2.0, 5.0, 10.0, 15.0)
RECENT = timedelta(days=1)
OURS = re.compile(r"repair/(run_[0-9a-z]{1,60})")
LIKE_OURS = "repair/run_"
_OBSERVATIONS = "/pull-request-observations"
_ELSEWHERE = "another repository"
BY_HOST = "auto_merge"
_IDS = ("tree_sha", "patch_id")
_NULLABLE = ("branch_protection_enforced", "bypass_used")
_CHANGED = {
    "head_sha": "People have pushed to it. If they merge it so, its run ends, and the change is theirs.",
    "draft": "People have marked it as ready. If no job had proven it before, mark it as a draft and start this again.",
}
"""What people did to an open pull request, by the member that differs from the granted or proven one."""
_TOO_EARLY = "People merged it before a job had proven it open. Nothing proves it now: an owner cancels the run."
_SETTLED = frozenset({"run_terminal", "delivery_mode_mismatch"})
_DESCRIPTION = """\
Reads pull requests of repairs at the code host, and sends the service what it has read: opened, checks passed,
auto-merge on, merged, closed, reopened. A fact that the token may not read is sent as null. With a project it first
tells of each pull request whose branch is named like a repair, so that the service finds those that nobody granted.
"""
_ENDING = f"""\
environment:
  SERVICE_URL         address of the service
  SERVICE_PROJECT_ID  the project, for the exchange of the job's own token
  {ID_TOKEN}    that token at GitLab; at GitHub the job asks for one (id-token: write)
  {STORED}  CI credential of the project, where no token is exchanged
  GITHUB_TOKEN        token that may read at GitHub
  GITLAB_TOKEN        the same for GitLab; each goes to its host alone

exit codes: 0 what there is to prove is proven; 1 it was refused, or a wait ended, and the last line says why
"""


class NotTaken(Exception):
    """The service refused a proof. `is_harmless`: the run is over, or people merge this one and have pushed to it."""

    def __init__(self, observation: str, code: str, said: str, field: str | None) -> None:
        changed = (observation, code) == ("pr_opened", "pr_proof_mismatch")
        self.is_harmless = changed or code in _SETTLED
        why = _CHANGED.get(field or "", "") if changed else ""
        if (observation, code) == ("merged", "pr_proof_required"):
            why = _TOO_EARLY
        told = f"{observation} was refused: {code}: {said}{f' ({field})' if field else ''} {why}"
        super().__init__(told.strip())


class ProofStopped(Exception):
    """There is nothing to prove any more, and auto-merge may not go on."""


class Ungranted(Exception):
    """The service knows of nobody who granted a pull request."""


class Prover(NamedTuple):
    """The service, the code host, git, the repository's address, CI's own check, and the longest wait.

    Without the project, nothing is observed before it is proven.
    """

    service: CiService
    host: Facing
    remote: GitRemote
    repository: str
    gate: str
    seconds: float
    project_id: str | None

    def observe(self, pull: Pull) -> Json:
        """Tell the service that there is this pull request, whoever opened it. Returns git's ids of its change.

        Reading them takes time that whoever pushed can stretch, so the service learns of the head before.
        Raises NotTaken, Ungranted, GaveUp.
        """
        if self.project_id is None or pull.head_sha is None:
            return self._ids(pull)
        told = self._tell(self.project_id, pull, {})
        ids = {name: told["pull_request"][name] for name in _IDS if told["pull_request"][name] is not None}
        if not ids and (ids := self._ids(pull)):
            told = self._tell(self.project_id, pull, ids)
        if told["pull_request"]["verdict"] == "ungranted":
            off = ", ".join(told["automations_disabled"]) or "none"
            raise Ungranted(f"was granted to nobody. Automations that are off now: {off}.")
        return ids

    def _ids(self, pull: Pull) -> Json:
        """Git's ids of the tree and of the change. Nothing of a fork, nor where git cannot read them."""
        if pull.head_sha is None or not is_of_repository(pull):
            return {}
        with tempfile.TemporaryDirectory(prefix="service-prove-") as place:
            try:
                told = Store(Path(place), None).names(self.remote, branches_of(pull)[1], pull.head_sha)
            except GitFailed as failed:
                say(f"{pull.url} is told without its tree: {failed}")
                return {}
        return {name: value for name, value in zip(_IDS, told, strict=True) if value is not None}

    def _named(self, pull: Pull) -> Json:
        """What every observation says of a pull request."""
        head, base = branches_of(pull)
        return {
            "repository": self.repository,
            "pr_number": pull.number,
            "pr_url": pull.url,
            "head_branch": head,
            "base_branch": base,
            "head_sha": pull.head_sha,
        }

    def _tell(self, project_id: str, pull: Pull, ids: Json) -> Json:
        """Send one observation. Raises NotTaken, GaveUp."""
        body = {
            **self._named(pull),
            "head_repository": self.repository if is_of_repository(pull) else _ELSEWHERE,
            "state": pull.state,
            **ids,
        }
        answer = self.service.ask("POST", f"/v1/projects/{quote(project_id, safe='')}{_OBSERVATIONS}", body)
        if answer.status not in CREATED:
            raise _refused("observation", answer)
        told: Json = answer.body
        return told

    def prove(self, pull: Pull, ids: Json, *, waits: bool) -> None:
        """Prove what the pull request is now, and with `waits` what becomes of it. Raises NotTaken, ProofStopped."""
        if pull.state == "merged":
            self._send(pull, ids, "merged", self._merged(pull))
        elif pull.state == "closed":
            moves = self.host.moves(pull)
            who = next((move.who for move in reversed(moves or []) if move.state == "closed" and move.who), None)
            self._send(pull, ids, "closed", {"merged": False} | ({"closed_by": who[:200]} if who else {}))
        else:
            self._prove_open(pull, ids, waits=waits)

    def _prove_open(self, pull: Pull, ids: Json, *, waits: bool) -> None:
        moves = self.host.moves(pull)
        if moves and moves[-1].state == "reopened":
            self._send(pull, ids, "reopened", self._seen(pull, self._facts(pull)))
            return
        if pull.merges_by is None:
            run = self._send(pull, ids, "pr_opened", self._seen(pull, self._facts(pull)) if pull.draft else {})
            if pull.draft or run["pull_request"]["delivery_mode"] != BY_HOST:
                return
            passed = self._await_checks(pull) if waits else self._passed(pull)
            if passed is None:
                return
            self._send(pull, ids, "checks_passed", self._seen(pull, passed) | {"auto_merge_enabled": False})
            if not waits:
                return
            pull = self._await_auto_merge(pull)
        facts = self._facts(pull)
        on: Json = {"auto_merge_enabled": True, "merge_method": facts.method}
        self._send(pull, ids, "auto_merge_enabled", self._seen(pull, facts) | on)

    def _facts(self, pull: Pull) -> PullFacts:
        return self.host.facts(pull, self.gate)

    @staticmethod
    def _seen(pull: Pull, facts: PullFacts) -> Json:
        """The facts that every observation carries, as they were read."""
        seen: Json = {"branch_protection_enforced": facts.protected, "bypass_used": facts.bypassed}
        if not pull.draft and facts.checks is not None and all(facts.checks.values()):
            seen["required_status_checks"] = [{"name": name, "conclusion": how} for name, how in facts.checks.items()]
        return seen

    def _merged(self, pull: Pull) -> Json:
        seen = self._seen(pull, self._facts(pull)) | {"merge_commit_sha": self.host.merge_commit(pull)}
        commits = self.host.commits(pull)
        return seen if commits is None else seen | {"commits": commits}

    def _passed(self, pull: Pull) -> PullFacts | None:
        """The facts, once every required check has succeeded. Raises ProofStopped for one that ended otherwise."""
        facts = self._facts(pull)
        checks = facts.checks
        if checks is None:
            raise ProofStopped("The token cannot read which checks are required, or how they ended.")
        if red := [f"{name} ({how})" for name, how in checks.items() if how not in (PENDING, "success")]:
            raise ProofStopped(f"These required checks did not succeed: {', '.join(red[:10])}.")
        return facts if checks and all(checks.values()) else None

    def _await_checks(self, pull: Pull) -> PullFacts:
        """Wait until every required check has succeeded. Raises ProofStopped."""
        pauses = _Pauses(self.seconds)
        while (passed := self._passed(pull)) is None:
            pauses.rest(f"The required checks did not end within {self.seconds:g} s.")
        return passed

    def _await_auto_merge(self, pull: Pull) -> Pull:
        """Hold the merge back until the runner has turned auto-merge on. Raises ProofStopped."""
        say(f"{pull.url} is ready, and waits for the runner to turn auto-merge on")
        pauses = _Pauses(self.seconds)
        while True:
            found = self.host.find(*branches_of(pull))
            if found is None or found.state != "open" or found.head_sha != pull.head_sha:
                raise ProofStopped("The pull request was changed, closed or merged before auto-merge was on.")
            if found.merges_by is not None:
                return found
            pauses.rest(f"Auto-merge was not turned on within {self.seconds:g} s.")

    def _send(self, pull: Pull, ids: Json, observation: str, facts: Json) -> Json:
        """Send one observation; returns the run after it. Raises NotTaken, GaveUp."""
        ours = OURS.fullmatch(branches_of(pull)[0])
        assert ours is not None, "the name of the branch was matched before"
        body = {"observation": observation, **self._named(pull), "draft": pull.draft, **ids, **facts}
        told = {name: value for name, value in body.items() if value is not None or name in _NULLABLE}
        path = f"/v1/automation-runs/{quote(ours[1], safe='')}/pr-proof"
        answer = self.service.ask("POST", path, told)
        if answer.status in CREATED:
            say(f"{ours[1]} {observation} is proven")
            run: Json = answer.body["run"]
            return run
        raise _refused(observation, answer)


def _refused(observation: str, answer: JsonAnswer) -> NotTaken:
    """The refusal of an observation by its answer."""
    error = answer.body.get("error") if isinstance(answer.body, dict) else None
    error = error if isinstance(error, dict) else {}
    code = str(error.get("code", f"http_{answer.status}"))
    details = error["details"] if isinstance(error.get("details"), dict) else {}
    field = details.get("field", details.get("pr_url"))
    return NotTaken(observation, code, str(error.get("message", "")), field if isinstance(field, str) else None)


class _Pauses:
    """Growing pauses until a wait is over."""

    def __init__(self, seconds: float) -> None:
        self._ends = time.monotonic() + seconds
        self._tempo = iter(TEMPO)

    def rest(self, otherwise: str) -> None:
        """Wait a little. Raises ProofStopped with these words once the time is over."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise ProofStopped(otherwise)
        time.sleep(min(left, next(self._tempo, TEMPO[-1])))


def prove_all(prover: Prover, pulls: list[Pull], *, waits: bool) -> bool:
    """Prove each pull request of a repair. False if one of them stopped short."""
    well = True
    for pull in pulls:
        try:
            ids = prover.observe(pull)
            if OURS.fullmatch(branches_of(pull)[0]) and is_of_repository(pull):
                prover.prove(pull, ids, waits=waits)
        except (NotTaken, ProofStopped, Ungranted, HostRefused) as failed:
            say(f"{pull.url} {failed}")
            harmless = (
                failed.is_harmless if isinstance(failed, NotTaken) else isinstance(failed, ProofStopped) and not waits
            )
            well = well and harmless
    return well


def _is_recent(pull: Pull) -> bool:
    changed = datetime.fromisoformat(pull.told["updated_at"])
    return datetime.now(changed.tzinfo) - changed < RECENT


def make_parser() -> argparse.ArgumentParser:
    """The arguments."""
    parser = argparse.ArgumentParser(
        prog="service-prove",
        description=_DESCRIPTION,
        epilog=_ENDING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    github = _given("GITHUB_SERVER_URL"), _given("GITHUB_REPOSITORY")
    web = _given("CI_PROJECT_URL") or (f"{github[0]}/{github[1]}" if all(github) else None)
    add = parser.add_argument
    add("--repository", metavar="URL", default=web, help="address of the repository (default: told by CI)")
    add("--remote", metavar="URL", help="its address for git (default: that of the repository)")
    add("--project", metavar="ID", default=_given("SERVICE_PROJECT_ID"),
        help="project that is told of each pull request, granted or not (default: $SERVICE_PROJECT_ID)")  # fmt: skip
    add("--host", choices=["github", "gitlab"], help="the code host (default: told by the address)")
    add("--host-api", metavar="URL", help="address of the host's interface (default: told by CI)")
    add("--branch", metavar="NAME", default=_given("GITHUB_HEAD_REF", "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME"),
        help="branch of one repair (default: told by CI, or all that changed within a day)")  # fmt: skip
    add("--base", metavar="NAME", default=_given("GITHUB_BASE_REF", "CI_MERGE_REQUEST_TARGET_BRANCH_NAME") or "main",
        help="the branch that it is for (default: told by CI)")  # fmt: skip
    add("--wait", metavar="SECONDS", type=int, default=0,
        help="in auto_merge, wait so long for the checks, and then for auto-merge")  # fmt: skip
    add("--gate", metavar="NAME", default=_given("CI_JOB_NAME", "GITHUB_JOB") or "prove",
        help="name of the check that this command is (default: told by CI)")  # fmt: skip
    return parser


def _given(*names: str) -> str | None:
    """The first variable that CI has set."""
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def main() -> NoReturn:
    """Prove, and exit."""
    parser = make_parser()
    given = parser.parse_args()
    url, taken = os.environ.get("SERVICE_URL"), take_credentials()
    if not (url and taken.any and given.repository):
        parser.error(f"SERVICE_URL, --repository, and a token of the job or {STORED} are needed")
    try:
        host, remote = make_facing(
            given.remote, AskedRepository(given.repository, given.host, given.host_api), take_tokens()
        )
        service = CiService(url, given.project, taken)
        prover = Prover(service, host, remote, given.repository, given.gate, given.wait, given.project)
        if given.branch:
            found = host.find(given.branch, given.base) if given.branch.startswith(LIKE_OURS) else None
            pulls = [found] if found else []
        else:
            pulls = [one for one in host.recent() if branches_of(one)[0].startswith(LIKE_OURS) and _is_recent(one)]
        well = prove_all(prover, pulls, waits=bool(given.branch and given.wait))
    except (GaveUp, Unsuitable, HostRefused) as failed:
        say(str(failed))
        sys.exit(FAILED)
    sys.exit(DONE if well else FAILED)


if __name__ == "__main__":
    main()
