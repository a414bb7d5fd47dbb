"""The code host of a world, held to the published documents of GitHub and GitLab, with the hands of people at it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, ClassVar

from service.testing.host import CodeHost, GitHubHost, GitLabHost
from service.testing.loopback import Given, Heard
from service.testing.shop import BASE, WEB
from tests.support.runner.document import Document, graphql_faults

__all__ = ["TOKEN", "WEB", "GitHubByDocument", "GitLabByDocument", "HostByDocument"]
TOKEN = "host-token-of-the-customer"


class HostByDocument(CodeHost):
    """A host whose requests and answers fit its document: `faults` are those that do not.

    What the document requires of an answer beside what the host tells is filled in.
    """

    first = 7
    kind: ClassVar[str]
    made: ClassVar[str]
    """The operation that makes a pull request."""
    mark_of_pull: ClassVar[str]
    """A member of pull requests alone."""

    def __init__(self, bare: Path) -> None:
        super().__init__(bare, TOKEN, required=["build", "test", "prove"])
        self.document = Document(self.kind)
        self.faults: list[str] = []
        self.authorizations: list[str] = []

    def respond(self, asked: Heard) -> Given:
        """Answer, and compare both with the document."""
        sent = asked.json()
        self.authorizations.append(asked.headers.get("authorization", asked.headers.get("private-token", "")))
        if asked.path == "/graphql":
            self.faults += graphql_faults(sent)
            return super().respond(asked)
        self.faults += self.document.faults_of(asked.method, asked.path, asked.parameters, sent)
        given = super().respond(asked)
        if given.status >= 300:
            return given
        told = self._filled(json.loads(given.body))
        self.faults += self.document.answer_faults(asked.method, asked.path, given.status, told)
        return Given.of(given.status, told)

    def _filled(self, told: Any) -> Any:
        if isinstance(told, list):
            return [self._filled(one) for one in told]
        if isinstance(told, dict) and self.mark_of_pull in told:
            return filled(self.document.sample(self.made, "201"), told)
        return told

    # ---- people

    def check(self, **ended: str) -> None:
        """End checks, and merge what may be merged now."""
        with self._lock:
            self.ended |= ended
            self.refresh()
            self.settle()

    def push(self, branch: str) -> str:
        """A person pushes one more commit to a branch."""
        return self._commit(branch, [branch], branch)

    def push_over(self, branch: str) -> str:
        """A person writes a branch anew and pushes it by force: the commit before is not in it."""
        return self._commit(branch, [BASE], branch)

    def update(self, branch: str) -> str:
        """A person brings a branch up to date, by the button at its pull request."""
        return self._commit(branch, [branch, BASE], branch)

    def _commit(self, tree: str, parents: list[str], branch: str) -> str:
        above = [part for parent in parents for part in ("-p", parent)]
        sha = self.git("commit-tree", f"{tree}^{{tree}}", *above, "-m", "M")
        self.git("update-ref", f"refs/heads/{branch}", sha)
        return sha

    def delete(self, branch: str, who: str) -> None:
        """A person deletes a branch. The host closes its pull request."""
        self.remove(branch)
        self.close_pull(who)

    def remove(self, branch: str) -> None:
        """Remove a branch, as hosts do it after a merge."""
        subprocess.run(["git", "-C", str(self.bare), "update-ref", "-d", f"refs/heads/{branch}"], check=True)

    def mark(self, *, draft: bool) -> None:
        """A person marks the pull request as ready, or as a draft again."""
        self.pulls[-1].draft = draft

    def close_pull(self, who: str) -> None:
        """A person closes the pull request."""
        self.pulls[-1].state = "closed"
        self.moves.append(("closed", who))

    def reopen(self, who: str) -> None:
        """A person reopens the pull request."""
        self.pulls[-1].state = "open"
        self.moves.append(("reopened", who))

    def merge(self) -> str:
        """A person merges the pull request, whatever it holds by now."""
        self.refresh()
        return self.merge_by(self.pulls[-1], "squash")


def filled(sample: Any, told: Any) -> Any:
    """What is told, with the members of a sample that it lacks."""
    if not isinstance(sample, dict) or not isinstance(told, dict):
        return told
    return sample | {name: filled(sample.get(name), value) for name, value in told.items()}


class GitHubByDocument(HostByDocument, GitHubHost):
    """The pull requests of one repository at GitHub. One check is a status of a commit."""

    kind, made, mark_of_pull = "github", "pulls/create", "node_id"
    statuses = ("build",)


class GitLabByDocument(HostByDocument, GitLabHost):
    """The merge requests of one project at GitLab."""

    kind, made, mark_of_pull = "gitlab", "postApiV4ProjectsIdMergeRequests", "iid"
