"""A page in a headless Chromium, also with scripts switched off: its requests, and what a policy blocks."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.support.rounds import wait_until
from tests.support.snippets.browser import CHROMIUM
from tests.support.snippets.programs import needed

SECONDS = 60
URL = re.compile(r'"url":("(?:[^"\\]|\\.)*")')
BLOCKED = "violates the following Content Security Policy"


class Shown(NamedTuple):
    """What the browser asked for, the messages about what its policy blocked, and the document that it made."""

    requests: set[str]
    blocked: list[str]
    document: str


def show(folder: Path, url: str, *flags: str) -> Shown:
    """Load a page to its end."""
    network = folder / "network.json"
    done = subprocess.run(
        [*_command(folder, network), *flags, "--dump-dom", url],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS,
        check=True,
    )
    blocked = [line for line in done.stderr.splitlines() if BLOCKED in line]
    return Shown(_requests(network), blocked, done.stdout)


def show_without_scripts(folder: Path, url: str, last: str) -> set[str]:
    """Open a page with scripts switched off, and close it once it has asked for `last`; the requests."""
    network = folder / "network.json"
    command = [*_command(folder, network), "--blink-settings=scriptEnabled=false", "--remote-debugging-port=0", url]
    with (folder / "chromium.log").open("wb") as log:
        browser = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
    try:
        wait_until(lambda: last in _requests(network), SECONDS)
    finally:
        browser.terminate()
        try:
            browser.wait(10)
        except subprocess.TimeoutExpired:
            browser.kill()
            browser.wait()
    return _requests(network)


def _command(folder: Path, network: Path) -> list[str]:
    folder.mkdir()
    return [
        *(shutil.which(CHROMIUM) or needed(CHROMIUM, CHROMIUM), "--no-sandbox", "--disable-gpu", "--no-first-run"),
        *("--disable-dev-shm-usage", "--no-proxy-server", "--disable-background-networking"),
        *(f"--user-data-dir={folder / 'profile'}", f"--log-net-log={network}", "--enable-logging=stderr"),
    ]


def _requests(network: Path) -> set[str]:
    """The addresses in the browser's log of its network, whole or not."""
    text = network.read_text(errors="replace") if network.exists() else ""
    return {json.loads(found) for found in URL.findall(text)}
