"""The runner judges a change as the service does, before anybody is asked (G-109)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.runner.bounds import Policy, find_violations, is_branch, lines_of
from service.runner.git import Changed
from statemachines.contracts.policy import Scope
from statemachines.runs.change_scope import PROTECTED_DIRECTORIES, PROTECTED_FILES, find_file_violations
from statemachines.runs.change_scope import is_branch as is_branch_of_service

ALLOWED = ["src/", "tests/**", "setup.py", "docs/guide.md"]
PARTS = st.sampled_from(
    [
        "src",
        "tests",
        "docs",
        ".github",
        "SRC",
        ".Git",
        "git~1",
        "..",
        ".",
        "",
        "a b",
        " a",
        "a.",
        "ﬁ",
        "a\u200b",
        "x:y",
        "é",
    ]
)
NAMES = st.sampled_from(
    ["a.py", "setup.py", "Makefile", "package.json", "guide.md", "AGENTS.md", "x.gradle.kts", "Ä.py"]
)
PATHS = st.builds(lambda parts, name: "/".join([*parts, name]), st.lists(PARTS, max_size=3), NAMES) | st.text(
    max_size=30
)


def policy(**changes: object) -> Policy:
    """A policy of the shop."""
    made = Policy(
        repository="https://code.example/acme/shop",
        base_branch="main",
        mode="review_required",
        allowed_paths=ALLOWED,
        test_commands=["make test"],
        max_files=5,
        max_lines=100,
        protected_files=list(PROTECTED_FILES),
        protected_directories=list(PROTECTED_DIRECTORIES),
    )
    return made._replace(**changes)


def changed(path: str, lines: int = 1, old: str = "100644", new: str = "100644", size: int = 1) -> Changed:
    return Changed(path, old, new, lines, size)


@given(st.lists(PATHS, min_size=1, max_size=8))
def test_paths_are_judged_as_the_service_judges_them(paths: list[str]) -> None:
    """The same rules are broken by the same files."""
    scope = Scope(allowed_paths=ALLOWED, test_commands=["make test"], max_files_changed=5, max_changed_lines=100)
    theirs = {(one.rule, "" if one.file is None else paths[one.file]) for one in find_file_violations(scope, paths)}
    assert {tuple(one) for one in find_violations(policy(), [changed(path) for path in paths])} == theirs


def test_what_git_calls_no_file_is_no_change_of_a_file() -> None:
    """A new link and every submodule are refused. A link may be removed."""
    rules = {
        "symbolic_link": changed("src/a", new="120000"),
        "submodule": changed("src/b", new="160000"),
        "submodule ": changed("src/c", old="160000", new="000000"),
    }
    for rule, change in rules.items():
        assert [one.rule for one in find_violations(policy(), [change])] == [rule.strip()]
    assert find_violations(policy(), [changed("src/a", old="120000", new="000000")]) == []


def test_how_much_changed() -> None:
    """Files, lines and bytes have a bound each. A change of nothing is no change, a change of a mode is one line."""
    assert [one.rule for one in find_violations(policy(), [])] == ["no_change"]
    assert find_violations(policy(), [changed("src/a", 100)]) == []
    assert [one.rule for one in find_violations(policy(), [changed("src/a", 101)])] == ["too_many_lines"]
    assert [one.rule for one in find_violations(policy(), [changed("src/a", size=10**8)])] == ["too_large"]
    assert lines_of([changed("src/a", 0)]) == 1


@given(
    st.lists(st.sampled_from(["main", "HEAD", "heads", "a.lock", ".a", "a b", "..", "@{", "é", "ﬁ", "-", "~", ""])).map(
        "/".join
    )
    | st.text(max_size=20)
    | st.sampled_from(["a" * 40, "@", "stash", "fetch_head", "refs/heads/main", "a" * 201])
)
def test_a_branch_is_what_the_service_takes_for_one(name: str) -> None:
    """Within the length that a request may have."""
    assert is_branch(name) == (0 < len(name) <= 200 and is_branch_of_service(name))
