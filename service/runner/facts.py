"""What CI reads at the code host about a pull request: nothing is assumed, and what it may not read is null (G-189)."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import quote, urlencode

from service.runner.hosts import PER_PAGE, GitHub, GitLab, method_of_gitlab, pull_of_github, pull_of_gitlab
from service.runner.pull import HostRefused, Pull

T = TypeVar("T")
MAX_COMMITS = 50
_NOBODY = 0
_BYPASSED_BY = {"success": False, "failed": True, "canceled": True, "skipped": True}
"""Whether a merge went past a pipeline with this end. None for another: somebody may have started it anew."""


class Move(NamedTuple):
    """A person closed or reopened a pull request."""

    state: str
    who: str


class PullFacts(NamedTuple):
    """The facts of auto-merge. None: not observed. `checks` are the required ones, without CI's own."""

    protected: bool | None
    bypassed: bool | None
    checks: dict[str, str] | None
    method: str | None


class Facing(Protocol):
    """What CI asks a code host."""

    def find(self, branch: str, base: str) -> Pull | None:
        """Find the pull request of a branch. Raises HostRefused, GaveUp."""

    def recent(self) -> list[Pull]:
        """The pull requests changed last, at most 100. Raises HostRefused, GaveUp."""

    def facts(self, pull: Pull, gate: str) -> PullFacts:
        """Read the facts of auto-merge. `gate` is the name of CI's own check. Raises HostRefused, GaveUp."""

    def commits(self, pull: Pull) -> list[str] | None:
        """The last commits of a pull request, oldest first."""

    def moves(self, pull: Pull) -> list[Move] | None:
        """The closings and reopenings of a pull request, oldest first."""

    def merge_commit(self, pull: Pull) -> str | None:
        """The commit by which it was merged."""


def branches_of(pull: Pull) -> tuple[str, str]:
    """The names of head and base."""
    if "head" in pull.told:
        return pull.told["head"]["ref"], pull.told["base"]["ref"]
    return pull.told["source_branch"], pull.told["target_branch"]


def is_of_repository(pull: Pull) -> bool:
    """Whether its branch is one of the repository itself. The branch of a fork that is gone is not."""
    if "head" in pull.told:
        head, base = pull.told["head"].get("repo"), pull.told["base"].get("repo")
        return head is not None and base is not None and head["id"] == base["id"]
    return bool(pull.told["source_project_id"] == pull.told["target_project_id"])


def readable(read: Callable[[], T]) -> T | None:
    """What is read, or None where the host lets the token not see it. Raises GaveUp."""
    try:
        return read()
    except HostRefused:
        return None


class GitHubFacts(GitHub):
    """What CI reads at GitHub."""

    def recent(self) -> list[Pull]:
        """The pull requests changed last, at most 100. Raises HostRefused, GaveUp."""
        query = urlencode({"state": "all", "sort": "updated", "direction": "desc", "per_page": PER_PAGE})
        return [pull_of_github(one) for one in self._read(f"{self._path}/pulls?{query}", list)]

    def facts(self, pull: Pull, gate: str) -> PullFacts:
        """Protection and required checks by the branch and its rules, bypasses by the suites of rules."""
        base = quote(branches_of(pull)[1], safe="")
        branch = readable(lambda: self._read(f"{self._path}/branches/{base}", dict))
        rules = readable(lambda: self._pages(f"{self._path}/rules/branches/{base}"))
        names = _required_by_branch(branch) | _required_by_rules(rules)
        protected = None if branch is None and rules is None else bool((branch or {}).get("protected") or rules)
        ended = readable(lambda: self.checks(pull.head_sha or "")) if names else None
        checks = None if ended is None else {name: ended.get(name, "") for name in sorted(names - {gate})}
        return PullFacts(protected, self._bypassed(pull), checks, pull.merges_by)

    def _bypassed(self, pull: Pull) -> bool | None:
        """Whether somebody went past the rules with this change. None where no suite of rules tells of its merge."""
        query = urlencode({"ref": f"refs/heads/{branches_of(pull)[1]}", "time_period": "month"})
        suites = readable(lambda: self._pages(f"{self._path}/rulesets/rule-suites?{query}"))
        if suites is None:
            return None
        commits = {pull.head_sha, self.merge_commit(pull)} - {None}
        results = {one["result"] for one in suites if one["after_sha"] in commits}
        if pull.state == "merged" and not results:
            return None
        return "bypass" in results

    def commits(self, pull: Pull) -> list[str] | None:
        """The last commits of a pull request, oldest first."""
        listed = readable(lambda: self._pages(f"{self._path}/pulls/{pull.number}/commits"))
        return None if listed is None else [one["sha"] for one in listed][-MAX_COMMITS:]

    def moves(self, pull: Pull) -> list[Move] | None:
        """The closings and reopenings of a pull request, oldest first."""
        listed = readable(lambda: self._pages(f"{self._path}/issues/{pull.number}/events"))
        if listed is None:
            return None
        return [_move(one["event"], one["actor"], "login") for one in listed if one["event"] in ("closed", "reopened")]

    def merge_commit(self, pull: Pull) -> str | None:
        """The commit by which it was merged. An open one has that of a trial."""
        found: str | None = pull.told["merge_commit_sha"] if pull.state == "merged" else None
        return found


