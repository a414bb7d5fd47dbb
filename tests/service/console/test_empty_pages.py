"""Pages without anything to show: each says the next step, with a command that works as it stands."""

from __future__ import annotations

import asyncio
import os
import re
from html import unescape
from pathlib import Path

import pytest

from tests.support.api import World
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.console import Shown, browser_of

pytestmark = pytest.mark.shares_server

ROOT = Path(__file__).parents[3]
TEMPLATES = ROOT / "service" / "console" / "templates"
REFERENCE = ROOT / "docs" / "reference" / "command-line.md"
EMPTY = re.compile(
    r'<div class="empty"><p>(.*?)</p>'
    r'(?:<div class="copied"><pre tabindex="0"><code>(.*?)</code></pre>'
    r'<button [^>]*data-copy="([^"]*)"[^>]*>Copy</button></div>)?</div>',
    re.DOTALL,
)


def commands_of(page: Shown) -> list[str]:
    """The commands of the empty states of a page. Fails for an empty state without any."""
    found = EMPTY.findall(page.html)
    assert found, page.text
    assert all(command and command == copied for _, command, copied in found), page.text
    return [unescape(command) for _, command, _ in found]


async def run(command: str, secret: str) -> str:
    """What a command prints. Fails when it fails."""
    process = await asyncio.create_subprocess_exec(
        *("bash", "-c", f"{command} -sS --fail-with-body"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "SERVICE_API_KEY": secret},
    )
    said, _ = await process.communicate()
    assert process.returncode == 0, f"{command}\n{said.decode()}"
    return said.decode()


@pytest.mark.parametrize(
    ("place", "made"),
    [
        ("webhooks", '"secret"'),
        ("notifications", '"origin"'),
        ("alerts", '"threshold_op":"lt"'),
        ("public-queries", '"publishable_key"'),
        ("credentials", '"credential"'),
        ("suppressions", '"windows"'),
        ("views", '"link"'),
    ],
)
async def test_the_command_of_an_empty_page_takes_the_next_step(world: World, place: str, made: str) -> None:
    owner = await world.sign_in()
    project_id = (await owner.create_project("Shop"))["id"]
    [command] = commands_of(await (await browser_of(owner)).open(f"projects/{project_id}/{place}"))
    assert made in await run(command, owner.secret)


async def test_the_command_of_the_first_page_creates_a_project(world: World) -> None:
    owner = await world.sign_in()
    browser = await browser_of(owner)
    [command] = commands_of(await browser.open(""))
    await run(command, owner.secret)
    assert not EMPTY.findall((await browser.open("")).html)


@pytest.mark.parametrize(
    "place", ["cases", "logs", "people", "automation", "onboarding", "runs", "receipts", "reports", "source-maps"]
)
async def test_every_other_empty_page_has_a_command(world: World, place: str) -> None:
    owner = await world.sign_in()
    project_id = (await owner.create_project("Shop"))["id"]
    assert commands_of(await (await browser_of(owner)).open(f"projects/{project_id}/{place}"))


def test_commands_of_the_service_exist() -> None:
    known = set(re.findall(r"^## `service ([a-z ]+?)(?: [\[A-Z].*)?`", REFERENCE.read_text(), re.MULTILINE))
    texts = {path: path.read_text() for path in TEMPLATES.rglob("*.html")}
    named = {
        (path.name, name)
        for path, text in texts.items()
        for name in re.findall(r'(?:<code>|<pre tabindex="0">|")service ([a-z]+ [a-z]+)', text)
    }
    assert {name for _, name in named} >= {"console open", "jobs list", "projections rebuild", "log status"}
    assert {(path, name) for path, name in named if name not in known} == set()
