"""Whether a proposed pull request stays inside its policy (G-109): pure functions over names and numbers.

Paths come from a runner and are hostile until proven otherwise. A path is judged only in its one plain form; any
other spelling of it (dot segments, doubled or backward slashes, trailing dots, compatibility characters, invisible
characters) is a violation by itself, because file systems and code hosts fold such spellings together. Files that
steer coding assistants, CI, hooks, editors, builds and dependency resolution widen the authority of whoever changes
them, so they are within scope only when the policy names the very file.
"""

import fnmatch
import re
import unicodedata
from typing import Literal, NamedTuple

from statemachines.contracts.policy import Policy, Scope
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
    ".gitlab-ci.y*ml", "*.gitlab-ci.y*ml", "azure-pipelines*.y*ml", "jenkinsfile*", "*.jenkinsfile", ".travis.y*ml",
    "bitbucket-pipelines.y*ml", ".drone.*", "appveyor.y*ml", ".appveyor.y*ml", "cloudbuild.y*ml", "buildspec*.y*ml",
    ".cirrus.*", "codefresh.y*ml", "wercker.y*ml", ".woodpecker.y*ml", "circle.yml",
    "screwdriver.y*ml", ".scrutinizer.y*ml", ".zuul.y*ml", "zuul.y*ml", ".prow.y*ml", ".packit.y*ml", "dagger.json",
    "earthfile", ".readthedocs.y*ml", "netlify.toml", "vercel.json", "amplify.y*ml", "heroku.yml",
    "procfile", "codeowners", "owners", "owners_aliases", "action.y*ml", "dependabot.y*ml", "renovate.json*",
    ".renovaterc*", ".mergify.y*ml", ".kodiak.toml", "bors.toml", ".gitmodules", ".gitattributes", ".gitconfig",
    ".lfsconfig",
)  # fmt: skip
"""Names of files that CI, review rules or the code host itself act on."""

CI_DIRECTORIES = (
    ".github", ".gitea", ".forgejo", ".gitlab", ".gitlab-ci", ".circleci", ".buildkite", ".woodpecker", ".teamcity",
    ".tekton", ".semaphore", ".harness", ".azure-pipelines", ".azuredevops", ".azure", ".pipelines", ".jenkins",
    ".drone", ".zuul.d", "zuul.d", ".ci", ".dagger", ".mergify",
)  # fmt: skip
"""Names of directories that CI, review rules or the code host itself act on."""

HOOK_FILES = (
    ".pre-commit-config.y*ml", ".pre-commit-hooks.y*ml", "lefthook.*", ".lefthook.*", "lefthook-local.*",
    ".lefthook-local.*", ".huskyrc*", "husky.config.*", ".simple-git-hooks.*", "simple-git-hooks.*", ".lintstagedrc*",
    "lint-staged.config.*", ".commitlintrc*", "commitlint.config.*", ".overcommit.yml", "captainhook.json",
    "grumphp.y*ml", ".yorkie", ".ghooks*",
)  # fmt: skip
"""Names of files that say what runs when somebody commits or pushes."""

HOOK_DIRECTORIES = (".husky", ".githooks", ".git-hooks", ".hooks", "githooks", ".lefthook", ".lefthook-local")
"""Names of directories whose files run when somebody commits or pushes."""

EDITOR_FILES = (
    "*.code-workspace", "*.sublime-project", "*.sublime-workspace", ".exrc", ".nvimrc", ".nvim.lua", ".vimrc",
    ".lvimrc", "_vimrc", ".lazy.lua", ".dir-locals*.el", ".envrc", ".gdbinit", ".lldbinit", ".devcontainer.json",
    "devcontainer.json", ".gitpod.*", ".replit", "replit.nix", ".stackblitzrc", ".tmuxinator.yml",
)  # fmt: skip
"""Names of files by which an editor, a shell or a debugger runs something when the folder is opened."""

EDITOR_DIRECTORIES = (
    ".vscode", ".vscode-server", ".idea", ".run", ".fleet", ".zed", ".vs", ".nova", ".helix", ".nvim", ".vim",
    ".devcontainer", ".idx", ".codesandbox", ".gitpod",
)  # fmt: skip
"""Names of directories in which editors keep tasks, launch settings and extensions."""

BUILD_FILES = (
    "gradlew", "gradlew.*", "mvnw", "mvnw.*", "sbtw", "millw", "mill", "amperw*", "kotlinw*", "gradle-wrapper.*",
    "maven-wrapper.*", ".bazelrc", "*.bazelrc", ".bazelversion", ".buckconfig", ".buckconfig.*", "pants.toml",
    ".pants.rc", "build.xml", "build.cake", "build.ps1", "build.cmd", "makefile", "gnumakefile", "bsdmakefile",
    "justfile", ".justfile", "taskfile.*", "rakefile*", "noxfile.py", "tox.ini", "turbo.json", "nx.json",
    "gulpfile.*", "gruntfile.*", "jakefile*", "cakefile", "magefile.go", "mage.go", "cmakepresets.json",
    "cmakeuserpresets.json",
)  # fmt: skip
"""Names of build wrappers, and of files that name the commands which people and CI run."""

BUILD_DIRECTORIES = (".mvn", ".gradle", ".bazel", ".buckconfig.d", "magefiles")
"""Names of directories of build wrappers."""

