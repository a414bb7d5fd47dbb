"""The bounds of a pull request: plain paths, exact prefixes, protected files, branches, limits, tests (G-109)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines.contracts.policy import Policy, Scope
from statemachines.runs.change_scope import (
    Violation,
    find_file_violations,
    find_violations,
    is_branch,
    is_plain,
    is_protected,
    to_details,
    within,
)
from statemachines.runs.grant import DraftPrBinding, TestRun

POLICY = Policy(
    repository="https://code.example/acme/shop",
    default_branch="main",
    scope=Scope(["src/", "tests/**", "docs/guide.md", "web/package.json"], ["make lint", "make test"], 3, 100),
)
BINDING = DraftPrBinding(
    repository="https://code.example/acme/shop",
    base_branch="main",
    head_branch="heal/1",
    head_sha="a" * 40,
    delivery_mode="review_required",
    files_changed=["src/cart.py"],
    changed_lines=100,
    tests=[TestRun("make lint", passed=True), TestRun("make test", passed=True)],
    title=None,
)


def violations(**changes) -> list[Violation]:
    return find_violations(POLICY, msgspec.structs.replace(BINDING, **changes))


def test_a_change_within_every_bound_has_no_violation():
    assert violations() == []
    assert violations(files_changed=["src/a/b.py", "tests/test_a.py", "docs/guide.md"]) == []


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"repository": "https://code.example/acme/shop.git"}, "repository_differs"),
        ({"repository": "https://code.example/acme/Shop"}, "repository_differs"),
        ({"base_branch": "develop"}, "base_branch_differs"),
        ({"head_branch": "main"}, "head_branch_is_base"),
        ({"head_branch": "Main"}, "head_branch_is_base"),
        ({"head_branch": "refs/heads/main"}, "head_branch_invalid"),
        ({"changed_lines": 101}, "too_many_lines"),
        ({"tests": []}, "tests_differ"),
        ({"tests": BINDING.tests[:1]}, "tests_differ"),
        ({"tests": BINDING.tests[::-1]}, "tests_differ"),
        ({"tests": [*BINDING.tests, TestRun("make more", passed=True)]}, "tests_differ"),
        ({"tests": [BINDING.tests[0], TestRun("make test", passed=False)]}, "tests_differ"),
    ],
)
def test_each_bound_is_held(changes, rule):
    assert [item.rule for item in violations(**changes)] == [rule]


def test_too_many_files_and_every_bad_path_are_all_named():
    files = ["src/a", "../x", "src/a", "lib/b"]
    assert violations(files_changed=files) == [
        Violation("too_many_files"),
        Violation("path_not_plain", 1),
        Violation("path_repeated", 2),
        Violation("path_outside_scope", 3),
    ]
    assert to_details(violations(files_changed=files))[1] == {"rule": "path_not_plain", "file_index": 1}


@pytest.mark.parametrize(
    "path",
    [
        "", "/etc/passwd", "../x", "src/../x", "src/..", "src/./x", "./src/x", "src//x", "src/",
        "src\\x", "C:/x", "C:x",
        "src/x.", "src/x ", " src/x", "src /x", "src/.git/config", ".git/hooks/x", ".GIT/config", "src/git~1/x",
        "src/x\x00", "src/x\n", "src/\x1b[2J", "src/\u202egnp.exe", "src/\u200bx", "src/\ufeffx", "src/ﬁ.py",
        "src/ｘ.py", "src/cafe\u0301.py", "src/\u2024\u2024/x", "src/\uff0e\uff0e/x", "src\uff0fx", "src/a:b", "src/a*",
        "src/a?", 'src/"a"', "src/<a>", "src/a|b", "s" * 501,
    ],
)  # fmt: skip
def test_only_the_one_plain_spelling_of_a_path_is_read(path):
    assert not is_plain(path)
    assert violations(files_changed=[path]) == [Violation("path_not_plain", 0)]


@pytest.mark.parametrize("path", ["src/x.py", "src/a b.py", "src/café.py", "src/.hidden", "src/a-b_c+d@e", "src/..x"])
def test_ordinary_paths_are_plain(path):
    assert is_plain(path)
    assert violations(files_changed=[path]) == []


@pytest.mark.parametrize(
    ("path", "inside"),
    [
        ("src/x", True), ("src/a/b/c", True), ("srcx/a", False), ("src", False), ("SRC/x", False), ("Src/x", False),
        ("tests/x", True), ("tests", False), ("docs/guide.md", True), ("docs/guide.md/x", False),
        ("docs/other.md", False),
        ("a/src/x", False),
    ],
)  # fmt: skip
def test_entries_are_exact_or_prefixes_that_say_so(path, inside):
    assert within(path, POLICY.scope.allowed_paths) is inside


@pytest.mark.parametrize("entry", ["/", "/**", "**", "*", "", "../", "src", "./", "//", "src/*"])
def test_an_entry_that_names_no_plain_prefix_allows_nothing_below_it(entry):
    assert not within("src/x", [entry])
    assert not within("x", [entry])


PROTECTED = [
    "AGENTS.md", "src/AGENTS.md", "src/deep/CLAUDE.md", "GEMINI.md", ".cursorrules", "src/.cursor/rules/a.mdc",
    ".github/copilot-instructions.md", "src/.github/workflows/ci.yml", ".windsurfrules", ".clinerules/a",
    "src/agents.MD", "src/Claude.md", "src/.claude/settings.json", "src/.mcp.json", "src/x.instructions.md",
    ".gitlab-ci.yml", "src/Jenkinsfile", ".circleci/config.yml", "azure-pipelines.yml",
    "src/CODEOWNERS", "src/action.yml",
    "package.json", "src/package.json", "src/package-lock.json", "src/yarn.lock", "src/pnpm-lock.yaml",
    "pyproject.toml",
    "src/requirements.txt", "src/requirements-dev.txt", "src/poetry.lock", "src/uv.lock", "src/Cargo.toml",
    "src/Cargo.lock", "src/go.mod", "src/go.sum", "src/Gemfile", "src/Gemfile.lock", "src/composer.lock", "src/pom.xml",
    "src/build.gradle.kts", "src/App.csproj", "src/mix.lock", "src/.npmrc", "src/setup.py", "src/pubspec.yaml",
    ".travis.yaml", "src/.travis.yml", "bitbucket-pipelines.yaml", ".drone.star", "src/ops.gitlab-ci.yaml",
    ".woodpecker.yaml", ".readthedocs.yaml", "OWNERS", ".gitconfig", "src/.ci/build.sh", ".azuredevops/policy.yml",
    "lefthook.yml", ".lefthook.toml", "lefthook-local.yaml", ".pre-commit-config.yaml", ".pre-commit-hooks.yaml",
    ".lintstagedrc.json", ".simple-git-hooks.cjs", ".git-hooks/pre-push", ".lefthook/pre-commit/x.sh", ".husky/_/h",
    ".vscode/tasks.json", "src/.vscode/launch.json", ".VSCode/settings.json", ".idea/runConfigurations/x.xml",
    ".zed/tasks.json", ".fleet/run.json", "shop.code-workspace", ".envrc", ".dir-locals.el", ".nvim.lua", ".exrc",
    ".devcontainer.json", ".gitpod.yml", "src/shop.sublime-project",
    ".mvn/wrapper/maven-wrapper.properties", ".mvn/jvm.config", "mvnw", "mvnw.cmd", "gradlew", "gradlew.bat",
    "gradle/wrapper/gradle-wrapper.jar", ".bazelrc", "Makefile", "src/GNUmakefile", "justfile", "Taskfile.yml",
    "Rakefile", "tox.ini", "noxfile.py", "turbo.json", "Gruntfile.js",
    ".yarn/releases/yarn-4.cjs", ".yarn/plugins/x.cjs", ".yarnrc.yml", ".pnp.cjs", ".pnpmfile.mjs",
    ".cargo/config.toml", ".bundle/config", ".config/dotnet-tools.json", ".config/nextest.toml", ".python-version",
    "mise.toml", ".tool-versions", "src/sitecustomize.py", "src/x.pth", "poetry.toml", "shell.nix", "bower.json",
]  # fmt: skip


@pytest.mark.parametrize("path", PROTECTED)
def test_files_that_steer_assistants_ci_or_packages_need_to_be_named(path):
    """Even under an allowed prefix they are a violation, in any spelling of case, until the policy names the file."""
    assert is_protected(path)
    wide = msgspec.structs.replace(POLICY, scope=Scope([path.rsplit("/", 1)[0] + "/", "src/"], [], 9, 999))
    change = msgspec.structs.replace(BINDING, files_changed=[path], tests=[])
    expected = "path_protected" if "/" in path else "path_outside_scope"
    assert [item.rule for item in find_violations(wide, change)] == [expected]
    named = msgspec.structs.replace(POLICY, scope=Scope([path], [], 9, 999))
    assert find_violations(named, change) == []


@pytest.mark.parametrize(
    "path",
    [
        "src/cart.py", "src/agents.py", "src/claude/x.py", "src/package.jsonx", "src/gohelp.mod", "src/vscode/x.ts",
        "src/travis.py", "src/yarn/releases.md", "src/lefthooks.py", "src/ownership.py", "src/make_file.py",
        "src/heading.md", "src/hooks/useCart.ts", "src/ci/parser.py", "src/github.py", "docs/makefile.md",
        "src/mvnwrapper.java", "src/environment.py",
    ],
)  # fmt: skip
def test_ordinary_files_are_not_protected(path):
    assert not is_protected(path)


@pytest.mark.parametrize(
    "name",
    [
        "refs/heads/x", "-x", "/x", "x/", "x.", "a..b", "a//b", "a b", "a~b", "a^b", "a:b", "a?b", "a*b", "a[b", "a\\b",
        "a@{b", "@", "x.lock", "a/.b", "a/x.LOCK", "a\x00", "a\nb", "a\u202eb", "ａ",
        "heads/main", "Heads/main", "refs", "REFS/heads/x", "tags/v1", "remotes/origin/main", "origin/main", "origin",
        "Origin/HEAD", "upstream/main", "HEAD", "head", "FETCH_HEAD", "ORIG_HEAD", "merge_head", "AUTO_MERGE", "stash",
        "a" * 40, "0" * 64,
    ],
)  # fmt: skip
def test_what_git_or_a_host_could_read_as_another_ref_is_no_branch(name):
    assert not is_branch(name)


@pytest.mark.parametrize(
    "name", ["main", "heal/1", "fix/heads/main", "feature/origin", "header", "heal/HEAD", "fix_head", "a" * 41, "abc"]
)
def test_ordinary_branches_are_branches(name):
    assert is_branch(name)


def test_a_list_of_files_is_judged_alone():
    """Whoever made it: by number, form, prefix and protection (G-147)."""
    scope = Scope(["src/"], [], 2, 1)
    assert find_file_violations(scope, ["src/a", "src/b"]) == []
    assert find_file_violations(scope, ["src/a", "src/.vscode/tasks.json", "lib/b"]) == [
        Violation("too_many_files"),
        Violation("path_protected", 1),
        Violation("path_outside_scope", 2),
    ]


@given(st.text(max_size=30))
def test_no_text_at_all_escapes_the_scope(path):
    """Whatever is accepted as plain and within a prefix stays below it when a file system resolves it."""
    full = f"src/{path}"
    if violations(files_changed=[full]) == []:
        parts = full.split("/")
        assert parts[0] == "src"
        assert not {"", ".", ".."} & set(parts)
        assert "\\" not in full
