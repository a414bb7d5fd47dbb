"""The code host: GitHub's REST interface to pull requests, reduced to what a runner needs, over a bare repository."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from service.conformance.wire.listener import Given, Heard, LoopbackServer

OWNER = "acme"
NAME = f"{OWNER}/shop"
WEB = f"https://code.example/{NAME}"
BASE = "main"
_CREATED, _OK, _UNAUTHORIZED, _NOT_FOUND, _NOT_ALLOWED, _INVALID = 201, 200, 401, 404, 405, 422


class HostVisit(NamedTuple):
    """A request to the code host, and the status of its answer."""

    asked: Heard
    status: int


class CodeHost:
    """One hosted repository. `head_of` finds the commit of a pushed branch."""

    def __init__(self, token: str, head_of: Callable[[str], str | None]) -> None:
        self.visits: list[HostVisit] = []
        self.pulls: list[dict[str, Any]] = []
        self.checks: dict[str, str] = {}
        self._token = token
        self._head_of = head_of
        self._lock = threading.Lock()
        self._listener = LoopbackServer(self._serve)
        self.url = self._listener.url

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _serve(self, asked: Heard) -> Given:
        with self._lock:
            given = self._answer(asked)
            self.visits.append(HostVisit(asked, given.status))
        return given

    def _answer(self, asked: Heard) -> Given:
        if asked.headers.get("authorization", "").partition(" ")[2] != self._token:
            return Given.of(_UNAUTHORIZED, {"message": "Bad credentials"})
        if (asked.method, asked.path) == ("POST", "/graphql"):
            return self._turn_on(asked.json())
        path = asked.path.removeprefix(f"/repos/{NAME}").rstrip("/")
        if path == asked.path.rstrip("/"):
            return _missing()
        if pull := re.fullmatch(r"/pulls/(\d+)(/.+)?", path):
            return self._on_pull(asked, int(pull[1]), pull[2] or "")
        if (asked.method, path) == ("POST", "/pulls"):
            return self._open(asked.json())
        return self._read(path, asked.parameters) if asked.method == "GET" else _missing()

    def _read(self, path: str, parameters: dict[str, str]) -> Given:
        if not path:
            return Given.of(_OK, _repository())
        if path == "/pulls":
            return Given.of(_OK, self._list(parameters))
        return self._read_commit(path)

    def _read_commit(self, path: str) -> Given:
        if found := re.fullmatch(r"/(?:git/refs?/heads|branches)/(.+)", path):
            sha = self._head_of(found[1])
            if sha is None:
                return _missing()
            if path.startswith("/branches/"):
                return Given.of(_OK, {"name": found[1], "commit": {"sha": sha}})
            return Given.of(_OK, {"ref": f"refs/heads/{found[1]}", "object": {"type": "commit", "sha": sha}})
        if re.fullmatch(r"/commits/[^/]+/check-runs", path):
            runs = [{"name": name, "status": "completed", "conclusion": how} for name, how in self.checks.items()]
            return Given.of(_OK, {"total_count": len(runs), "check_runs": runs})
        if re.fullmatch(r"/commits/[^/]+/status", path):
            return Given.of(_OK, {"state": "pending", "total_count": 0, "statuses": []})
        return _missing()

    def _list(self, wanted: dict[str, str]) -> list[dict[str, Any]]:
        state, head, base = wanted.get("state", "open"), wanted.get("head"), wanted.get("base")
        return [
            self._show(pull)
            for pull in self.pulls
            if state in ("all", pull["state"])
            and head in (None, pull["head"], f"{OWNER}:{pull['head']}")
            and base in (None, BASE)
        ]

    def _open(self, wish: Any) -> Given:
        if not isinstance(wish, dict) or not all(isinstance(wish.get(name), str) for name in ("title", "head", "base")):
            return _invalid("title, head and base are required")
        head = wish["head"].removeprefix(f"{OWNER}:")
        if wish["base"] != BASE or self._head_of(head) is None:
            return _invalid("head or base is no branch of this repository")
        if any(pull["head"] == head and pull["state"] == "open" for pull in self.pulls):
            return _invalid(f"A pull request already exists for {OWNER}:{head}.")
        body, draft = wish.get("body") or "", wish.get("draft") is True
        pull = {"number": len(self.pulls) + 1, "state": "open", "head": head, "title": wish["title"], "merges_by": None}
        self.pulls.append(pull | {"body": body, "draft": draft})
        return Given.of(_CREATED, self._show(self.pulls[-1]))

    def _turn_on(self, wish: Any) -> Given:
        """Turn auto-merge on by GitHub's mutation, at the head that the wish expects."""
        told = wish.get("variables", {}).get("input", {}) if isinstance(wish, dict) else {}
        found = [pull for pull in self.pulls if f"PR_{pull['number']}" == told.get("pullRequestId")]
        if not found or self._head_of(found[0]["head"]) != told.get("expectedHeadOid"):
            error = {"type": "UNPROCESSABLE", "message": "There is no such pull request at this head."}
            return Given.of(_OK, {"data": None, "errors": [error]})
        found[0]["merges_by"] = str(told.get("mergeMethod", "MERGE")).lower()
        shown = {"pullRequest": {"number": found[0]["number"]}}
        return Given.of(_OK, {"data": {"enablePullRequestAutoMerge": shown}})

    def _on_pull(self, asked: Heard, number: int, rest: str) -> Given:
        if not 0 < number <= len(self.pulls):
            return _missing()
        pull = self.pulls[number - 1]
        match asked.method, rest:
            case "GET", "":
                return Given.of(_OK, self._show(pull))
            case "GET", "/files" | "/commits" | "/reviews":
                return Given.of(_OK, [])
            case "PATCH", "":
                wish = asked.json()
                changes = {
                    name: wish[name] for name in ("title", "body", "state") if isinstance(wish, dict) and name in wish
                }
                pull |= changes
                return Given.of(_OK, self._show(pull))
            case "PUT", "/merge":
                return Given.of(_NOT_ALLOWED, {"message": "Pull Request is not mergeable"})
        return _missing()

    def _show(self, pull: dict[str, Any]) -> dict[str, Any]:
        number, head = pull["number"], pull["head"]
        return {
            "id": number,
            "number": number,
            "state": pull["state"],
            "draft": pull["draft"],
            "title": pull["title"],
            "body": pull["body"],
            "html_url": f"{WEB}/pull/{number}",
            "url": f"{self.url}/repos/{NAME}/pulls/{number}",
            "head": {"ref": head, "label": f"{OWNER}:{head}", "sha": self._head_of(head), "repo": _repository()},
            "base": {"ref": BASE, "label": f"{OWNER}:{BASE}", "sha": self._head_of(BASE), "repo": _repository()},
            "merged": False,
            "merge_commit_sha": None,
            "node_id": f"PR_{number}",
            "merged_at": None,
            "auto_merge": None if pull["merges_by"] is None else {"merge_method": pull["merges_by"]},
            "user": {"login": "runner"},
        }


def _repository() -> dict[str, Any]:
    return {"full_name": NAME, "name": "shop", "default_branch": BASE, "html_url": WEB, "private": True}


def _missing() -> Given:
    return Given.of(_NOT_FOUND, {"message": "Not Found"})


def _invalid(message: str) -> Given:
    return Given.of(_INVALID, {"message": "Validation Failed", "errors": [{"message": message}]})
