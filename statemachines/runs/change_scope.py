"""Whether a proposed pull request stays inside its policy (G-109): pure functions over names and numbers.

Paths come from a runner and are hostile until proven otherwise. A path is judged only in its one plain form; any
other spelling of it (dot segments, doubled or backward slashes, trailing dots, compatibility characters, invisible
characters) is a violation by itself, because file systems and code hosts fold such spellings together. Files that
steer coding assistants, CI and dependency resolution widen the authority of whoever changes them, so they are within
scope only when the policy names the very file.
"""

from __future__ import annotations

import fnmatch
import unicodedata
from typing import Literal, NamedTuple

from statemachines.contracts.policy import Policy
from statemachines.kernel.machine import Rejection
from statemachines.runs.grant import DraftPrBinding

Rule = Literal[
    "repository_differs",
    "base_branch_differs",
    "head_branch_invalid",
    "head_branch_is_base",
    "too_many_files",
    "too_many_lines",
    "tests_differ",
    "path_not_plain",
    "path_repeated",
    "path_outside_scope",
    "path_protected",
]

ASSISTANT_FILES = (
    "agents.md", "agent.md", "agents.override.md", "claude.md", "claude.local.md", "gemini.md", "qwen.md", "codex.md",
    "copilot-instructions.md", "*.instructions.md", "*.prompt.md", "skill.md",
    ".cursorrules", ".cursorignore", ".windsurfrules", ".clinerules", ".roorules", ".roomodes", ".goosehints",
    ".aider*", ".mcp.json", "mcp.json", ".replit.md", "replit.md", ".augment-guidelines", ".rules", "warp.md",
)  # fmt: skip
"""Names, in lower case, of files from which coding assistants take instructions, in any directory."""

ASSISTANT_DIRECTORIES = (
    ".claude", ".cursor", ".windsurf", ".clinerules", ".roo", ".codex", ".gemini", ".continue", ".junie", ".kiro",
    ".amazonq", ".augment", ".goose", ".opencode", ".agents", ".agent", ".trae",
)  # fmt: skip
"""Names of directories in which everything steers a coding assistant, wherever they stand."""

CI_FILES = (
    ".gitlab-ci.yml", ".gitlab-ci.yaml", "*.gitlab-ci.yml", "azure-pipelines*.yml", "azure-pipelines*.yaml",
    "jenkinsfile*", ".travis.yml", "bitbucket-pipelines.yml", ".drone.yml", "appveyor.yml", ".appveyor.yml",
    "cloudbuild.y*ml", "buildspec*.y*ml", ".cirrus.yml", "codefresh.yml", "wercker.yml", ".pre-commit-config.yaml",
    "codeowners", ".gitmodules", ".gitattributes", "action.yml", "action.yaml", "dependabot.y*ml", "renovate.json*",
    ".renovaterc*",
)  # fmt: skip
"""Names of files that CI, review rules or the code host itself act on."""

CI_DIRECTORIES = (
    ".github", ".gitea", ".forgejo", ".gitlab", ".circleci", ".buildkite", ".woodpecker", ".teamcity", ".tekton",
    ".semaphore", ".harness", ".azure-pipelines", ".husky", ".githooks", ".devcontainer",
)  # fmt: skip
"""Names of directories that CI, review rules or the code host itself act on."""

PACKAGE_FILES = (
    "package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", ".yarnrc*", "pnpm-lock.yaml",
    "pnpm-workspace.yaml", "bun.lock", "bun.lockb", "bunfig.toml", "deno.json*", "deno.lock", "jsr.json", ".npmrc",
    ".pnpmfile.cjs", "lerna.json",
    "pyproject.toml", "setup.py", "setup.cfg", "*requirements*.txt", "*requirements*.in", "*constraints*.txt",
    "pipfile", "pipfile.lock", "poetry.lock", "uv.lock", "uv.toml", "pdm.lock", "pylock*.toml", "pip.conf",
    "environment.y*ml", "conda-lock.yml", "pixi.toml", "pixi.lock",
    "cargo.toml", "cargo.lock", "rust-toolchain*", "go.mod", "go.sum", "go.work", "go.work.sum",
    "gemfile", "gemfile.lock", "gems.rb", "gems.locked", "*.gemspec", "composer.json", "composer.lock",
    "pom.xml", "*.gradle", "*.gradle.kts", "gradle.lockfile", "gradle.properties", "gradle-wrapper.*",
    "libs.versions.toml", "build.sbt", "ivy.xml", "*.csproj", "*.fsproj", "*.vbproj", "*.sln", "packages.config",
    "packages.lock.json", "directory.packages.props", "directory.build.*", "nuget.config", "global.json",
    "paket.dependencies", "paket.lock", "mix.exs", "mix.lock", "rebar.config", "rebar.lock", "pubspec.yaml",
    "pubspec.lock", "package.swift", "package.resolved", "podfile", "podfile.lock", "cartfile*", "flake.nix",
    "flake.lock", "*.cabal", "cabal.project*", "stack.yaml*", "conanfile.*", "conan.lock", "vcpkg.json",
    "module.bazel*", "workspace", "workspace.bazel", "deps.edn", "project.clj", "cpanfile*", "renv.lock",
    "project.toml", "manifest.toml", "elm.json", "shard.yml", "shard.lock", "dune-project", "*.opam", "rockspec",
)  # fmt: skip
"""Names of package manifests, lock files and resolver settings, in any directory."""

