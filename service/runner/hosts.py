"""GitHub and GitLab by their REST interfaces: two operations of each, on pull requests."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from service.runner.pull import Draft, HostRefused, Pull, is_limited, open_once
from service.runner.web import Client

OK, CONFLICT, UNPROCESSABLE = 200, 409, 422


class GitHub:
    """One repository at GitHub."""

    def __init__(self, api: str, repository: str, token: str) -> None:
        headers = {
            "authorization": f"Bearer {token}",
            "accept": "application/vnd.github+json",
            "x-github-api-version": "2022-11-28",
        }
        self._client = Client(api, headers)
        self._repository = repository
        self._path = f"/repos/{quote(repository)}/pulls"

    def find(self, branch: str, base: str) -> Pull | None:
        """Find the pull request of a branch, open or closed. Raises HostRefused, GaveUp."""
        owner = self._repository.split("/")[0]
        query = urlencode({"head": f"{owner}:{branch}", "base": base, "state": "all", "per_page": 100})
        answer = self._client.ask("GET", f"{self._path}?{query}", again=is_limited)
        if answer.status != OK or not isinstance(answer.body, list):
            raise HostRefused(answer)
        found = [one for one in answer.body if one["head"]["ref"] == branch and one["base"]["ref"] == base]
        found.sort(key=lambda one: one["state"] != "open")
        return _pull_of_github(found[0]) if found else None

    def open(self, draft: Draft) -> Pull:
        """Open a draft, unless the branch has one. Raises HostRefused, GaveUp."""
        body = {"title": draft.title, "head": draft.branch, "base": draft.base, "body": draft.body, "draft": True}
        return open_once(
            lambda: self.find(draft.branch, draft.base),
            lambda: self._client.send("POST", self._path, body),
            UNPROCESSABLE,
            _pull_of_github,
        )


def _pull_of_github(told: dict[str, Any]) -> Pull:
    return Pull(told["number"], told["html_url"], told["head"]["sha"])


class GitLab:
    """One project at GitLab."""

    def __init__(self, api: str, project: str, token: str) -> None:
        self._client = Client(api, {"private-token": token})
        self._path = f"/projects/{quote(project, safe='')}/merge_requests"

    def find(self, branch: str, base: str) -> Pull | None:
        """Find the merge request of a branch, open or closed. Raises HostRefused, GaveUp."""
        query = urlencode({"source_branch": branch, "target_branch": base, "state": "all", "per_page": 100})
        answer = self._client.ask("GET", f"{self._path}?{query}", again=is_limited)
        if answer.status != OK or not isinstance(answer.body, list):
            raise HostRefused(answer)
        found = [one for one in answer.body if one["source_branch"] == branch and one["target_branch"] == base]
        found.sort(key=lambda one: one["state"] != "opened")
        return _pull_of_gitlab(found[0]) if found else None

    def open(self, draft: Draft) -> Pull:
        """Open a draft, unless the branch has one. Raises HostRefused, GaveUp."""
        body = {
            "source_branch": draft.branch,
            "target_branch": draft.base,
            "title": f"Draft: {draft.title}",
            "description": draft.body,
        }
        return open_once(
            lambda: self.find(draft.branch, draft.base),
            lambda: self._client.send("POST", self._path, body),
            CONFLICT,
            _pull_of_gitlab,
        )


def _pull_of_gitlab(told: dict[str, Any]) -> Pull:
    return Pull(told["iid"], told["web_url"], told.get("sha"))