def _required_by_branch(branch: dict[str, Any] | None) -> set[str]:
    told = ((branch or {}).get("protection") or {}).get("required_status_checks") or {}
    return set() if told.get("enforcement_level") == "off" else set(told.get("contexts", ()))


def _required_by_rules(rules: list[dict[str, Any]] | None) -> set[str]:
    told = [one["parameters"] for one in rules or () if one["type"] == "required_status_checks"]
    return {check["context"] for parameters in told for check in parameters["required_status_checks"]}


class GitLabFacts(GitLab):
    """What CI reads at GitLab."""

    def recent(self) -> list[Pull]:
        """The merge requests changed last, at most 100. Raises HostRefused, GaveUp."""
        query = urlencode({"state": "all", "order_by": "updated_at", "sort": "desc", "per_page": PER_PAGE})
        return [pull_of_gitlab(one) for one in self._read(f"{self._path}/merge_requests?{query}", list)]

    def facts(self, pull: Pull, gate: str) -> PullFacts:
        """Protection by the branch, checks by the jobs, bypasses by whether the settings leave a way past them."""
        base = quote(branches_of(pull)[1], safe="")
        branch = readable(lambda: self._read(f"{self._path}/repository/branches/{base}", dict))
        project = readable(lambda: self._read(self._path, dict))
        ended = readable(lambda: self.checks(pull.head_sha or ""))
        checks = None if ended is None else {name: ended[name] for name in sorted(ended) if name != gate}
        method = None if project is None else method_of_gitlab(project, squash=pull.told.get("squash") is True)
        return PullFacts(
            protected=None if branch is None else branch["protected"] is True,
            bypassed=self._bypassed(pull, project, base),
            checks=checks,
            method=method if pull.merges_by is not None or pull.state == "merged" else None,
        )

    def _bypassed(self, pull: Pull, project: dict[str, Any] | None, base: str) -> bool | None:
        """GitLab tells of no bypass. So it is False only where nobody can push, and each merge needs its pipeline."""
        rule = readable(lambda: self._read(f"{self._path}/protected_branches/{base}", dict))
        if project is None or rule is None or project.get("only_allow_merge_if_pipeline_succeeds") is not True:
            return None
        pushers = [one for one in rule["push_access_levels"] if one["access_level"] != _NOBODY]
        if pushers or rule["allow_force_push"] or project.get("allow_merge_on_skipped_pipeline"):
            return None
        if pull.state != "merged":
            return False
        own = f"{self._path}/merge_requests/{pull.number}"
        told = readable(lambda: self._read(own, dict))
        pipeline = None if told is None else told.get("head_pipeline")
        if not pipeline or pipeline["sha"] != pull.head_sha:
            return None
        return _BYPASSED_BY.get(pipeline["status"])

    def commits(self, pull: Pull) -> list[str] | None:
        """The last commits of a merge request, oldest first."""
        listed = readable(lambda: self._pages(f"{self._path}/merge_requests/{pull.number}/commits"))
        return None if listed is None else [one["id"] for one in listed][:MAX_COMMITS][::-1]

    def moves(self, pull: Pull) -> list[Move] | None:
        """The closings and reopenings of a merge request, oldest first."""
        listed = readable(lambda: self._pages(f"{self._path}/merge_requests/{pull.number}/resource_state_events"))
        if listed is None:
            return None
        return [
            _move(one["state"], one["user"], "username") for one in listed if one["state"] in ("closed", "reopened")
        ]

    def merge_commit(self, pull: Pull) -> str | None:
        """The commit by which it was merged. A fast-forward has none of its own."""
        if pull.state != "merged":
            return None
        return pull.told.get("merge_commit_sha") or pull.told.get("squash_commit_sha") or pull.head_sha


def _move(state: str, who: Any, name: str) -> Move:
    return Move(state, str(who[name]) if isinstance(who, dict) and who.get(name) else "")
