"""Reading a guide as a newcomer does: its sections, the files to save, and its commands, typed into one shell."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.server import ServerHandle

HEADING = re.compile(r"#{1,6} (.+)")
FENCE = re.compile(r"```(\w*)$")
SAVED = re.compile(r"Save this as `([^`]+)`")
RUN = "sh"

WORLD = '''
"""While somebody sleeps, a person decides on the sign-in that waits, here or at a provider, and time passes."""
import json, os, pathlib, re, sys, time
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

def post(path, body, token):
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    urlopen(Request(os.environ["WORLD_URL"] + path, json.dumps(body).encode(), headers), timeout=10).read()

device = pathlib.Path("device.json")
if device.exists():
    identity = {"provider": "example", "subject": "newcomer", "email": "newcomer@example.com"}
    code = json.loads(device.read_text())["user_code"]
    try:
        post("/v1/auth/device/authorize", {"user_code": code, "identity": identity}, os.environ["WORLD_INTERNAL"])
    except HTTPError:
        pass
connection = pathlib.Path("connection.json")
if connection.exists():
    started = json.loads(connection.read_text())
    try:
        page = urlopen(started["authorization_url"], timeout=30)
        text = page.read().decode()
        fields = dict(re.findall(r'<input type="hidden" name="([a-z]+)" value="([^"]*)">', text))
        if started["user_code"] in text:
            urlopen(page.url.partition("?")[0], urlencode(fields | {"decision": "allow"}).encode(), timeout=30)
    except HTTPError:
        pass
post("/v1/test-clock/advance", {"seconds": int(sys.argv[1])}, os.environ["WORLD_TEST"])
time.sleep(0.3)
'''


class Block(NamedTuple):
    """A fenced block: the slug of its section, its language, its text, and the file to save it as ("": none)."""

    section: str
    language: str
    text: str
    file: str


def slug(heading: str) -> str:
    """The anchor of a heading, as renderers of Markdown make it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(markdown: str) -> set[str]:
    """The anchors of all headings."""
    return {slug(found[1]) for line in _prose(markdown) if (found := HEADING.fullmatch(line))}


def links(markdown: str) -> list[str]:
    """The targets of all links in the prose, and of the addresses that stand in angle brackets."""
    prose = "\n".join(_prose(markdown))
    return [*re.findall(r"\]\(([^)\s]+)\)", prose), *re.findall(r"<(https?://[^>]+)>", prose)]


def ways(markdown: str) -> list[set[str]]:
    """The sections of each way that a guide lets its reader choose from, in their order."""
    rows = [line for line in _of_section(markdown, "choose-a-way") if line.startswith("| reports ")]
    return [set(re.findall(r"\]\(#([^)]+)\)", row)) for row in rows]


def _of_section(markdown: str, name: str) -> Iterator[str]:
    inside = False
    for line in _prose(markdown):
        if heading := HEADING.fullmatch(line):
            inside = slug(heading[1]) == name
        elif inside:
            yield line


def _prose(markdown: str) -> Iterator[str]:
    inside = False
    for line in markdown.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            yield line


def blocks(markdown: str) -> list[Block]:
    """The fenced blocks in their order."""
    found, section, language, file = [], "", None, ""
    lines: list[str] = []
    for line in markdown.splitlines():
        if language is not None:
            if line == "```":
                found.append(Block(section, language, "\n".join(lines) + "\n", file))
                language, file, lines = None, "", []
            else:
                lines.append(line)
        elif fence := FENCE.fullmatch(line):
            language = fence[1]
        elif heading := HEADING.fullmatch(line):
            section, file = slug(heading[1]), ""
        elif saved := SAVED.match(line):
            file = saved[1]
    assert language is None, "a fence is not closed"
    return found


class Shell:
    """One bash session in which a newcomer works. `sleep` lets the service's time pass, and people act."""

    def __init__(self, folder: Path, server: ServerHandle) -> None:
        self._folder = folder
        self._count = 0
        world = folder / ".world.py"
        world.write_text(WORLD)
        env = {
            **os.environ,
            "GIT_AUTHOR_NAME": "Newcomer",
            "GIT_AUTHOR_EMAIL": "newcomer@example.com",
            "GIT_COMMITTER_NAME": "Newcomer",
            "GIT_COMMITTER_EMAIL": "newcomer@example.com",
            "PYTHONDONTWRITEBYTECODE": "1",
            "WORLD_URL": server.base_url,
            "WORLD_INTERNAL": server.internal_token,
            "WORLD_TEST": server.test_token,
        }
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            env=env,
        )
        self.type(f'set -eo pipefail\nsleep() {{ python3 {world} "$1"; }}\n')

    def type(self, commands: str) -> str:
        """Run commands; returns what they print. Fails the test with it when one of them fails."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._count += 1
        script = self._folder / f".block-{self._count}.sh"
        script.write_text(commands)
        mark = f"---- block {self._count} ended ----"
        self._bash.stdin.write(f". {script} </dev/null\necho\necho '{mark}'\n")
        self._bash.stdin.flush()
        told: list[str] = []
        for line in self._bash.stdout:
            if line.rstrip("\n") == mark:
                return "".join(told)
            told.append(line)
        raise AssertionError(f"A command of a guide failed:\n{commands}\n{''.join(told)}")

    def follow(self, block: Block) -> str:
        """Do what a block says: save it, or run it. What is neither is to be read."""
        if block.file:
            target = self._folder / block.file
            target.parent.mkdir(exist_ok=True)
            target.write_text(block.text)
            return ""
        return self.type(block.text) if block.language == RUN else ""

    def close(self) -> None:
        """End the session."""
        self._bash.kill()
        self._bash.communicate()


@contextmanager
def open_shell(folder: Path, server: ServerHandle) -> Iterator[Shell]:
    """Open a session in a folder, and end it."""
    shell = Shell(folder, server)
    try:
        yield shell
    finally:
        shell.close()