PACKAGE_FILES = (
    "package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml",
    "pnpm-workspace.yaml", "bun.lock", "bun.lockb", "bunfig.toml", "deno.json*", "deno.lock", "jsr.json", ".npmrc",
    ".pnpmfile.*", "lerna.json",
    "pyproject.toml", "setup.py", "setup.cfg", "*requirements*.txt", "*requirements*.in", "*constraints*.txt",
    "pipfile", "pipfile.lock", "poetry.lock", "uv.lock", "uv.toml", "pdm.lock", "pylock*.toml", "pip.conf",
    "environment.y*ml", "conda-lock.yml", "pixi.toml", "pixi.lock",
    ".yarnrc*", ".pnp.*", "bower.json", ".bowerrc", ".corepack.env", ".nvmrc", ".node-version", "rush.json",
    "poetry.toml", "pdm.toml", ".pdm-python", ".pdm.toml", "hatch.toml", "pip.ini", ".pypirc", ".condarc", ".pdbrc",
    ".python-version", "sitecustomize.py", "usercustomize.py", "*.pth", ".tool-versions", "mise.toml", "mise.*.toml",
    ".mise.toml", ".mise.*.toml", ".asdfrc", ".prototools", ".sdkmanrc", ".java-version", ".ruby-version",
    ".ruby-gemset", ".php-version", "devbox.json", "devbox.lock", "devenv.*", "shell.nix", "default.nix", "brewfile*",
    "dotnet-tools.json", "nextest.toml", "*.targets", "*.props", "symfony.lock",
    "cargo.toml", "cargo.lock", "rust-toolchain*", "go.mod", "go.sum", "go.work", "go.work.sum",
    "gemfile", "gemfile.lock", "gems.rb", "gems.locked", "*.gemspec", "composer.json", "composer.lock",
    "pom.xml", "*.gradle", "*.gradle.kts", "gradle.lockfile", "gradle.properties",
    "libs.versions.toml", "build.sbt", "ivy.xml", "*.csproj", "*.fsproj", "*.vbproj", "*.sln", "packages.config",
    "packages.lock.json", "directory.packages.props", "directory.build.*", "nuget.config", "global.json",
    "paket.dependencies", "paket.lock", "mix.exs", "mix.lock", "rebar.config", "rebar.lock", "pubspec.yaml",
    "pubspec.lock", "package.swift", "package.resolved", "podfile", "podfile.lock", "cartfile*", "flake.nix",
    "flake.lock", "*.cabal", "cabal.project*", "stack.yaml*", "conanfile.*", "conan.lock", "vcpkg.json",
    "module.bazel*", "workspace", "workspace.bazel", "deps.edn", "project.clj", "cpanfile*", "renv.lock",
    "project.toml", "manifest.toml", "elm.json", "shard.yml", "shard.lock", "dune-project", "*.opam", "rockspec",
)  # fmt: skip
"""Names of package manifests, lock files, and settings of resolvers and tool chains, in any directory."""

PACKAGE_DIRECTORIES = (
    ".yarn", ".pnpm", ".npm", ".bun", ".cargo", ".bundle", ".m2", ".nuget", ".composer", ".swiftpm", ".mise", ".asdf",
    ".rush", "rush-plugins",
)  # fmt: skip
"""Names of directories of package managers: what they hold is run, or says what is run."""

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


PROTECTED_FILES = (*ASSISTANT_FILES, *CI_FILES, *HOOK_FILES, *EDITOR_FILES, *BUILD_FILES, *PACKAGE_FILES)
"""Names and patterns of all files that a policy has to name one by one."""

PROTECTED_DIRECTORIES = (
    *ASSISTANT_DIRECTORIES,
    *CI_DIRECTORIES,
    *HOOK_DIRECTORIES,
    *EDITOR_DIRECTORIES,
    *BUILD_DIRECTORIES,
    *PACKAGE_DIRECTORIES,
)
"""Names of all directories whose files a policy has to name one by one."""

_DIRECTORIES = frozenset(PROTECTED_DIRECTORIES)
# A proof names up to a thousand files: names are looked up, and patterns are one search.
_PROTECTED_NAMES = frozenset(name for name in PROTECTED_FILES if "*" not in name)
_PROTECTED_PATTERN = re.compile("|".join(fnmatch.translate(name) for name in PROTECTED_FILES if "*" in name))


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
    """Whether a file steers assistants, CI, hooks, editors, builds or dependency resolution. Case does not count."""
    *directories, name = path.casefold().split("/")
    if not _DIRECTORIES.isdisjoint(directories) or name in _PROTECTED_NAMES:
        return True
    return _PROTECTED_PATTERN.match(name) is not None


_NAMESPACES = frozenset({"refs", "heads", "tags", "remotes", "origin", "upstream"})
"""First parts by which git looks for a ref elsewhere: `heads/main` and `origin/main` are spellings of `main`."""
_PSEUDO_REF = re.compile(
    "((fetch|orig|merge|cherry_pick|revert|rebase|bisect)_)?head|auto_merge|stash|[0-9a-f]{40}|[0-9a-f]{64}"
)
"""What git reads as a pointer of its own, or as a commit; a file system that folds case makes `head` one too."""


def is_branch(name: str) -> bool:
    """Whether a name is a plain branch name: valid for git, and no spelling of another ref."""
    if name.startswith(("-", "/")) or name.endswith(("/", ".")) or "@{" in name or name == "@":
        return False
    if name.casefold().split("/")[0] in _NAMESPACES or _PSEUDO_REF.fullmatch(name.casefold()):
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
        ("too_many_lines", binding.changed_lines <= scope.max_changed_lines),
        ("tests_differ", tests_hold(binding, scope.test_commands)),
    ]
    broken = [Violation(rule) for rule, holds in checks if not holds]
    return [*broken, *find_file_violations(scope, binding.files_changed)]


def find_file_violations(scope: Scope, paths: list[str]) -> list[Violation]:
    """Every rule that a list of changed files breaks, whoever made the list; empty when it is within scope (G-147)."""
    broken = [] if len(paths) <= scope.max_files_changed else [Violation("too_many_files")]
    return [*broken, *_path_violations(paths, scope.allowed_paths)]


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
