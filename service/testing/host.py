"""The code host of every world: one repository with pull requests, over the interfaces of GitHub and GitLab.

Behind both stands a bare git repository. Its base branch is protected: by itself the host merges only a pull request
that is no draft, and whose head has passed every required check.
"""

import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple
from urllib.parse import unquote

from service.testing.loopback import Given, Heard, LoopbackServer
from service.testing.shop import BASE, NAME, OWNER, WEB, plain_git

SUCCESS = "success"
_OK, _CREATED, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _NOT_ALLOWED = 200, 201, 401, 403, 404, 405
_CONFLICT, _INVALID = 409, 422
_IDENTITY = ("-c", "user.name=Code host", "-c", "user.email=host@example.invalid")
Told = tuple[int, Any]
"""Status and JSON of an answer."""


class HostVisit(NamedTuple):
    """A request to the code host, and the status of its answer."""

    asked: Heard
    status: int


@dataclass(eq=False)
class PullRequest:
    """A pull request. `merges_by` is the method of its auto-merge, `sha` the head that was seen last."""

    number: int
    title: str
    head: str
    sha: str
    body: str | None
    draft: bool
    state: Literal["open", "closed", "merged"] = "open"
    merges_by: str | None = None
    merged_by: str | None = None
    merge_commit: str | None = None
    changed_at: str = ""


class CodeHost:
    """What both hosts are. `required` are the checks of the protected branch, `ended` how they end at every head.

    `merges_at_once`: auto-merge may be turned on when nothing holds the merge back. `held`: something no check shows
    holds every merge back. `hidden`: words of paths that the token may not read.
    """

    first = 1
    """The number of the first pull request."""

    def __init__(self, bare: Path, token: str, *, required: Iterable[str] = (), web: str = WEB) -> None:
        self.bare, self.web = bare, web
        self.pulls: list[PullRequest] = []
        self.visits: list[HostVisit] = []
        self.required = list(required)
        self.ended: dict[str, str] = {}
        self.protected = True
        self.held = self.bypassed = self.merges_at_once = False
        self.hidden: set[str] = set()
        self.moves: list[tuple[str, str]] = []
        self.turned_on = 0
        self.merged: list[str] = []
        self.url = ""
        self._token = token
        self._ended_at: dict[str, dict[str, str]] = {}
        self._environment = plain_git(os.environ)
        self._lock = threading.RLock()
        self._listener: LoopbackServer | None = None

    # ---- its door

    def listen(self) -> str:
        """Listen on loopback. Returns the address."""
        self._listener = LoopbackServer(self.answer)
        self.url = self._listener.url
        return self.url

    def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._listener.close()

    def answer(self, asked: Heard) -> Given:
        """Answer a request, and remember it."""
        with self._lock:
            given = self.respond(asked)
            self.visits.append(HostVisit(asked, given.status))
        return given

    def respond(self, asked: Heard) -> Given:
        """Answer one request after another. Merges afterwards whatever is due."""
        if not self.allowed(asked.headers):
            return Given.of(_UNAUTHORIZED, {"message": "Bad credentials"})
        if any(word in asked.path for word in self.hidden):
            return Given.of(_FORBIDDEN, {"message": "Resource not accessible"})
        self.refresh()
        status, told = self.tell(asked.method, unquote(asked.path), asked.parameters, asked.json())
        given = Given.of(status, told)
        self.settle()
        return given

    def allowed(self, headers: dict[str, str]) -> bool:
        """Whether a request has the token."""
        raise NotImplementedError

    def tell(self, method: str, path: str, query: dict[str, str], body: Any) -> Told:
        """The answer in the form of the host."""
        raise NotImplementedError

    # ---- its repository

    def git(self, *arguments: str, where: Path | None = None, check: bool = True) -> str:
        """Run git in the bare repository, or elsewhere. Returns what it printed."""
        command = ["git", *_IDENTITY, "-C", str(where or self.bare), *arguments]
        done = subprocess.run(command, env=self._environment, check=check, capture_output=True, text=True)
        return done.stdout.strip()

    def branch(self, name: str) -> str | None:
        """The commit of a branch."""
        return self.git("rev-parse", "--verify", "--quiet", f"refs/heads/{name}", check=False) or None

    def refresh(self) -> None:
        """See what was pushed. A pull request that has ended keeps its head."""
        for pull in self.pulls:
            if pull.state == "open":
                pull.sha = self.branch(pull.head) or pull.sha

    def commits_of(self, pull: PullRequest) -> list[str]:
        """The commits that a squash leaves out, oldest first."""
        return self.git("rev-list", "--reverse", f"{BASE}..{pull.sha}").split()

    # ---- its pull requests

    def open(self, head: str, title: str, body: str | None, *, draft: bool) -> PullRequest:
        """Open a pull request of a branch that was pushed."""
        sha = self.branch(head)
        assert sha is not None, f"{head} was not pushed"
        number = self.first + len(self.pulls)
        self.pulls.append(PullRequest(number, title, head, sha, body, draft, changed_at=now()))
        return self.pulls[-1]

    def is_open(self, head: str) -> bool:
        """Whether a branch has an open pull request."""
        return any(pull.head == head and pull.state == "open" for pull in self.pulls)

    def numbered(self, number: str) -> PullRequest | None:
        """The pull request with a number."""
        return next((pull for pull in self.pulls if str(pull.number) == number), None)

    def checks_of(self, sha: str) -> dict[str, str]:
        """How each check of a commit has ended, "" where one has not."""
        own = {**self.ended, **self._ended_at.get(sha, {})}
        return {name: own.get(name, "") for name in dict.fromkeys([*self.required, *own])}

    def end_check(self, sha: str, name: str, conclusion: str) -> None:
        """End a check of one commit."""
        self._ended_at.setdefault(sha, {})[name] = conclusion

    def passed(self, sha: str) -> bool:
        """Whether a commit has passed every required check."""
        return all(self.checks_of(sha)[name] == SUCCESS for name in self.required)

    def obstacle(self, pull: PullRequest) -> str | None:
        """What keeps the host from merging."""
        if pull.draft:
            return "it is a draft"
        if not self.passed(pull.sha):
            return "a required check has not passed"
        return "it is held" if self.held else None

    def settle(self) -> None:
        """Merge each pull request with auto-merge and without an obstacle."""
        for pull in self.pulls:
            if pull.state == "open" and pull.merges_by is not None and self.obstacle(pull) is None:
                self.merge_by(pull, pull.merges_by)

    def merge_by(self, pull: PullRequest, method: str) -> str:
        """Merge by a method, whatever the rules say. Returns the commit."""
        title = f"{pull.title} (#{pull.number})"
        with tempfile.TemporaryDirectory(prefix="merge-") as directory:
            clone = Path(directory)
            self.git("clone", "--quiet", "--shared", "--branch", BASE, str(self.bare), str(clone))
            if method == "squash":
                self.git("merge", "--quiet", "--squash", pull.sha, where=clone)
                self.git("commit", "--quiet", "--allow-empty", "--message", title, where=clone)
            else:
                self.git("merge", "--quiet", "--no-ff", "--message", title, pull.sha, where=clone)
            self.git("fetch", "--quiet", str(clone), f"HEAD:refs/heads/{BASE}")
        commit = self.branch(BASE)
        assert commit is not None, "the base is there"
        pull.draft, pull.state, pull.merged_by, pull.merge_commit = False, "merged", method, commit
        pull.changed_at = now()
        self.merged.append(pull.head)
        return commit


