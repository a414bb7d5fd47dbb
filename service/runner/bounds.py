"""Whether a change keeps to the policy, judged from git's own objects: paths, kinds of files, and how much changed.

The service judges the same before it grants anything. Here it is judged first, so that nobody is asked to approve what
would be refused, and once more before the push, so that a change outside of the policy never leaves the machine.
"""

import fnmatch
import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from service.runner.answers import Json
from service.runner.git import ABSENT, FILE, LINK, PROGRAM, REPOSITORY, Changed

MAX_BYTES = 10 * 1024 * 1024
_MAXIMUM_PATH, _MAXIMUM_BRANCH = 500, 200
_LOWEST_PRINTABLE = 0x20
_FILES = (ABSENT, FILE, PROGRAM)
_NAMESPACES = frozenset({"refs", "heads", "tags", "remotes", "origin", "upstream"})
_PSEUDO_REF = re.compile(
    "((fetch|orig|merge|cherry_pick|revert|rebase|bisect)_)?head|auto_merge|stash|[0-9a-f]{40}|[0-9a-f]{64}"
)


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
    merge_method: str = ""
    required_checks: Sequence[str] = ()


def read_policy(told: Json, policy_sha256: str) -> Policy:
    """Read the service's answer. Raises ValueError for another policy than that of the run, or no branch."""
    if told["policy_sha256"] != policy_sha256:
        raise ValueError("The policy is not the one that the run began under.")
    policy = told["policy"]
    delivery = policy["code_delivery"]
    scope = policy["scope"]
    if not is_branch(policy["runner"]["default_branch"]):
        raise ValueError("The default branch of the policy is no plain name of a branch.")
    return Policy(
        repository=policy["runner"]["repository"],
        base_branch=policy["runner"]["default_branch"],
        mode=delivery["mode"],
        allowed_paths=scope["allowed_paths"],
        test_commands=scope["test_commands"],
        max_files=scope["max_files_changed"],
        max_lines=scope["max_changed_lines"],
        protected_files=told["protected_files"],
        protected_directories=told["protected_directories"],
        merge_method=delivery.get("merge_method") or "",
        required_checks=delivery.get("required_status_checks") or [],
    )


def find_violations(policy: Policy, changes: Sequence[Changed], base: Iterable[str] = ()) -> list[Violation]:
    """List the broken rules. A change within the policy has none. `base` has the paths before the change."""
    found = [Violation("no_change")] if not changes else []
    if len(changes) > policy.max_files:
        found.append(Violation("too_many_files"))
    if lines_of(changes) > policy.max_lines:
        found.append(Violation("too_many_lines"))
    if sum(change.size for change in changes) > MAX_BYTES:
        found.append(Violation("too_large"))
    seen: set[str] = set()
    spelled = {fold(place): place for path in base for place in _places(path)}
    for change in changes:
        rule = _broken_by(policy, change, seen)
        if rule is None and change.old_mode == ABSENT and _is_respelled(change.path, spelled):
            rule = "path_repeated"
        if rule is not None:
            found.append(Violation(rule, change.path))
        seen.add(change.path.casefold())
    return found


def fold(path: str) -> str:
    """One spelling for all paths that some file system takes for the same."""
    return unicodedata.normalize("NFKC", path).casefold()


def _places(path: str) -> list[str]:
    """A path, and the directories that it lies in."""
    parts = path.split("/")
    return ["/".join(parts[:many]) for many in range(1, len(parts) + 1)]


def _is_respelled(path: str, spelled: dict[str, str]) -> bool:
    """Whether a new path, or a directory of it, is another spelling of one that there is."""
    return any(spelled.get(fold(place), place) != place for place in _places(path))


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
    return _broken_by_kind(change)


def _broken_by_kind(change: Changed) -> str | None:
    """The rule that a kind of files breaks. What a link leads to is outside of every list of paths."""
    if REPOSITORY in (change.old_mode, change.new_mode):
        return "submodule"
    if change.new_mode == LINK:
        return "symbolic_link"
    return None if change.new_mode in _FILES else "special_file"


def is_branch(name: str) -> bool:
    """Whether a name is that of a branch, plain and no spelling of another ref, as the service demands it."""
    if not 0 < len(name) <= _MAXIMUM_BRANCH or name.startswith(("-", "/")) or name.endswith(("/", ".")) or name == "@":
        return False
    if name.casefold().split("/")[0] in _NAMESPACES or _PSEUDO_REF.fullmatch(name.casefold()) or "@{" in name:
        return False
    if any(char in name for char in " ~^:?*[\\") or ".." in name or "//" in name:
        return False
    if any(unicodedata.category(char) in {"Cc", "Cf", "Cn", "Co", "Cs"} for char in name):
        return False
    if unicodedata.normalize("NFKC", name) != name:
        return False
    return not any(part.startswith(".") or part.casefold().endswith(".lock") for part in name.split("/"))


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