GIT_DIRECTORY_NAMES = (".git", "git~1")
"""What no repository path may contain; the second is the short name of the first on some file systems."""

_MAXIMUM_PATH = 500
_LOWEST_PRINTABLE = 0x20


class ScopeViolation(Rejection):
    """The change leaves the approved bounds; `details.violations` lists every rule broken (G-109)."""

    code = "scope_violation"


class Violation(NamedTuple):
    """One broken rule. `file` is the place of the path in `files_changed`, so that no text has to be repeated."""

    rule: Rule
    file: int | None = None


class _Names(NamedTuple):
    files: tuple[str, ...]
    directories: tuple[str, ...]


_PROTECTED = (
    _Names(ASSISTANT_FILES, ASSISTANT_DIRECTORIES),
    _Names(CI_FILES, CI_DIRECTORIES),
    _Names(PACKAGE_FILES, ()),
)


def is_plain(path: str) -> bool:
    """Whether a path is in its one plain form: relative, `/` between non-empty segments, nothing a system folds."""
    if not 0 < len(path) <= _MAXIMUM_PATH or "\\" in path or unicodedata.normalize("NFKC", path) != path:
        return False
    if any(
        ord(char) < _LOWEST_PRINTABLE or unicodedata.category(char) in {"Cc", "Cf", "Cn", "Co", "Cs"} for char in path
    ):
        return False
    return all(_segment_is_plain(segment) for segment in path.split("/"))


def _segment_is_plain(segment: str) -> bool:
    if segment in {"", ".", ".."} or segment != segment.strip() or segment.endswith("."):
        return False
    if segment.casefold() in GIT_DIRECTORY_NAMES:
        return False
    return not any(char in segment for char in ':*?"<>|')


def within(path: str, allowed: list[str]) -> bool:
    """Whether a plain path equals an entry, or lies under one that ends in `/` or `/**`. Case counts."""
    for entry in allowed:
        if path == entry:
            return True
        prefix = entry.removesuffix("**")
        if prefix.endswith("/") and is_plain(prefix[:-1]) and path.startswith(prefix):
            return True
    return False


def is_protected(path: str) -> bool:
    """Whether a file steers coding assistants, CI or dependency resolution. Case does not count."""
    *directories, name = path.casefold().split("/")
    return any(
        any(directory in names.directories for directory in directories)
        or any(fnmatch.fnmatchcase(name, pattern) for pattern in names.files)
        for names in _PROTECTED
    )


def is_branch(name: str) -> bool:
    """Whether a name is a plain branch name: what git accepts, and no spelling of another ref."""
    if name.startswith(("refs/", "-", "/")) or name.endswith(("/", ".")) or "@{" in name or name == "@":
        return False
    if any(char in name for char in " ~^:?*[\\") or ".." in name or "//" in name:
        return False
    if any(unicodedata.category(char) in {"Cc", "Cf", "Cn", "Co", "Cs"} for char in name):
        return False
    if unicodedata.normalize("NFKC", name) != name:
        return False
    return not any(part.startswith(".") or part.casefold().endswith(".lock") for part in name.split("/"))


def _path_violations(paths: list[str], allowed: list[str]) -> list[Violation]:
    violations = []
    seen: set[str] = set()
    for index, path in enumerate(paths):
        folded = path.casefold()
        if not is_plain(path):
            violations.append(Violation("path_not_plain", index))
        elif folded in seen:
            violations.append(Violation("path_repeated", index))
        elif not within(path, allowed):
            violations.append(Violation("path_outside_scope", index))
        elif is_protected(path) and path not in allowed:
            violations.append(Violation("path_protected", index))
        seen.add(folded)
    return violations


def find_violations(policy: Policy, binding: DraftPrBinding) -> list[Violation]:
    """Every rule that a proposed pull request breaks, in a fixed order; empty when it is within scope."""
    scope = policy.scope
    checks: list[tuple[Rule, bool]] = [
        ("repository_differs", binding.repository == policy.repository),
        ("base_branch_differs", binding.base_branch == policy.default_branch),
        ("head_branch_invalid", is_branch(binding.head_branch)),
        ("head_branch_is_base", binding.head_branch.casefold() != policy.default_branch.casefold()),
        ("too_many_files", len(binding.files_changed) <= scope.max_files_changed),
        ("too_many_lines", binding.changed_lines <= scope.max_changed_lines),
        ("tests_differ", tests_hold(binding, scope.test_commands)),
    ]
    broken = [Violation(rule) for rule, holds in checks if not holds]
    return [*broken, *_path_violations(binding.files_changed, scope.allowed_paths)]


def tests_hold(binding: DraftPrBinding, commands: list[str]) -> bool:
    """Whether exactly the policy's commands ran, in order, and all passed."""
    return [test.command for test in binding.tests] == commands and all(test.passed for test in binding.tests)


def to_details(violations: list[Violation]) -> list[dict[str, str | int]]:
    """Return violations as the refusal's details list them, without any text of the caller's."""
    return [_to_detail(item) for item in violations]


_ALLOWED_BY = (
    "The owner lists this exact path in scope.allowed_paths of the policy, beside any directory, "
    "saves the contract and enables it again."
)


def _to_detail(violation: Violation) -> dict[str, str | int]:
    detail: dict[str, str | int] = {"rule": violation.rule}
    if violation.file is not None:
        detail["file_index"] = violation.file
    if violation.rule == "path_protected":
        detail["allowed_by"] = _ALLOWED_BY
    return detail
