"""A change is what git's own objects say it is, whatever a repair says or leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import NamedTuple

import pytest

from service.runner.files import NotPlain
from service.runner.git import Changed, GitFailed, GitRemote, LeftFile, Objects, Store, open_checkout, place_of
from service.runner.repair import NoRepair, judge
from service.runner.tree import WorkingCopy, read_change, working_copy
from tests.service.runner.test_bounds import policy
from tests.support import long_after
from tests.support.runner.workplace import git

RUN = "run_1"


class Shop(NamedTuple):
    """A clone of a shop whose remote is a bare repository: its stores, its remote, and the directory of all."""

    store: Store
    remote: GitRemote
    directory: Path

    def head(self, branch: str = "main") -> str:
        """The commit of a branch at the remote."""
        return self.store.head(self.remote, branch) or ""

    def copy(self, base: str) -> AbstractContextManager[WorkingCopy]:
        """A working copy of a commit."""
        return working_copy(self.store, RUN, self.remote, "main", base)

    def objects(self, base: str) -> AbstractContextManager[Objects]:
        """A new store on a commit."""
        return self.store.objects(self.remote, "main", base)


@pytest.fixture(params=long_after(1, ["sha256", "sha1"]))
def shop(tmp_path: Path, request: pytest.FixtureRequest) -> Shop:
    """The shop, with each kind of object ids."""
    seed = tmp_path / "seed"
    seed.mkdir()
    git(seed, "init", "--quiet", f"--object-format={request.param}")
    (seed / "a.py").write_text("one\ntwo\nthree\n")
    (seed / "b.bin").write_bytes(b"\0one\ntwo\n")
    (seed / ".gitignore").write_text("*.log\n/build/\n!kept.log/\n")
    (seed / ".gitattributes").write_text("*.txt text eol=crlf\n*.id ident\n*.raw filter=lfs\n")
    (seed / "lines.txt").write_text("one\ntwo\n")
    (seed / "x.id").write_text("$Id$\n")
    (seed / "deep" / "er").mkdir(parents=True)
    (seed / "deep" / "er" / "c.py").write_text("c\n")
    (seed / "link").symlink_to("a.py")
    git(seed, "add", "--all")
    git(seed, "commit", "--quiet", "--message", "Begin")
    git(tmp_path, "clone", "--quiet", "--bare", str(seed), "shop.git")
    git(tmp_path, "clone", "--quiet", "shop.git", "checkout")
    checkout = open_checkout(tmp_path / "checkout", "origin")
    return Shop(Store(checkout.home, tmp_path), GitRemote(checkout.url), tmp_path)


def left_by(shop: Shop, script: str) -> list[LeftFile]:
    """What a script leaves in a working copy."""
    base = shop.head()
    with shop.copy(base) as copy:
        subprocess.run(["sh", "-ec", script], cwd=copy.tree, check=True, capture_output=True)
        with shop.objects(base) as objects:
            return read_change(copy, objects)


def change_by(shop: Shop, script: str) -> list[Changed]:
    """What a script changes in a working copy, as git tells it."""
    entries = left_by(shop, script)
    with shop.objects(shop.head()) as objects:
        return objects.changes(objects.write_tree(entries))


def shown(changes: list[Changed]) -> list[tuple[str, str, str, int]]:
    return [change[:4] for change in changes]


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo four >> a.py", [("a.py", "100644", "100644", 1)]),
        ("git mv a.py c.py", [("a.py", "100644", "000000", 3), ("c.py", "000000", "100644", 3)]),
        ("rm a.py", [("a.py", "100644", "000000", 3)]),
        ("chmod +x a.py", [("a.py", "100644", "100755", 0)]),
        ("ln -s /etc/passwd other", [("other", "000000", "120000", 1)]),
        ("ln -sf b.bin link", [("link", "120000", "120000", 2)]),
        ("rm link; cp a.py link", [("link", "120000", "100644", 4)]),
        ("rm -r deep; echo x > deep", [("deep", "000000", "100644", 1), ("deep/er/c.py", "100644", "000000", 1)]),
        ("rm a.py; mkdir a.py; echo x > a.py/b", [("a.py", "100644", "000000", 3), ("a.py/b", "000000", "100644", 1)]),
        (
            "rm -r deep/er; ln -s /etc deep/er",
            [("deep/er", "000000", "120000", 1), ("deep/er/c.py", "100644", "000000", 1)],
        ),
        ("mkdir build deep/build; echo x | tee build/y > deep/build/y", [("deep/build/y", "000000", "100644", 1)]),
        ("mkdir kept.log; echo x > kept.log/a.log; echo y > kept.log/b", [("kept.log/b", "000000", "100644", 1)]),
        (
            "mkdir -p n/.gitignore; echo x > n/y; mkfifo deep/.gitignore; rm deep/.gitignore",
            [("n/y", "000000", "100644", 1)],
        ),
        ("mkdir n; echo '*' > n/.gitignore; echo x > n/y", []),
        (
            "touch -- '-f' ':(glob)x' '!a'",
            [("!a", "000000", "100644", 0), ("-f", "000000", "100644", 0), (":(glob)x", "000000", "100644", 0)],
        ),
        ("printf '\\0x\\ny\\nz\\n' > b.bin", [("b.bin", "100644", "100644", 5)]),
        ("echo x > kept.log", []),
        ("printf 'x\\n' > \"a\tb\nc\"", [("a\tb\nc", "000000", "100644", 1)]),
        (
            "echo '*.py -diff' > deep/.gitattributes; echo d >> deep/er/c.py",
            [("deep/.gitattributes", "000000", "100644", 1), ("deep/er/c.py", "100644", "100644", 1)],
        ),
        (
            "git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; echo four >> a.py; git switch -qc b",
            [("a.py", "100644", "100644", 1)],
        ),
        ("git update-index --skip-worktree a.py; echo four >> a.py", [("a.py", "100644", "100644", 1)]),
        ("git update-index --assume-unchanged a.py; echo four >> a.py", [("a.py", "100644", "100644", 1)]),
        ("rm -rf .git; echo four >> a.py", [("a.py", "100644", "100644", 1)]),
        (
            "echo a.py > .git/info/exclude; echo new > .git/info/sparse-checkout; echo x > new",
            [("new", "000000", "100644", 1)],
        ),
        ("git replace -f HEAD:a.py HEAD:b.bin; echo four >> a.py", [("a.py", "100644", "100644", 1)]),
        ("printf 'one\\r\\ntwo\\n' > lines.txt", [("lines.txt", "100644", "100644", 2)]),
        ("echo '*.txt -text' > deep/.gitattributes", [("deep/.gitattributes", "000000", "100644", 1)]),
    ],
)
def test_every_kind_of_change_is_seen(shop: Shop, script: str, expected: list[tuple[str, str, str, int]]) -> None:
    """Renames are two files, binary files have lines, and no attribute, index or commit of a repair hides any."""
    assert shown(change_by(shop, script)) == expected


def test_nothing_that_a_repair_configures_is_carried_out(shop: Shop, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("script", "rule"),
    [
        ("git init -q sub", "submodule"),
        ("git init -q deep", "submodule"),
        ("mkdir sub; echo 'gitdir: /tmp' > sub/.git", "submodule"),
        ("mkdir -p sub/.GIT; echo x > sub/.GIT/config", "submodule"),
        ("mkdir .Git; echo x > .Git/config", "path_not_plain"),
        ("mkfifo pipe", "special_file"),
        ("rm a.py; mkfifo a.py", "special_file"),
        ("truncate -s 100G a.py", "too_large"),
        ("truncate -s 6M c d; echo x > e", "too_large"),
        ("printf x > A.py", "path_repeated"),
        ("mkdir DEEP; printf x > DEEP/new", "path_repeated"),
        ("printf x > \"$(printf 'a\\nb')\"", "path_not_plain"),
        ("printf x > \"$(printf 'a\\377')\"", "path_not_plain"),
        ("ln -s /etc/passwd new", "symbolic_link"),
        ("mv a.py b.py; ln -s b.py a.py", "symbolic_link"),
    ],
)
def test_what_is_no_plain_file_breaks_a_rule(shop: Shop, script: str, rule: str) -> None:
    """Repositories inside, pipes, links, endless files, and other spellings of what there is."""
    allowed = ["a.py", "A.py", "b.py", "c", "d", "e", "pipe", "new", "deep/", "DEEP/", "sub", "sub/", "deep"]
    entries = left_by(shop, script)
    with shop.objects(shop.head()) as objects, pytest.raises(NoRepair) as refused:
        judge(objects, policy(allowed_paths=allowed), entries)
    assert rule in str(refused.value)


def test_more_files_than_anybody_reads_are_no_change(shop: Shop) -> None:
    """Nor is a path longer than the system's."""
    with pytest.raises(NotPlain):
        left_by(shop, "mkdir n; cd n; seq 10001 | xargs touch")
    with pytest.raises(NotPlain):
        left_by(shop, f"for n in $(seq 31); do mkdir -p {'d' * 100}; cd {'d' * 100}; done; touch x")


