"""Whether a change keeps to the policy, judged from git's own objects: paths, kinds of files, and how much changed.

The service judges the same before it grants anything. Here it is judged first, so that nobody is asked to approve what
would be refused, and so that a change outside of the policy never leaves the machine.
"""

from __future__ import annotations

import fnmatch
import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple

from service.runner.git import Changed

MAX_BYTES = 10 * 1024 * 1024
_MAXIMUM_PATH = 500
_LOWEST_PRINTABLE = 0x20
_LINK, _SUBMODULE = "120000", "160000"


class Violation(NamedTuple):
    """A broken rule and its path."""

    rule: str
    path: str = ""


class Policy(NamedTuple):
    """The part of the enabled policy for a runner."""

    repository: str
    base_branch: str
    mode: str
    allowed_paths: list[str]
    test_commands: list[str]
    max_files: int
    max_lines: int
    protected_files: list[str]
    protected_directories: list[str]


def read_policy(told: dict[str, Any], policy_sha256: str) -> Policy:
    """Read the service's answer. Raises ValueError for another policy than the one of the run."""
    if told["policy_sha256"] != policy_sha256:
        raise ValueError("The policy is not the one that the run began under.")
    policy = told["policy"]
    scope = policy["scope"]
    return Policy(
        repository=policy["runner"]["repository"],
        base_branch=policy["runner"]["default_branch"],
        mode=policy["code_delivery"]["mode"],
        allowed_paths=scope["allowed_paths"],
        test_commands=scope["test_commands"],
        max_files=scope["max_files_changed"],
        max_lines=scope["max_changed_lines"],
        protected_files=told["protected_files"],
        protected_directories=told["protected_directories"],
    )


def find_violations(policy: Policy, changes: Sequence[Changed]) -> list[Violation]:
    """List the broken rules. A change within the policy has none."""
    found = [Violation("no_change")] if not changes else []
    if len(changes) > policy.max_files:
        found.append(Violation("too_many_files"))
    if lines_of(changes) > policy.max_lines:
        found.append(Violation("too_many_lines"))
    if sum(change.size for change in changes) > MAX_BYTES:
        found.append(Violation("too_large"))
    seen: set[str] = set()
    for change in changes:
        rule = _broken_by(policy, change, seen)
        if rule is not None:
            found.append(Violation(rule, change.path))
        seen.add(change.path.casefold())
    return found


def lines_of(changes: Sequence[Changed]) -> int:
    """Lines added and removed. A change of a file's mode alone counts as one."""
    return max(1, sum(change.lines for change in changes))


def _broken_by(policy: Policy, change: Changed, seen: set[str]) -> str | None:
    path = change.path
    if not is_plain(path):
        return "path_not_plain"
    if path.casefold() in seen:
        return "path_repeated"
    if not within(path, policy.allowed_paths):
        return "path_outside_scope"
    if _is_protected(policy, path) and path not in policy.allowed_paths:
        return "path_protected"
    if _SUBMODULE in (change.old_mode, change.new_mode):
        return "submodule"
    # What a link leads to is outside of every list of paths.
    return "symbolic_link" if change.new_mode == _LINK else None


def is_plain(path: str) -> bool:
    """Whether a path is in its one plain form, as the service demands it. File systems fold all others."""
    if not 0 < len(path) <= _MAXIMUM_PATH or "\\" in path or unicodedata.normalize("NFKC", path) != path:
        return False
    if any(
        ord(char) < _LOWEST_PRINTABLE or unicodedata.category(char) in {"Cc", "Cf", "Cn", "Co", "Cs"} for char in path
    ):
        return False
    return all(_is_plain_segment(segment) for segment in path.split("/"))


def _is_plain_segment(segment: str) -> bool:
    if segment in {"", ".", ".."} or segment != segment.strip() or segment.endswith("."):
        return False
    return segment.casefold() not in {".git", "git~1"} and not any(char in segment for char in ':*?"<>|')


def within(path: str, allowed: Sequence[str]) -> bool:
    """Whether a path equals an entry, or lies under an entry with `/` or `/**` at its end."""
    for entry in allowed:
        prefix = entry.removesuffix("**")
        if path == entry or (prefix.endswith("/") and is_plain(prefix[:-1]) and path.startswith(prefix)):
            return True
    return False


def _is_protected(policy: Policy, path: str) -> bool:
    *directories, name = path.casefold().split("/")
    if not set(policy.protected_directories).isdisjoint(directories):
        return True
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in policy.protected_files)
