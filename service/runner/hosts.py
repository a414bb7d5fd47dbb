"""GitHub and GitLab by their own interfaces: pull requests, the checks of a commit, and the host's own auto-merge."""

from typing import Any
from urllib.parse import quote, urlencode

from service.runner import pull as pulls
from service.runner.web import Client, JsonAnswer

FORBIDDEN, CONFLICT, UNPROCESSABLE, TOO_MANY = 403, 409, 422, 429
PER_PAGE, MAX_PAGES = 100, 10
_TURN_ON = (
    "mutation($input: EnablePullRequestAutoMergeInput!) { enablePullRequestAutoMerge(input: $input) "
    "{ pullRequest { number autoMergeRequest { mergeMethod } } } }"
)
_STATUS_OF_ERROR = {"RATE_LIMITED": TOO_MANY, "FORBIDDEN": FORBIDDEN, "INSUFFICIENT_SCOPES": FORBIDDEN}
_HELD_BACK = frozenset({"ci_still_running", "not_approved", "external_status_checks", "discussions_not_resolved"})
_UNDECIDED = frozenset({"checking", "unchecked", "preparing", "approvals_syncing"})
_ENDED_AT_GITLAB = {"success": "success", "failed": "failure", "canceled": "cancelled", "skipped": "skipped"}
GITLAB_STATES = {"opened": "open", "locked": "open", "closed": "closed", "merged": "merged"}


