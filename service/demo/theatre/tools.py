"""The programs that the demo needs besides Python."""

from __future__ import annotations

import shutil
import subprocess

from service.demo.theatre.stage import DemoFailed

NODE_MAJOR = 20


def find_git() -> str:
    """Return the path of git. Raises DemoFailed that says what to install."""
    git = shutil.which("git")
    if git is None:
        raise DemoFailed("The demo keeps its product in a git repository: install git, then run it again.")
    return git


def find_node() -> str:
    """Return the path of a Node that is new enough. Raises DemoFailed that says what to install."""
    node = shutil.which("node")
    if node is None:
        raise DemoFailed(
            f"Node.js {NODE_MAJOR} or later is needed for the source snapshot: install it "
            "(Debian: apt-get install nodejs), then run the demo again."
        )
    done = subprocess.run([node, "--version"], check=False, capture_output=True, text=True)
    version = done.stdout.strip()
    major = version.lstrip("v").split(".")[0]
    if not major.isdecimal() or int(major) < NODE_MAJOR:
        raise DemoFailed(
            f"Node.js {NODE_MAJOR} or later is needed for the source snapshot; {node} is {version or 'broken'}."
        )
    return node