def now() -> str:
    """The time in a host's form."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _missing() -> Told:
    return _NOT_FOUND, {"message": "Not Found"}


def _invalid(message: str) -> Told:
    return _INVALID, {"message": "Validation Failed", "errors": [{"message": message}]}


_REPOSITORY = {"id": 1, "full_name": NAME, "name": "shop", "default_branch": BASE, "html_url": WEB, "private": True}


class GitHubHost(CodeHost):
    """The pull requests of one repository at GitHub. `statuses` are the checks that are statuses of a commit."""

    statuses: tuple[str, ...] = ()

    def allowed(self, headers: dict[str, str]) -> bool:
        """Whether a request has the token."""
        return headers.get("authorization", "").partition(" ")[2] == self._token

    def tell(self, method: str, path: str, query: dict[str, str], body: Any) -> Told:  # noqa: PLR0911 - one return for each operation
        """The answer in the form of the host."""
        if (method, path) == ("POST", "/graphql"):
            return _OK, self._mutate(body if isinstance(body, dict) else {})
        inner = path.removeprefix(f"/repos/{NAME}").rstrip("/")
        if inner == path.rstrip("/"):
            return _missing()
        if found := re.fullmatch(r"/pulls/(\d+)(/.+)?", inner):
            pull = self.numbered(found[1])
            return _missing() if pull is None else self._on_pull(method, pull, found[2] or "", body)
        match method, inner:
            case "POST", "/pulls":
                return self._open(body)
            case "POST", "/check-runs":
                return self._end_check(body)
            case "GET", "/pulls":
                return _OK, [self._shown(pull) for pull in self.pulls if _is_meant(pull, query)]
            case "GET", _:
                read = self._read(inner, query)
                return _missing() if read is None else (_OK, read)
        return _missing()

    def _open(self, wish: Any) -> Told:
        if not isinstance(wish, dict) or not all(isinstance(wish.get(name), str) for name in ("title", "head", "base")):
            return _invalid("title, head and base are required")
        head = wish["head"].removeprefix(f"{OWNER}:")
        if wish["base"] != BASE or self.branch(head) is None:
            return _invalid("head or base is no branch of this repository")
        if self.is_open(head):
            return _invalid(f"A pull request already exists for {OWNER}:{head}.")
        opened = self.open(head, wish["title"], wish.get("body"), draft=wish.get("draft") is True)
        return _CREATED, self._shown(opened)

    def _on_pull(self, method: str, pull: PullRequest, rest: str, wish: Any) -> Told:  # noqa: PLR0911 - as above
        match method, rest:
            case "GET", "":
                return _OK, self._shown(pull)
            case "GET", "/commits":
                return _OK, [{"sha": sha} for sha in self.commits_of(pull)]
            case "GET", "/files" | "/reviews":
                return _OK, []
            case "PATCH", "" if isinstance(wish, dict):
                pull.title, pull.body = wish.get("title", pull.title), wish.get("body", pull.body)
                if pull.state != "merged" and wish.get("state") in ("open", "closed"):
                    pull.state = wish["state"]
                return _OK, self._shown(pull)
            case "PUT", "/merge":
                obstacle = self.obstacle(pull)
                if obstacle is not None or pull.state != "open":
                    return _NOT_ALLOWED, {"message": "Pull Request is not mergeable", "reason": obstacle}
                method = wish.get("merge_method", "merge") if isinstance(wish, dict) else "merge"
                return _OK, {"sha": self.merge_by(pull, method), "merged": True}
        return _missing()

    def _end_check(self, wish: Any) -> Told:
        self.end_check(wish["head_sha"], wish["name"], wish["conclusion"])
        return _CREATED, _check_run(wish["head_sha"], wish["name"], wish["conclusion"])

    def _read(self, path: str, query: dict[str, str]) -> Any:  # noqa: PLR0911 - as above
        """What is read of the repository, a branch, a commit or an issue. None: there is none."""
        match path.removeprefix("/").split("/"):
            case [""]:
                return _REPOSITORY
            case ["git", "ref" | "refs", "heads", *name]:
                sha = self.branch("/".join(name))
                return sha and {"ref": f"refs/heads/{'/'.join(name)}", "object": {"type": "commit", "sha": sha}}
            case ["branches", *name]:
                return self._branch("/".join(name))
            case ["rules", "branches", *_]:
                return []
            case ["rulesets", "rule-suites"]:
                result = "bypass" if self.bypassed else "pass"
                told = {"id": 1, "ref": query.get("ref"), "before_sha": "0" * 40, "result": result}
                return [told | {"after_sha": pull.merge_commit} for pull in self.pulls if pull.state == "merged"]
            case ["commits", sha, "check-runs"]:
                found = [one for one in self.checks_of(sha).items() if one[0] not in self.statuses]
                return {"total_count": len(found), "check_runs": [_check_run(sha, *one) for one in found]}
            case ["commits", sha, "status"]:
                return self._status(sha)
            case ["issues", _, "events"]:
                return [{"id": 1, "event": state, "actor": {"login": who}} for state, who in self.moves]
        return None

    def _branch(self, name: str) -> dict[str, Any] | None:
        sha = self.branch(name)
        if sha is None:
            return None
        protected = self.protected and name == BASE
        checks = {"enforcement_level": "everyone", "contexts": self.required if protected else []}
        told = {"enabled": protected, "required_status_checks": checks}
        return {"name": name, "commit": {"sha": sha}, "protected": protected, "protection": told}

    def _status(self, sha: str) -> dict[str, Any]:
        states = {"": "pending", SUCCESS: SUCCESS}
        ended = {name: how for name, how in self.checks_of(sha).items() if name in self.statuses}
        told = [{"id": 1, "context": name, "state": states.get(how, "failure")} for name, how in ended.items()]
        whole = {str(one["state"]) for one in told}
        state = "failure" if "failure" in whole else SUCCESS if whole == {SUCCESS} else "pending"
        return {"state": state, "sha": sha, "total_count": len(told), "statuses": told}

    def _mutate(self, wish: dict[str, Any]) -> dict[str, Any]:
        """Mark a draft as ready, or turn auto-merge on at the head that the wish expects."""
        told = wish.get("variables", {}).get("input", {})
        pull = next((one for one in self.pulls if f"PR_{one.number}" == told.get("pullRequestId")), None)
        ready = "markPullRequestReadyForReview" in str(wish.get("query", ""))
        mutation = "markPullRequestReadyForReview" if ready else "enablePullRequestAutoMerge"
        why = "There is no such pull request" if pull is None else None if ready else self._refusal(pull, told)
        if pull is None or why is not None:
            error = {"type": "UNPROCESSABLE", "path": [mutation], "message": why}
            return {"data": {mutation: None}, "errors": [error]}
        if ready:
            pull.draft = False
            return {"data": {mutation: {"pullRequest": {"number": pull.number}}}}
        method = str(told.get("mergeMethod", "MERGE"))
        pull.merges_by = method.lower()
        self.turned_on += 1
        shown = {"number": pull.number, "autoMergeRequest": {"mergeMethod": method}}
        return {"data": {mutation: {"pullRequest": shown}}}

    def _refusal(self, pull: PullRequest, told: dict[str, Any]) -> str | None:
        """Why auto-merge is not turned on. GitHub refuses it where nothing holds the merge back."""
        if told.get("expectedHeadOid") not in (None, pull.sha):
            return "The head of the pull request is not the expected one"
        if not self.protected:
            return "Pull request Protected branch rules not configured for this branch"
        if not self.merges_at_once and not self.held and self.passed(pull.sha):
            return "Pull request Pull request is in clean status"
        return None

    def _shown(self, pull: PullRequest) -> dict[str, Any]:
        number, merged = pull.number, pull.state == "merged"
        base = {"ref": BASE, "label": f"{OWNER}:{BASE}", "sha": self.branch(BASE), "repo": _REPOSITORY}
        return {
            "id": number,
            "number": number,
            "node_id": f"PR_{number}",
            "state": "open" if pull.state == "open" else "closed",
            "draft": pull.draft,
            "title": pull.title,
            "body": pull.body,
            "html_url": f"{self.web}/pull/{number}",
            "url": f"{self.url}/repos/{NAME}/pulls/{number}",
            "head": {"ref": pull.head, "label": f"{OWNER}:{pull.head}", "sha": pull.sha, "repo": _REPOSITORY},
            "base": base,
            "merged": merged,
            "merged_at": pull.changed_at if merged else None,
            "merge_commit_sha": pull.merge_commit,
            "updated_at": pull.changed_at,
            "auto_merge": None if pull.merges_by is None else {"merge_method": pull.merges_by},
            "user": {"login": "runner"},
        }


def _is_meant(pull: PullRequest, wanted: dict[str, str]) -> bool:
    state, head, base = wanted.get("state", "open"), wanted.get("head"), wanted.get("base")
    return (
        state in ("all", "open" if pull.state == "open" else "closed")
        and head in (None, pull.head, f"{OWNER}:{pull.head}")
        and base in (None, BASE)
    )


def _check_run(sha: str, name: str, ended: str) -> dict[str, Any]:
    status = "completed" if ended else "in_progress"
    return {"id": 1, "name": name, "head_sha": sha, "status": status, "conclusion": ended or None}


class GitLabHost(CodeHost):
    """The merge requests of one project at GitLab. Its job `lint` has failed, and may."""

    _STATES: ClassVar = {"": "running", "failure": "failed", "cancelled": "canceled"}
    _MERGEABLE: ClassVar = {"running": "ci_still_running", SUCCESS: "mergeable"}

    def allowed(self, headers: dict[str, str]) -> bool:
        """Whether a request has the token."""
        return headers.get("private-token") == self._token

    def tell(self, method: str, path: str, query: dict[str, str], body: Any) -> Told:
        """The answer in the form of the host."""
        inner = path.removeprefix(f"/projects/{NAME}").strip("/")
        match method, inner.split("/"):
            case "GET", ["merge_requests"]:
                return _OK, [self._shown(pull) for pull in self.pulls if _is_asked(pull, query)]
            case "POST", ["merge_requests"]:
                return self._open(body)
            case "PUT", ["merge_requests", number, "merge"] if pull := self.numbered(number):
                return self._merge(pull, body)
            case "GET", ["merge_requests", number, *rest] if pull := self.numbered(number):
                found = self._of_pull(pull, rest)
            case _, parts:
                found = self._of_project(parts)
        return (_NOT_FOUND, {"message": "404 Not Found"}) if found is None else (_OK, found)

    def _open(self, wish: dict[str, Any]) -> Told:
        source = wish["source_branch"]
        if self.branch(source) is None:
            return _INVALID, {"message": ["Source branch does not exist"]}
        if self.is_open(source):
            return _CONFLICT, {"message": ["Another open merge request already exists for this source branch: !7"]}
        draft = wish["title"].startswith("Draft:")
        return _CREATED, self._shown(self.open(source, wish["title"], wish.get("description"), draft=draft))

    def _pipeline(self, pull: PullRequest) -> str:
        """How the pipeline of a head stands."""
        checks = self.checks_of(pull.sha)
        ended = [checks[name] for name in self.required]
        if any(how not in ("", SUCCESS) for how in ended):
            return "failed"
        return "running" if "" in ended else SUCCESS

    def _of_pull(self, pull: PullRequest, rest: list[str]) -> Any:
        match rest:
            case []:
                return self._shown(pull)
            case ["commits"]:
                return [{"id": sha} for sha in reversed(self.commits_of(pull))]
            case ["resource_state_events"]:
                return [{"id": 1, "state": state, "user": {"username": who}} for state, who in self.moves]
        return None

    def _of_project(self, parts: list[str]) -> Any:
        match parts:
            case [""]:
                settings = {"merge_method": "merge", "squash_option": "default_off"}
                past = {"allow_merge_on_skipped_pipeline": None}
                return {"id": 1, "only_allow_merge_if_pipeline_succeeds": self.protected, **settings, **past}
            case ["repository", "commits", sha, "statuses"]:
                jobs = {name: self._STATES.get(how, how) for name, how in self.checks_of(sha).items()}
                jobs["lint"] = "failed"
                told = [{"name": name, "status": how, "allow_failure": name == "lint"} for name, how in jobs.items()]
                return [{"id": 1, "sha": sha, **job} for job in told]
            case ["repository", "branches", name]:
                return {"name": name, "protected": self.protected}
            case ["protected_branches", name] if self.protected:
                levels = {"push_access_levels": [{"id": 1, "access_level": 0}], "merge_access_levels": []}
                return {"id": 1, "name": name, "allow_force_push": self.bypassed, **levels}
        return None

    def _merge(self, pull: PullRequest, wish: dict[str, Any]) -> Told:
        """Wait for a pipeline that runs. GitLab merges at once after one that has succeeded."""
        if wish["sha"] != pull.sha:
            return _CONFLICT, {"message": "SHA does not match HEAD of source branch"}
        waits = wish.get("auto_merge") or wish.get("merge_when_pipeline_succeeds")
        pipeline = self._pipeline(pull)
        if pull.state != "open" or pipeline == "failed" or (pipeline == "running" and not waits):
            return _NOT_ALLOWED, {"message": "405 Method Not Allowed"}
        pull.merges_by = "squash" if wish["squash"] else "merge"
        self.turned_on += 1
        return _OK, self._shown(pull)

    def _shown(self, pull: PullRequest) -> dict[str, Any]:
        number, pipeline = pull.number, self._pipeline(pull)
        squashed = pull.merged_by == "squash"
        return {
            "iid": number,
            "web_url": f"{self.web}/-/merge_requests/{number}",
            "state": "opened" if pull.state == "open" else pull.state,
            "draft": pull.draft,
            "title": pull.title,
            "description": pull.body,
            "source_project_id": 1,
            "target_project_id": 1,
            "source_branch": pull.head,
            "target_branch": BASE,
            "sha": pull.sha,
            "updated_at": pull.changed_at,
            "detailed_merge_status": self._MERGEABLE.get(pipeline, "ci_must_pass"),
            "head_pipeline": {"id": 1, "sha": pull.sha, "status": pipeline},
            "merge_when_pipeline_succeeds": pull.merges_by is not None,
            "squash": pull.merges_by == "squash",
            "merge_commit_sha": None if squashed else pull.merge_commit,
            "squash_commit_sha": pull.merge_commit if squashed else None,
        }


def _is_asked(pull: PullRequest, wanted: dict[str, str]) -> bool:
    return (
        wanted.get("state", "all") in ("all", "opened" if pull.state == "open" else pull.state)
        and wanted.get("source_branch", pull.head) == pull.head
        and wanted.get("target_branch", BASE) == BASE
    )