def test_a_submodule_of_the_base_stays_as_it_is(shop: Shop) -> None:
    """Its directory is empty in a copy. Whatever comes into it, or in its place, breaks the rule."""
    seed = shop.directory / "seed"
    commit = git(seed, "rev-parse", "HEAD")
    git(seed, "update-index", "--add", "--cacheinfo", f"160000,{commit},vendored")
    git(seed, "commit", "--quiet", "--message", "Add a submodule")
    git(seed, "push", "--quiet", str(shop.directory / "shop.git"), "main")
    assert left_by(shop, "true") == []
    scripts = ("rmdir vendored", "touch vendored/x", "rmdir vendored; touch vendored", "git init -q vendored")
    for script in scripts:
        [entry] = left_by(shop, script)
        assert entry.path == b"vendored", script
        assert entry.mode in {"000000", "100644", "160000"}


def test_a_commit_goes_from_store_to_store_and_a_branch_is_never_moved(shop: Shop) -> None:
    """The same tree is the same commit. A second push of it changes nothing, and one of another is refused."""
    base = shop.head()
    packed: dict[str, bytes] = {}
    for text in ("other\n", "other\n", "another\n"):
        with shop.objects(base) as objects:
            tree = objects.write_tree([LeftFile(b"a.py", "100644", len(text), text.encode())])
            commit = objects.commit(tree, "Repair it\n", 1700000000)
            assert objects.parents(commit) == [base]
            packed[commit] = objects.pack(commit)
    first, second = packed
    git(shop.directory / "seed", "commit", "--quiet", "--allow-empty", "--message", "Meanwhile")
    git(shop.directory / "seed", "push", "--quiet", str(shop.directory / "shop.git"), "main")
    with shop.objects(base) as objects:
        objects.unpack(packed[first])
        objects.push("repair/run_1", first)
        objects.unpack(packed[second])
        with pytest.raises(GitFailed):
            objects.push("repair/run_1", second)
    assert shop.head("repair/run_1") == first
    assert git(shop.directory / "shop.git", "rev-parse", "repair/run_1^") == base
    assert list(shop.store.home.iterdir()) == []