class HostClient:
    """What both hosts are: a client that reads with patience, and pages."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def _read(self, path: str, kind: type) -> Any:
        """Read an object or a list. Raises HostRefused, GaveUp."""
        answer = self._client.ask("GET", path, again=pulls.is_limited)
        if answer.status != pulls.OK or not isinstance(answer.body, kind):
            raise pulls.HostRefused.by(answer)
        return answer.body

    def _pages(self, path: str, member: str | None = None) -> list[dict[str, Any]]:
        """Read a list of several pages, up to 1,000 entries. Raises HostRefused, GaveUp."""
        found: list[dict[str, Any]] = []
        for page in range(1, MAX_PAGES + 1):
            query = urlencode({"per_page": PER_PAGE, "page": page})
            read = self._read(f"{path}{'&' if '?' in path else '?'}{query}", list if member is None else dict)
            listed = read if member is None else read[member]
            found += listed
            if len(listed) < PER_PAGE:
                break
        return found


class GitHub(HostClient):
    """One repository at GitHub."""

    def __init__(self, api: str, repository: str, token: str) -> None:
        headers = {
            "authorization": f"Bearer {token}",
            "accept": "application/vnd.github+json",
            "x-github-api-version": "2022-11-28",
        }
        super().__init__(Client(api, headers))
        # GitHub Enterprise Server has its GraphQL beside its REST interface, not below it.
        beside = f"{api.rstrip('/').removesuffix('/v3')}/graphql"
        self._graphql = Client(beside, headers)
        self._repository = repository
        self._path = f"/repos/{quote(repository)}"

    def find(self, branch: str, base: str) -> pulls.Pull | None:
        """Find the pull request of a branch, open or closed. Raises HostRefused, GaveUp."""
        owner = self._repository.split("/")[0]
        query = urlencode({"head": f"{owner}:{branch}", "base": base, "state": "all", "per_page": PER_PAGE})
        listed = self._read(f"{self._path}/pulls?{query}", list)
        found = [one for one in listed if one["head"]["ref"] == branch and one["base"]["ref"] == base]
        found.sort(key=lambda one: one["state"] != "open")
        return pull_of_github(found[0]) if found else None

    def open(self, draft: pulls.Draft) -> pulls.Pull:
        """Open a pull request, unless the branch has one. Raises HostRefused, GaveUp."""
        body = {
            "title": draft.title,
            "head": draft.branch,
            "base": draft.base,
            "body": draft.body,
            "draft": not draft.ready,
        }
        return pulls.open_once(
            lambda: self.find(draft.branch, draft.base),
            lambda: self._client.send("POST", f"{self._path}/pulls", body),
            UNPROCESSABLE,
            pull_of_github,
        )

    def checks(self, sha: str) -> dict[str, str]:
        """How each check of a commit has ended, the latest of each name. Raises HostRefused, GaveUp."""
        commit = f"{self._path}/commits/{quote(sha, safe='')}"
        states = {"success": "success", "pending": pulls.PENDING}
        found = {
            one["context"]: states.get(one["state"], "failure") for one in self._pages(f"{commit}/status", "statuses")
        }
        for run in self._pages(f"{commit}/check-runs?filter=latest", "check_runs"):
            ended = (run["conclusion"] or "failure") if run["status"] == "completed" else pulls.PENDING
            # Two apps may each have a check of one name: it has succeeded once both have.
            if found.get(run["name"], "success") == "success":
                found[run["name"]] = ended
        return found

    def turn_on(self, branch: str, base: str, sha: str, method: str) -> pulls.Pull:
        """Have GitHub merge this very commit by itself, once its rules allow it. Raises HostRefused, GaveUp."""
        return pulls.turn_on_once(lambda: self.find(branch, base), lambda pull: self._enable(pull, sha, method))

    def _enable(self, pull: pulls.Pull, sha: str, method: str) -> JsonAnswer:
        wish = {"pullRequestId": pull.node, "expectedHeadOid": sha, "mergeMethod": method.upper()}
        answer = self._graphql.send("POST", "", {"query": _TURN_ON, "variables": {"input": wish}})
        errors = answer.body.get("errors") if answer.status == pulls.OK and isinstance(answer.body, dict) else None
        if not errors:
            return answer
        status = _STATUS_OF_ERROR.get(errors[0].get("type"), UNPROCESSABLE)
        return JsonAnswer(status, {"message": pulls.in_short(errors[0].get("message"))}, answer.headers)


def pull_of_github(told: dict[str, Any]) -> pulls.Pull:
    """A pull request as GitHub tells it, alone or in a list."""
    merges = told.get("auto_merge")
    return pulls.Pull(
        number=told["number"],
        url=told["html_url"],
        head_sha=told["head"]["sha"],
        draft=told.get("draft") is True,
        state="merged" if told.get("merged_at") else "open" if told["state"] == "open" else "closed",
        merges_by=merges["merge_method"] if merges else None,
        node=told["node_id"],
        told=told,
    )


class GitLab(HostClient):
    """One project at GitLab."""

    def __init__(self, api: str, project: str, token: str) -> None:
        super().__init__(Client(api, {"private-token": token}))
        self._path = f"/projects/{quote(project, safe='')}"

    def find(self, branch: str, base: str) -> pulls.Pull | None:
        """Find the merge request of a branch, open or closed. Raises HostRefused, GaveUp."""
        query = urlencode({"source_branch": branch, "target_branch": base, "state": "all", "per_page": PER_PAGE})
        listed = self._read(f"{self._path}/merge_requests?{query}", list)
        found = [one for one in listed if one["source_branch"] == branch and one["target_branch"] == base]
        found.sort(key=lambda one: one["state"] != "opened")
        return pull_of_gitlab(found[0]) if found else None

    def open(self, draft: pulls.Draft) -> pulls.Pull:
        """Open a merge request, unless the branch has one. Raises HostRefused, GaveUp."""
        body = {
            "source_branch": draft.branch,
            "target_branch": draft.base,
            "title": _ready_title(draft.title) if draft.ready else f"Draft: {draft.title}",
            "description": draft.body,
        }
        return pulls.open_once(
            lambda: self.find(draft.branch, draft.base),
            lambda: self._client.send("POST", f"{self._path}/merge_requests", body),
            CONFLICT,
            pull_of_gitlab,
        )

    def checks(self, sha: str) -> dict[str, str]:
        """How each job of a commit has ended, without those that may fail. Raises HostRefused, GaveUp."""
        listed = self._pages(f"{self._path}/repository/commits/{quote(sha, safe='')}/statuses")
        return {
            one["name"]: _ENDED_AT_GITLAB.get(one["status"], pulls.PENDING)
            for one in listed
            if not one["allow_failure"]
        }

    def turn_on(self, branch: str, base: str, sha: str, method: str) -> pulls.Pull:
        """Have GitLab merge this very commit by itself, once its checks pass. Raises HostRefused, GaveUp."""
        setting = method_of_gitlab(self._read(self._path, dict), squash=method == "squash")
        if setting != method:
            raise pulls.HostRefused(f"The project merges by {setting}, and the contract by {method}.", final=True)
        return pulls.turn_on_once(lambda: self.find(branch, base), lambda pull: self._enable(pull, sha, method))

    def _enable(self, pull: pulls.Pull, sha: str, method: str) -> JsonAnswer:
        """Ask for auto-merge while a check holds the merge back: without one, GitLab would merge at once."""
        own = f"{self._path}/merge_requests/{pull.number}"
        status = self._read(own, dict).get("detailed_merge_status")
        if status in _UNDECIDED:
            return JsonAnswer(TOO_MANY, None, {})
        if status not in _HELD_BACK:
            raise pulls.HostRefused(
                f"Nothing that passes by itself holds the merge back: {pulls.in_short(status)}.", final=True
            )
        # Before 17.11 GitLab knows the older name alone, and merges at once without it.
        wish = {"sha": sha, "squash": method == "squash", "auto_merge": True, "merge_when_pipeline_succeeds": True}
        return self._client.send("PUT", f"{own}/merge", wish)


def pull_of_gitlab(told: dict[str, Any]) -> pulls.Pull:
    """A merge request as GitLab tells it, alone or in a list."""
    merges = told.get("merge_when_pipeline_succeeds") is True
    return pulls.Pull(
        number=told["iid"],
        url=told["web_url"],
        head_sha=told.get("sha"),
        draft=told["draft"] is True,
        state=GITLAB_STATES[told["state"]],  # type: ignore[arg-type]
        merges_by=("squash" if told.get("squash") else "merge") if merges else None,
        node=str(told["iid"]),
        told=told,
    )


def method_of_gitlab(project: dict[str, Any], *, squash: bool) -> str:
    """How a project merges a request. Without a squash it is a setting of the project alone."""
    if squash:
        return "squash" if project.get("squash_option") != "never" else "merge"
    if project.get("squash_option") == "always":
        return "squash"
    return "rebase" if project.get("merge_method") == "ff" else "merge"


def _ready_title(title: str) -> str:
    """A title that GitLab does not take for a draft."""
    return f"Repair: {title}" if title.lower().lstrip("([ ").startswith(("draft", "wip")) else title
