"""Stand-ins for GitHub and GitLab, made from their published documents: a request that does not fit is a fault."""

from __future__ import annotations

import json
import subprocess
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.support.runner.document import Document, graphql_faults
from tests.support.runner.doors import Reply

OWNER, NAME = "acme", "shop"
WEB = f"https://code.example/{OWNER}/{NAME}"
TOKEN = "host-token-of-the-customer"


def _reply(status: int, body: Any, **headers: str) -> Reply:
    return Reply(status, json.dumps(body).encode(), {name.replace("_", "-"): value for name, value in headers.items()})


class CodeHost:
    """What both hosts are: a bare repository with pull requests, and the published document of the interface.

    `required` are the checks of the protected branch, `ended` how they ended at the newest head. The host merges by
    itself what it was told to, as soon as every required check has succeeded.
    """

    kind = ""
    first = 7

    def __init__(self, bare: Path) -> None:
        self.bare = bare
        self.document = Document(self.kind)
        self.pulls: list[dict[str, Any]] = []
        self.faults: list[str] = []
        self.authorizations: list[str] = []
        self.answers: list[Reply] = []
        self.required = ["build", "test", "prove"]
        self.ended: dict[str, str] = {}
        self.protected = True
        self.hidden: set[str] = set()
        self.bypassed = False
        self.moves: list[tuple[str, str]] = []
        self.turned_on = 0
        self.merged: list[str] = []
        self._lock = threading.Lock()

    def branch(self, name: str) -> str | None:
        """The commit of a branch."""
        command = ["git", "-C", str(self.bare), "rev-parse", "--verify", "--quiet", f"refs/heads/{name}"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None

    def check(self, **ended: str) -> None:
        """End checks, and merge what may be merged now."""
        with self._lock:
            self.ended |= ended
            self.settle()

    def ends(self) -> bool:
        """Whether every required check has succeeded."""
        return all(self.ended.get(name) == "success" for name in self.required)

    def push(self, branch: str) -> str:
        """A person pushes one more commit to a branch."""
        return self._commit(branch, [branch], branch)

    def push_over(self, branch: str) -> str:
        """A person writes a branch anew and pushes it by force: the commit before is not in it."""
        return self._commit(branch, ["main"], branch)

    def update(self, branch: str) -> str:
        """A person brings a branch up to date, by the button at its pull request."""
        return self._commit(branch, [branch, "main"], branch)

    def delete(self, branch: str, who: str) -> None:
        """A person deletes a branch. The host closes its pull request."""
        self.remove(branch)
        self.close(who)

    def remove(self, branch: str) -> None:
        """Remove a branch, as hosts do it after a merge."""
        subprocess.run(["git", "-C", str(self.bare), "update-ref", "-d", f"refs/heads/{branch}"], check=True)

    def _commit(self, tree: str, parents: list[str], branch: str) -> str:
        git = ["git", "-C", str(self.bare), "-c", "user.name=P", "-c", "user.email=p@example.invalid"]
        above = [part for parent in parents for part in ("-p", parent)]
        made = subprocess.run(
            [*git, "commit-tree", f"{tree}^{{tree}}", *above, "-m", "M"], capture_output=True, text=True, check=True
        )
        sha = made.stdout.strip()
        subprocess.run([*git, "update-ref", f"refs/heads/{branch}", sha], check=True)
        return sha

    def commits_of(self, head: str) -> list[str]:
        """The commits of a head that a squash leaves out, oldest first."""
        command = ["git", "-C", str(self.bare), "rev-list", "--reverse", f"main..{head}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    def squash(self, head: str, base: str) -> str:
        """Merge a branch as one commit."""
        self.merged.append(head)
        return self._commit(head, [base], base)

    def mark(self, *, draft: bool) -> None:
        """A person marks the pull request as ready, or as a draft again."""
        self.pulls[-1]["draft"] = draft

    def close(self, who: str) -> None:
        raise NotImplementedError

    def reopen(self, who: str) -> None:
        raise NotImplementedError

    def merge(self) -> str:
        raise NotImplementedError

    def settle(self) -> None:
        """Merge each pull request for which auto-merge is on and nothing is missing."""
        raise NotImplementedError

    def __call__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        with self._lock:
            return self._reply(method, path, headers, body)

    def _reply(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        parts = urlsplit(path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        sent = json.loads(body) if body else None
        if parts.path != "/graphql":
            self.faults += self.document.faults_of(method, parts.path, query, sent)
        if not self.allowed(headers):
            return _reply(401, {"message": "Bad credentials"})
        if self.answers:
            return self.answers.pop(0)
        if any(word in parts.path for word in self.hidden):
            return _reply(403, {"message": "Resource not accessible"})
        status, told = self.answer(method, unquote(parts.path), query, sent)
        if status < 300 and parts.path != "/graphql":
            self.faults += self.document.answer_faults(method, parts.path, status, told)
        reply = _reply(status, told)
        self.settle()
        return reply

    def allowed(self, headers: dict[str, str]) -> bool:
        raise NotImplementedError

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        raise NotImplementedError


class FakeGitHub(CodeHost):
    """The pull requests of one repository at GitHub."""

    kind = "github"

    def allowed(self, headers: dict[str, str]) -> bool:
        self.authorizations.append(headers.get("authorization", ""))
        return headers.get("authorization") == f"Bearer {TOKEN}"

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        if path == "/graphql":
            return 200, self._enable(body)
        if path != f"/repos/{OWNER}/{NAME}/pulls":
            return self._read(path.removeprefix(f"/repos/{OWNER}/{NAME}/"), query)
        if method == "GET":
            self._refresh()
            return 200, [pull for pull in self.pulls if self._matches(pull, query)]
        head, base = body["head"].removeprefix(f"{OWNER}:"), body["base"]
        if self.branch(head) is None or self.branch(base) is None:
            return 422, {"message": "Validation Failed", "errors": [{"field": "head", "code": "invalid"}]}
        if any(pull["head"]["ref"] == head and pull["state"] == "open" for pull in self.pulls):
            return 422, {"message": "Validation Failed", "errors": [{"message": "A pull request already exists."}]}
        self.pulls.append(self._made(head, base, body))
        return 201, self.pulls[-1]

    def _matches(self, pull: dict[str, Any], query: dict[str, str]) -> bool:
        wanted = query.get("state", "open")
        return (
            wanted in {"all", pull["state"]}
            and query.get("head", pull["head"]["label"]) == pull["head"]["label"]
            and query.get("base", pull["base"]["ref"]) == pull["base"]["ref"]
        )

    def _made(self, head: str, base: str, body: dict[str, Any]) -> dict[str, Any]:
        number = self.first + len(self.pulls)
        made = self.document.sample("pulls/create", "201")
        made |= {
            "number": number,
            "html_url": f"{WEB}/pull/{number}",
            "state": "open",
            "draft": body.get("draft", False),
            "title": body["title"],
            "body": body.get("body"),
            "node_id": f"PR_{number}",
            "updated_at": now(),
        }
        made["head"] |= {"ref": head, "sha": self.branch(head), "label": f"{OWNER}:{head}"}
        made["base"] |= {"ref": base, "sha": self.branch(base), "label": f"{OWNER}:{base}"}
        return made

    def _refresh(self) -> None:
        for pull in self.pulls:
            if pull["state"] == "open":
                pull["head"]["sha"] = self.branch(pull["head"]["ref"])

    def _read(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        """What CI reads of a branch, a commit or a pull request."""
        found = self._rules(path, query) if path.startswith(("branches", "rule")) else self._rest(path)
        return (404, {"message": "Not Found"}) if found is None else (200, found)

    def _rest(self, path: str) -> Any:
        match path.split("/"):
            case ["commits", sha, "check-runs"]:
                runs = [_check_run(sha, name, self.ended.get(name, "")) for name in self.required if name != "build"]
                return {"total_count": len(runs), "check_runs": runs}
            case ["commits", sha, "status"]:
                state = {"": "pending", "success": "success"}.get(self.ended.get("build", ""), "failure")
                statuses = [{"id": 1, "context": "build", "state": state}] if "build" in self.required else []
                return {"state": state, "sha": sha, "total_count": len(statuses), "statuses": statuses}
            case ["pulls", _, "commits"]:
                return [{"sha": sha} for sha in self.commits_of(self.pulls[-1]["head"]["sha"])]
            case ["issues", _, "events"]:
                return [{"id": 1, "event": state, "actor": {"login": who}} for state, who in self.moves]
        return None

    def _rules(self, path: str, query: dict[str, str]) -> Any:
        match path.split("/"):
            case ["branches", name]:
                checks = {"enforcement_level": "everyone", "contexts": self.required if self.protected else []}
                told = {"enabled": self.protected, "required_status_checks": checks}
                return {"name": name, "protected": self.protected, "protection": told}
            case ["rules", "branches", _]:
                return []
            case ["rulesets", "rule-suites"]:
                commits = [pull["merge_commit_sha"] for pull in self.pulls if pull["merged_at"]]
                told = {"id": 1, "ref": query["ref"], "before_sha": "0" * 40}
                result = "bypass" if self.bypassed else "pass"
                return [told | {"after_sha": sha, "result": result} for sha in commits]
        return None

    def _enable(self, body: dict[str, Any]) -> dict[str, Any]:
        """Turn auto-merge on by GitHub's mutation, unless nothing holds the merge back."""
        self.faults += graphql_faults(body)
        wish = body["variables"]["input"]
        self._refresh()
        [pull] = [one for one in self.pulls if one["node_id"] == wish["pullRequestId"]]
        if pull["head"]["sha"] != wish["expectedHeadOid"]:
            return _unprocessable("The head of the pull request is not the expected one")
        if not self.protected:
            return _unprocessable("Pull request Protected branch rules not configured for this branch")
        if self.ends():
            return _unprocessable("Pull request Pull request is in clean status")
        pull["auto_merge"] = {"merge_method": wish["mergeMethod"].lower()}
        self.turned_on += 1
        shown = {"number": pull["number"], "autoMergeRequest": {"mergeMethod": wish["mergeMethod"]}}
        return {"data": {"enablePullRequestAutoMerge": {"pullRequest": shown}}}

    def settle(self) -> None:
        for pull in self.pulls:
            if pull["state"] == "open" and pull["auto_merge"] and self.ends():
                commit = self.squash(pull["head"]["ref"], pull["base"]["ref"])
                pull |= {"state": "closed", "merged_at": now(), "merge_commit_sha": commit}

    def close(self, who: str) -> None:
        """A person closes the pull request."""
        self.pulls[-1]["state"] = "closed"
        self.moves.append(("closed", who))

    def reopen(self, who: str) -> None:
        """A person reopens the pull request."""
        self.pulls[-1]["state"] = "open"
        self.moves.append(("reopened", who))

    def merge(self) -> str:
        """A person merges the pull request, whatever it holds by now."""
        self._refresh()
        pull = self.pulls[-1]
        commit = self.squash(pull["head"]["ref"], pull["base"]["ref"])
        pull |= {"draft": False, "state": "closed", "merged_at": now(), "merge_commit_sha": commit}
        return commit


def now() -> str:
    """The time in a host's form."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _check_run(sha: str, name: str, ended: str) -> dict[str, Any]:
    status = "completed" if ended else "in_progress"
    return {"id": 1, "name": name, "head_sha": sha, "status": status, "conclusion": ended or None}


def _unprocessable(message: str) -> dict[str, Any]:
    path = ["enablePullRequestAutoMerge"]
    return {"data": {path[0]: None}, "errors": [{"type": "UNPROCESSABLE", "path": path, "message": message}]}


class FakeGitLab(CodeHost):
    """The merge requests of one project at GitLab."""

    kind = "gitlab"

    def allowed(self, headers: dict[str, str]) -> bool:
        self.authorizations.append(headers.get("private-token", ""))
        return headers.get("private-token") == TOKEN

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        if path != f"/projects/{OWNER}/{NAME}/merge_requests":
            return self._read(path.removeprefix(f"/projects/{OWNER}/{NAME}").strip("/"), body)
        if method == "GET":
            self._refresh()
            return 200, [pull for pull in self.pulls if self._matches(pull, query)]
        source, target = body["source_branch"], body["target_branch"]
        if self.branch(source) is None:
            return 422, {"message": ["Source branch does not exist"]}
        if any(pull["source_branch"] == source and pull["state"] == "opened" for pull in self.pulls):
            return 409, {"message": ["Another open merge request already exists for this source branch: !7"]}
        number = self.first + len(self.pulls)
        made = self.document.sample("postApiV4ProjectsIdMergeRequests", "201")
        made |= {
            "iid": number,
            "web_url": f"{WEB}/-/merge_requests/{number}",
            "state": "opened",
            "draft": body["title"].startswith("Draft:"),
            "title": body["title"],
            "description": body.get("description"),
            "source_branch": source,
            "target_branch": target,
            "sha": self.branch(source),
            "updated_at": now(),
        }
        self.pulls.append(made)
        return 201, made

    def _matches(self, pull: dict[str, Any], query: dict[str, str]) -> bool:
        return (
            query.get("state", "all") in {"all", pull["state"]}
            and query.get("source_branch", pull["source_branch"]) == pull["source_branch"]
            and query.get("target_branch", pull["target_branch"]) == pull["target_branch"]
        )

    def _refresh(self) -> None:
        for pull in self.pulls:
            if pull["state"] == "opened":
                pull["sha"] = self.branch(pull["source_branch"])
                pull["detailed_merge_status"] = {"running": "ci_still_running", "success": "mergeable"}.get(
                    self._pipeline(), "ci_must_pass"
                )
            pull["head_pipeline"] = {"id": 1, "sha": pull["sha"], "status": self._pipeline()}

    def _pipeline(self) -> str:
        ended = [self.ended.get(name, "") for name in self.required]
        if any(how not in ("", "success") for how in ended):
            return "failed"
        return "running" if "" in ended else "success"

    def _read(self, path: str, body: Any) -> tuple[int, Any]:
        """What CI reads, and the request for auto-merge."""
        self._refresh()
        if path.endswith("/merge"):
            return self._merge(self.pulls[-1], body)
        found = self._of_request(path) if path.startswith("merge_requests") else self._of_project(path)
        return (404, {"message": "404 Not Found"}) if found is None else (200, found)

    def _of_request(self, path: str) -> Any:
        match path.split("/"):
            case ["merge_requests", _]:
                return self.pulls[-1]
            case ["merge_requests", _, "commits"]:
                return [{"id": sha} for sha in reversed(self.commits_of(self.pulls[-1]["sha"]))]
            case ["merge_requests", _, "resource_state_events"]:
                return [{"id": 1, "state": state, "user": {"username": who}} for state, who in self.moves]
        return None

    def _of_project(self, path: str) -> Any:
        match path.split("/"):
            case [""]:
                settings = {
                    "merge_method": "merge",
                    "squash_option": "default_off",
                    "allow_merge_on_skipped_pipeline": None,
                }
                return {"id": 1, "only_allow_merge_if_pipeline_succeeds": self.protected, **settings}
            case ["repository", "commits", sha, "statuses"]:
                states = {"": "running", "failure": "failed", "cancelled": "canceled"}
                ended = {name: self.ended.get(name, "") for name in self.required}
                jobs = {name: states.get(how, how) for name, how in ended.items()} | {"lint": "failed"}
                told = [{"name": name, "status": how, "allow_failure": name == "lint"} for name, how in jobs.items()]
                return [{"id": 1, "sha": sha, **job} for job in told]
            case ["repository", "branches", name]:
                return {"name": name, "protected": self.protected}
            case ["protected_branches", name] if self.protected:
                levels = {"push_access_levels": [{"id": 1, "access_level": 0}], "merge_access_levels": []}
                return {"id": 1, "name": name, "allow_force_push": self.bypassed, **levels}
        return None

    def _merge(self, pull: dict[str, Any], wish: dict[str, Any]) -> tuple[int, Any]:
        """GitLab waits for a pipeline that runs, and merges at once after one that has succeeded."""
        if wish["sha"] != pull["sha"]:
            return 409, {"message": "SHA does not match HEAD of source branch"}
        waits = wish.get("auto_merge") or wish.get("merge_when_pipeline_succeeds")
        if pull["state"] != "opened" or self._pipeline() == "failed" or (self._pipeline() == "running" and not waits):
            return 405, {"message": "405 Method Not Allowed"}
        pull |= {"merge_when_pipeline_succeeds": True, "squash": wish["squash"]}
        self.turned_on += 1
        return 200, dict(pull)

    def settle(self) -> None:
        for pull in self.pulls:
            if pull["state"] == "opened" and pull["merge_when_pipeline_succeeds"] and self._pipeline() == "success":
                commit = self.squash(pull["source_branch"], pull["target_branch"])
                pull |= {"state": "merged", "squash_commit_sha": commit}

    def close(self, who: str) -> None:
        """A person closes the merge request."""
        self.pulls[-1]["state"] = "closed"
        self.moves.append(("closed", who))

    def reopen(self, who: str) -> None:
        """A person reopens the merge request."""
        self.pulls[-1]["state"] = "opened"
        self.moves.append(("reopened", who))

    def merge(self) -> str:
        """A person merges the merge request, whatever it holds by now."""
        self._refresh()
        pull = self.pulls[-1]
        commit = self.squash(pull["source_branch"], pull["target_branch"])
        pull |= {"draft": False, "state": "merged", "squash_commit_sha": commit}
        return commit
