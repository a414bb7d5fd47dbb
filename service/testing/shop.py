"""The shop of every world: what its owner plans, and its repository with an error, and the record of pushes."""

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

OWNER = "acme"
NAME = f"{OWNER}/shop"
WEB = f"https://code.example/{NAME}"
BASE = "main"


class WorldFailed(Exception):
    """A program or a service of the world is missing or did not do its part. The message says which."""


# The plan of the shop, as its owner would have written it.

EVENT = "order_paid"
FAILURE = "payment_declined"
ENVIRONMENT = "production"
TEST_COMMAND = "sh check.sh"
SHA, FINGERPRINT = "a" * 40, "b" * 64
_ALGORITHM = "service-source-tree-sha256-v1"


def snapshot() -> dict[str, Any]:
    """A source snapshot."""
    return {
        "git_head_sha": SHA,
        "source_fingerprint_sha256": FINGERPRINT,
        "source_fingerprint_algorithm": _ALGORITHM,
    }


def plan() -> dict[str, Any]:
    """A plan with one event and one error."""
    target = {"file": "src/cart.py", "anchor": "def average(cart):"}
    return {
        "business_question": "How many customers pay?",
        "plan_markdown": "# Plan\nA customer pays for an order.",
        "source_snapshot": snapshot(),
        "historical_evidence": None,
        "milestones": [
            {
                "event": EVENT,
                "meaning": "A payment is stored.",
                "provider_boundary": "server_provider",
                "properties": [],
                "targets": [target],
            }
        ],
        "failures": [
            {
                "marker": FAILURE,
                "meaning": "The bank says no.",
                "provider_boundary": "server_provider",
                "context": [],
                "safe_live_proof": True,
                "targets": [target],
            }
        ],
        "deploy": {"environment": ENVIRONMENT, "sha_source": "git_head", "targets": [target]},
    }


# The repository of the product, with an error in it: a bare one, a checkout for the runner, and a record of pushes.

CART = '''\
"""The cart of the shop."""


def average(cart):
    """The average price of the items in a cart."""
    return sum(item["price"] for item in cart) / len(cart)
'''
TEST = """\
import unittest

import cart


class EmptyCart(unittest.TestCase):
    def test_an_empty_cart_costs_nothing(self):
        self.assertEqual(cart.average([]), 0)
"""
GUARD = "    if not cart:\n        return 0\n"
REPAIR = f"""\
#!{sys.executable} -IB
# A right repair, in the checkout that is the working directory.
from pathlib import Path

cart, test = Path("src/cart.py"), Path("tests/test_cart.py")
text = cart.read_text()
if {GUARD!r} not in text:
    cart.write_text(text.replace("    return sum", {GUARD!r} + "    return sum", 1))
test.parent.mkdir(exist_ok=True)
test.write_text({TEST!r})
"""
CHECK = f"PYTHONPATH=src exec {shlex.quote(sys.executable)} -B -c 'import cart; cart.average([])'\n"
HOOK = """\
#!/bin/sh
# Keeps the time, the ref and the commit of each push.
while read -r old new ref; do echo "$(date +%s.%N) $new $ref" >> "$GIT_DIR/pushes"; done
"""
GIT_SECONDS = 60


class Pushed(NamedTuple):
    """A push of one branch: when it arrived, and the commit it left (None: the branch was deleted)."""

    at: float
    branch: str
    sha: str | None


class Diff(NamedTuple):
    """What a branch changes against the base: the paths, and lines added and removed."""

    paths: list[str]
    lines: int


def plain_git(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which git is as it comes out of the box, and the caller's own service is unknown."""
    kept = {name: value for name, value in environment.items() if not name.startswith(("SERVICE_", "GIT_", "GITHUB_"))}
    plain = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0"}
    return {**kept, **plain}


class ShopRepository:
    """The repository at the code host, and the runner's checkout of it."""

    def __init__(self, directory: Path) -> None:
        self.bare = directory / "shop.git"
        self.checkout = directory / "checkout"
        self.repair = directory / "repair"
        self._environment = plain_git(os.environ)
        self._make()

    def _make(self) -> None:
        bare, checkout = str(self.bare), str(self.checkout)
        self._git("init", "--quiet", "--bare", "--initial-branch", BASE, bare)
        self._git("clone", "--quiet", bare, checkout)
        for name, value in (("user.name", "Runner"), ("user.email", "runner@example.invalid"), ("gc.auto", "0")):
            self._git("-C", checkout, "config", name, value)
        self._git("-C", checkout, "symbolic-ref", "HEAD", f"refs/heads/{BASE}")
        (self.checkout / "src").mkdir()
        (self.checkout / "src" / "cart.py").write_text(CART)
        (self.checkout / "check.sh").write_text(CHECK)
        (self.checkout / ".gitignore").write_text("__pycache__/\n")
        self._git("-C", checkout, "add", "--all")
        self._git("-C", checkout, "commit", "--quiet", "--message", "Open the shop")
        self._git("-C", checkout, "push", "--quiet", "origin", BASE)
        self._git("-C", checkout, "branch", "--quiet", f"--set-upstream-to=origin/{BASE}", BASE)
        for path, text in ((self.bare / "hooks" / "post-receive", HOOK), (self.repair, REPAIR)):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            env=self._environment,
            check=False,
            capture_output=True,
            text=True,
            timeout=GIT_SECONDS,
        )
        if done.returncode != 0:
            raise WorldFailed(f"git {arguments[0]} failed: {done.stderr.strip()[-500:]}")
        return done.stdout.strip()

    def pushes(self) -> list[Pushed]:
        """Every push, in order."""
        record = self.bare / "pushes"
        rows = [line.split(" ", 2) for line in record.read_text().splitlines()] if record.exists() else []
        return [
            Pushed(float(at), ref.removeprefix("refs/heads/"), sha if sha.strip("0") else None) for at, sha, ref in rows
        ]

    def diff(self, sha: str) -> Diff:
        """What a pushed commit changes against the base."""
        listed = self._git("-C", str(self.bare), "diff", "--numstat", "--no-renames", "-z", f"{BASE}...{sha}", "--")
        rows = [row.split("\t", 2) for row in listed.split("\0") if row]
        lines = sum(int(count) for added, removed, _ in rows for count in (added, removed) if count.isdigit())
        return Diff([path for _, _, path in rows], lines)

    def written(self, sha: str) -> str:
        """Messages and changes of the commits that a push added."""
        return self._git("-C", str(self.bare), "log", "--patch", "--no-color", f"{BASE}..{sha}", "--")
