"""The shop's code host, reduced to the minimum: a bare git repository with pull requests and checks beside it.

Stands for what a hosted service does. People, CI and the runner use it by its command, in a clone:

    hub open BRANCH TITLE [--draft] | view NUMBER | ready NUMBER | check SHA NAME CONCLUSION
    hub merge NUMBER METHOD         | auto-merge NUMBER METHOD

The base branch is protected: only a pull request that is no draft, and whose head has passed every required check,
is merged; nobody has a way around that. Every command prints what it leaves, as JSON.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

IDENTITY = ("-c", "user.name=Code host", "-c", "user.email=host@example.invalid")


def git(where: Path, *arguments: str) -> str:
    """Run git in a directory; returns what it printed."""
    command = ["git", *IDENTITY, *arguments]
    return subprocess.run(command, cwd=where, check=True, capture_output=True, text=True).stdout.strip()


def create(bare: Path, *, web: str, base: str, required_checks: list[str]) -> None:
    """Host a bare repository, with `base` protected by the required checks; `web` is its address."""
    state = {"web": web, "base": base, "required_checks": required_checks, "pulls": [], "checks": {}}
    (bare / "hub.json").write_text(json.dumps(state))


class Host:
    """One hosted repository."""

    def __init__(self, bare: Path) -> None:
        self._bare = bare
        self._state: dict[str, Any] = json.loads((bare / "hub.json").read_text())

    def _save(self) -> None:
        new = self._bare / "hub.json.new"
        new.write_text(json.dumps(self._state))
        new.replace(self._bare / "hub.json")

    def _pull(self, number: int) -> dict[str, Any]:
        if not 0 < number <= len(self._state["pulls"]):
            sys.exit(f"there is no pull request {number}")
        pull: dict[str, Any] = self._state["pulls"][number - 1]
        return pull

    def _checks(self, sha: str) -> list[dict[str, str]]:
        passed = self._state["checks"].get(sha, {})
        return [{"name": name, "conclusion": passed.get(name, "missing")} for name in self._state["required_checks"]]

    def view(self, number: int) -> dict[str, Any]:
        """Show a pull request as it stands."""
        pull = self._pull(number)
        head = pull["merged_head"] or git(self._bare, "rev-parse", f"refs/heads/{pull['head_branch']}")
        return {
            **{name: pull[name] for name in ("number", "title", "head_branch", "draft", "auto_merge")},
            "repository": self._state["web"],
            "url": f"{self._state['web']}/pull/{number}",
            "base_branch": self._state["base"],
            "head_sha": head,
            "required_checks": self._checks(head),
            "protected": True,
            "bypassed": False,
            "merge_commit_sha": pull["merge_commit_sha"],
        }

    def pulls(self) -> list[dict[str, Any]]:
        """Show every pull request."""
        return [self.view(pull["number"]) for pull in self._state["pulls"]]

    def open(self, branch: str, title: str, *, draft: bool) -> dict[str, Any]:
        """Open a pull request for a pushed branch."""
        pull = {
            "number": len(self._state["pulls"]) + 1,
            "title": title,
            "head_branch": branch,
            "draft": draft,
            "auto_merge": None,
            "merged_head": None,
            "merge_commit_sha": None,
        }
        self._state["pulls"].append(pull)
        self._save()
        return self.view(len(self._state["pulls"]))

    def ready(self, number: int) -> dict[str, Any]:
        """Make a draft ready for merging."""
        self._pull(number)["draft"] = False
        self._save()
        return self.view(number)

    def check(self, sha: str, name: str, conclusion: str) -> dict[str, Any]:
        """Record the result of a check on a commit; a pull request that waits for it is merged."""
        self._state["checks"].setdefault(sha, {})[name] = conclusion
        self._save()
        for pull in self._state["pulls"]:
            self._merge_if_due(pull["number"])
        return {"sha": sha, "checks": self._checks(sha)}

    def auto_merge(self, number: int, method: str) -> dict[str, Any]:
        """Turn auto-merge on: the host merges by itself once protection allows it."""
        self._pull(number)["auto_merge"] = method
        self._save()
        self._merge_if_due(number)
        return self.view(number)

    def _merge_if_due(self, number: int) -> None:
        pull = self.view(number)
        if pull["auto_merge"] and not pull["merge_commit_sha"] and self._obstacle(pull) is None:
            self.merge(number, pull["auto_merge"])

    def _obstacle(self, pull: dict[str, Any]) -> str | None:
        if pull["draft"]:
            return "it is a draft"
        if any(check["conclusion"] != "success" for check in pull["required_checks"]):
            return "a required check has not passed"
        return None

    def merge(self, number: int, method: str) -> dict[str, Any]:
        """Merge a pull request, if protection allows it."""
        pull = self.view(number)
        if obstacle := self._obstacle(pull):
            sys.exit(f"pull request {number} cannot be merged: {obstacle}")
        stored = self._pull(number)
        stored["merged_head"] = pull["head_sha"]
        stored["merge_commit_sha"] = self._commit_merge(pull, method)
        self._save()
        return self.view(number)

    def _commit_merge(self, pull: dict[str, Any], method: str) -> str:
        title = f"{pull['title']} (#{pull['number']})"
        with tempfile.TemporaryDirectory(prefix="merge-", dir=self._bare) as directory:
            clone = Path(directory) / "clone"
            git(self._bare, "clone", "--quiet", "--branch", pull["base_branch"], str(self._bare), str(clone))
            if method == "squash":
                git(clone, "merge", "--quiet", "--squash", pull["head_sha"])
                git(clone, "commit", "--quiet", "--message", title)
            else:
                git(clone, "merge", "--quiet", "--no-ff", "--message", title, pull["head_sha"])
            git(clone, "push", "--quiet", "origin", pull["base_branch"])
            return git(clone, "rev-parse", "HEAD")


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="hub", description="The shop's code host.")
    commands = parser.add_subparsers(dest="command", required=True)
    opening = commands.add_parser("open")
    opening.add_argument("branch")
    opening.add_argument("title")
    opening.add_argument("--draft", action="store_true")
    checking = commands.add_parser("check")
    for name in ("sha", "name", "conclusion"):
        checking.add_argument(name)
    for name in ("view", "ready", "merge", "auto-merge"):
        command = commands.add_parser(name)
        command.add_argument("number", type=int)
        if name.endswith("merge"):
            command.add_argument("method", choices=["merge", "squash"])
    return parser.parse_args()


def main() -> None:
    """Carry out one command in the clone that is the working directory."""
    given = parse()
    host = Host(Path(git(Path.cwd(), "remote", "get-url", "origin")))
    match given.command:
        case "open":
            left = host.open(given.branch, given.title, draft=given.draft)
        case "check":
            left = host.check(given.sha, given.name, given.conclusion)
        case "view":
            left = host.view(given.number)
        case "ready":
            left = host.ready(given.number)
        case "merge":
            left = host.merge(given.number, given.method)
        case _:
            left = host.auto_merge(given.number, given.method)
    print(json.dumps(left))


if __name__ == "__main__":
    main()