def test_a_base_is_a_commit_of_its_branch(shop: Shop) -> None:
    """Be it an old one. A commit of another branch is none, nor is one that is nowhere."""
    seed, bare = shop.directory / "seed", str(shop.directory / "shop.git")
    base = shop.head()
    git(seed, "switch", "--quiet", "--create", "other")
    git(seed, "commit", "--quiet", "--allow-empty", "--message", "Elsewhere")
    other = git(seed, "rev-parse", "HEAD")
    git(seed, "switch", "--quiet", "main")
    for number in range(55):
        git(seed, "commit", "--quiet", "--allow-empty", "--message", f"{number}")
    git(seed, "push", "--quiet", bare, "main", "other")
    with shop.objects(base) as objects:
        assert b"a.py" in objects.files()
    for wrong in (other, "0" * len(base)):
        with pytest.raises(GitFailed), shop.objects(wrong):
            raise AssertionError(wrong)


def test_a_working_copy_has_the_bytes_of_its_objects_and_nothing_else(shop: Shop) -> None:
    """No line ending is changed, nothing is filtered, and its repository leads nowhere."""
    base = shop.head()
    with shop.copy(base) as copy:
        assert (copy.tree / "lines.txt").read_bytes() == b"one\ntwo\n"
        assert (copy.tree / "x.id").read_bytes() == b"$Id$\n"
        assert git(copy.tree, "remote") == git(copy.tree, "for-each-ref") == ""
        assert git(copy.tree, "status", "--porcelain") == ""
        assert git(copy.tree, "rev-parse", "HEAD") == base
        repository = copy.tree / ".git"
        assert not (repository / "objects" / "info" / "alternates").exists()
        told = [path.read_bytes() for path in repository.rglob("*") if path.is_file()]
        assert [text for text in told if os.fsencode(shop.directory) in text] == []


@pytest.mark.parametrize("hard", ["closed", "deep", "link"])
def test_a_working_copy_goes_with_what_makes_that_hard(shop: Shop, hard: str) -> None:
    """Directories that cannot be written, endless ones, links in its own place, and those of a killed start."""
    base = shop.head()
    before = shop.directory.stat().st_mode
    left = shop.directory / "service-runner-run_1-left"
    (left / "tree").mkdir(parents=True)
    (shop.directory / "service-runner-run_1-link").symlink_to(shop.directory / "seed")
    with shop.copy(base) as copy:
        assert not left.exists()
        top = copy.tree.parent
        if hard == "closed":
            (copy.tree / "closed").mkdir()
            (copy.tree / "closed" / "file").write_text("x")
            (copy.tree / "closed").chmod(0o000)
        elif hard == "deep":
            script = "import os\nfor _ in range(3000):\n    os.mkdir('d' * 50)\n    os.chdir('d' * 50)"
            subprocess.run([sys.executable, "-c", script], cwd=copy.tree, check=True)
        else:
            top.rename(shop.directory / "moved")
            top.symlink_to(shop.directory / "seed")
    assert not os.path.lexists(top)
    assert (shop.directory / "seed" / "a.py").exists()
    assert shop.directory.stat().st_mode == before


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("https://code.example/acme/shop.git", ("code.example", "acme/shop")),
        ("https://token@Code.Example:8443/acme/shop/", ("code.example:8443", "acme/shop")),
        ("https://code.example:443/acme/shop", ("code.example", "acme/shop")),
        ("git@code.example:acme/shop.git", ("code.example", "acme/shop")),
        ("ssh://git@code.example:22/acme/shop", ("code.example", "acme/shop")),
        ("https://code.example\\@evil.example/acme/shop", None),
        ("https://evil.example#@code.example/acme/shop", None),
        ("https://code.example/acme/shop\n", None),
        ("ext::sh -c touch% x", None),
        ("-oProxyCommand=x:y", None),
        ("/srv/git/shop.git", None),
        ("../shop.git", None),
        ("file:///srv/git/shop.git", None),
    ],
)
def test_where_an_address_leads(url: str, place: tuple[str, str] | None) -> None:
    assert place_of(url) == place
