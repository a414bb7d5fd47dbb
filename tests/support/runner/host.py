"""Stand-ins for GitHub and GitLab, made from their published documents: a request that does not fit is a fault."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.support.runner.document import Document
from tests.support.runner.doors import Reply

OWNER, NAME = "acme", "shop"
WEB = f"https://code.example/{OWNER}/{NAME}"
TOKEN = "host-token-of-the-customer"


def _reply(status: int, body: Any, **headers: str) -> Reply:
    return Reply(status, json.dumps(body).encode(), {name.replace("_", "-"): value for name, value in headers.items()})


class CodeHost:
    """What both hosts are: a bare repository with pull requests, and the published document of the interface."""

    kind = ""
    first = 7

    def __init__(self, bare: Path) -> None:
        self.bare = bare
        self.document = Document(self.kind)
        self.pulls: list[dict[str, Any]] = []
        self.faults: list[str] = []
        self.authorizations: list[str] = []
        self.answers: list[Reply] = []

    def branch(self, name: str) -> str | None:
        """The commit of a branch."""
        command = ["git", "-C", str(self.bare), "rev-parse", "--verify", "--quiet", f"refs/heads/{name}"]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None

    def __call__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        parts = urlsplit(path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        sent = json.loads(body) if body else None
        self.faults += self.document.faults_of(method, parts.path, query, sent)
        if not self.allowed(headers):
            return _reply(401, {"message": "Bad credentials"})
        if self.answers:
            return self.answers.pop(0)
        status, told = self.answer(method, unquote(parts.path), query, sent)
        if status < 300:
            self.faults += self.document.answer_faults(method, parts.path, status, told)
        return _reply(status, told)

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
        if path != f"/repos/{OWNER}/{NAME}/pulls":
            return 404, {"message": "Not Found"}
        if method == "GET":
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
        }
        made["head"] |= {"ref": head, "sha": self.branch(head), "label": f"{OWNER}:{head}"}
        made["base"] |= {"ref": base, "sha": self.branch(base), "label": f"{OWNER}:{base}"}
        return made


class FakeGitLab(CodeHost):
    """The merge requests of one project at GitLab."""

    kind = "gitlab"

    def allowed(self, headers: dict[str, str]) -> bool:
        self.authorizations.append(headers.get("private-token", ""))
        return headers.get("private-token") == TOKEN

    def answer(self, method: str, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        if path != f"/projects/{OWNER}/{NAME}/merge_requests":
            return 404, {"message": "404 Project Not Found"}
        if method == "GET":
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
        }
        self.pulls.append(made)
        return 201, made

    def _matches(self, pull: dict[str, Any], query: dict[str, str]) -> bool:
        return (
            query.get("state", "all") in {"all", pull["state"]}
            and query.get("source_branch", pull["source_branch"]) == pull["source_branch"]
            and query.get("target_branch", pull["target_branch"]) == pull["target_branch"]
        )
