"""A change is what git's own objects say it is, whatever a repair says or leaves behind."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from service.runner.git import Changed, GitFailed, GitRemote, Store, place_of
from tests.support.runner.workplace import git


@pytest.fixture
def shop(tmp_path: Path) -> Store:
    """A clone of a shop, whose remote is a bare repository."""
    seed = tmp_path / "seed"
    seed.mkdir()
    git(seed, "init", "--quiet")
    (seed / "a.py").write_text("one\ntwo\nthree\n")
    (seed / "b.bin").write_bytes(b"\0one\ntwo\n")
    (seed / ".gitignore").write_text("*.log\n")
    git(seed, "add", "--all")
    git(seed, "commit", "--quiet", "--message", "Begin")
    git(tmp_path, "clone", "--quiet", "--bare", str(seed), "shop.git")
    git(tmp_path, "clone", "--quiet", "shop.git", "checkout")
    return Store(tmp_path / "checkout", "origin", tmp_path)


def change_by(shop: Store, script: str) -> list[Changed]:
    """What a script changes in a working copy."""
    base = shop.prepare(GitRemote(shop.url), "main")
    with shop.working_copy("run_1", base) as copy:
        subprocess.run(["sh", "-ec", script], cwd=copy.tree, check=True, capture_output=True)
        return shop.changes(base, shop.read_files(copy, base))


def shown(changes: list[Changed]) -> list[tuple[str, str, str, int]]:
    return [change[:4] for change in changes]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo four >> a.py", [("a.py", "100644", "100644", 1)]),
        ("git mv a.py c.py", [("a.py", "100644", "000000", 3), ("c.py", "000000", "100644", 3)]),
        ("rm a.py", [("a.py", "100644", "000000", 3)]),
        ("chmod +x a.py", [("a.py", "100644", "100755", 0)]),
        ("ln -s /etc/passwd link", [("link", "000000", "120000", 1)]),
        ("printf '\\0x\\ny\\nz\\n' > b.bin", [("b.bin", "100644", "100644", 5)]),
        ("echo x > kept.log", []),
        ("printf 'x\\n' > \"a\tb\nc\"", [("a\tb\nc", "000000", "100644", 1)]),
        (
            "echo '*.py -diff' > .gitattributes; echo four >> a.py",
            [(".gitattributes", "000000", "100644", 1), ("a.py", "100644", "100644", 1)],
        ),
        (
            "git init -q sub; git -C sub -c user.name=a -c user.email=a@b commit -q --allow-empty -m x",
            [("sub", "000000", "160000", 1)],
        ),
        (
            "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; echo four >> a.py; git switch -qc b",
            [("a.py", "100644", "100644", 1)],
        ),
        ("git update-index --skip-worktree a.py; echo four >> a.py", [("a.py", "100644", "100644", 1)]),
    ],
)
def test_every_kind_of_change_is_seen(shop: Store, script: str, expected: list[tuple[str, str, str, int]]) -> None:
    """Renames are two files, binary files have lines, and no attribute, index or commit of a repair hides any."""
    assert shown(change_by(shop, script)) == expected


def test_nothing_that_a_repair_configures_is_carried_out(shop: Store, tmp_path: Path) -> None:
    """Neither hooks, nor filters, nor a monitor of files, nor a diff program."""
    script = f"""
    git config core.fsmonitor 'touch {tmp_path}/ran-monitor'
    git config core.hooksPath hooks; mkdir hooks
    for hook in pre-commit post-checkout reference-transaction pre-push; do
      printf '#!/bin/sh\\ntouch {tmp_path}/ran-hook\\n' > hooks/$hook; chmod +x hooks/$hook
    done
    git config filter.evil.clean 'touch {tmp_path}/ran-filter; cat'
    git config diff.evil.command 'touch {tmp_path}/ran-diff'
    git config diff.evil.textconv 'touch {tmp_path}/ran-textconv; cat'
    echo '*.py filter=evil diff=evil' > .gitattributes
    echo four >> a.py
    """
    paths = [change.path for change in change_by(shop, script)]
    assert "a.py" in paths
    assert list(tmp_path.glob("ran-*")) == []


def test_the_same_tree_is_the_same_commit_and_a_branch_is_never_moved(shop: Store, tmp_path: Path) -> None:
    """A second push of it changes nothing, and one of another commit is refused."""
    remote = GitRemote(shop.url)
    base = shop.prepare(remote, "main")
    with shop.working_copy("run_1", base) as copy:
        (copy.tree / "a.py").write_text("other\n")
        tree = shop.read_files(copy, base)
        (copy.tree / "a.py").write_text("another\n")
        second = shop.read_files(copy, base)
    commits = [shop.commit("run_1", found, base, "Repair it\n", 1700000000) for found in (tree, tree, second)]
    assert commits[0] == commits[1] != commits[2]
    assert shop.has("run_1", commits[2])
    shop.push(remote, "repair/run_1", commits[0])
    assert shop.pushed(remote, "repair/run_1") == commits[0]
    with pytest.raises(GitFailed):
        shop.push(remote, "repair/run_1", commits[2])
    assert shop.pushed(remote, "repair/run_1") == commits[0]
    shop.forget("run_1")
    assert not shop.has("run_1", commits[2])


def test_a_working_copy_goes_with_what_makes_that_hard(shop: Store, tmp_path: Path) -> None:
    """Directories that cannot be written, and those that a killed start has left."""
    base = shop.prepare(GitRemote(shop.url), "main")
    left = tmp_path / "service-runner-run_1-left"
    (left / "tree").mkdir(parents=True)
    with shop.working_copy("run_1", base) as copy:
        assert not left.exists()
        (copy.tree / "closed").mkdir()
        (copy.tree / "closed" / "file").write_text("x")
        (copy.tree / "closed").chmod(0o000)
    assert not copy.tree.parent.exists()


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://code.example/acme/shop.git", ("code.example", "acme/shop")),
        ("https://token@Code.Example:8443/acme/shop/", ("code.example", "acme/shop")),
        ("git@code.example:acme/shop.git", ("code.example", "acme/shop")),
        ("ssh://git@code.example:22/acme/shop", ("code.example", "acme/shop")),
        ("/srv/git/shop.git", None),
        ("../shop.git", None),
        ("file:///srv/git/shop.git", None),
    ],
)
def test_where_an_address_leads(url: str, place: tuple[str, str] | None) -> None:
    assert place_of(url) == place
