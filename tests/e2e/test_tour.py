"""The tour, the tutorials and the how-tos: their commands, typed into a shell, give what the pages show."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.loop.http_scene import open_scene
from tests.support.provider import FakeProvider, running_provider
from tests.support.server import ServerHandle

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WRITTEN = [ROOT / "README.md", *sorted(DOCS.glob("tutorial/*.md")), *sorted(DOCS.glob("how-to/*.md"))]
PAGES = [page for page in WRITTEN if "\n    $ " in page.read_text(encoding="utf-8")]
PREPARED = """
export PATH="$PWD/.venv/bin:$PATH"
ask() { curl -s "http://localhost:8000$2" -H "authorization: Bearer $1" -H 'content-type: application/json' "${@:3}"; }
pick() { python3 -c "import json, sys; print(json.load(sys.stdin)['$1'])"; }
KEY=$(service keys create --email you@example.com 2>/dev/null)
PROJECT=$(ask "$KEY" /v1/projects -d '{"name": "Shop"}')
P=$(pick id <<< "$PROJECT"); DSN=$(pick dsn <<< "$PROJECT")
ask "$DSN" /v1/logs/ -d '{"level": "error", "message": "Order 4711 failed"}' > /dev/null
"""
"""What a how-to begins with: the helpers of the tutorial, a key, a project and an error."""

MAILED = {"SERVICE_SMTP_URL": "smtp://127.0.0.1:9", "SERVICE_SMTP_SENDER": "service@example.com"}
"""The settings of a mail server, which the how-to on notifications takes for granted."""
AUTOMATED = ("runner", "stop")
"""How-tos that begin with an enabled automation `heal`, and with a receipt for an error."""


@contextmanager
def prepared_for(page: Path, server: ServerHandle) -> Iterator[str]:
    """Prepare what a page begins with; yields the commands that name it."""
    if page.stem in AUTOMATED:
        with open_scene(server) as scene:
            scene.prepare()
            scene.error(2)
            scene.issue()
            secrets = scene.world.secrets
            yield f"{PREPARED}KEY={secrets['owner']}; P={scene.world.project_id}; DSN={secrets['dsn']}\n"
    else:
        yield PREPARED if page.parent.name == "how-to" else ""


def commands_and_answers(page: Path) -> list[tuple[str, str]]:
    """Each line after a `$` in a page, with what is shown below it."""
    blocks = re.findall(r"(?:^    .*\n)+", page.read_text(encoding="utf-8"), re.MULTILINE)
    lines = [line[4:] for block in blocks if "    $ " in block for line in block.splitlines()]
    found: list[tuple[str, str]] = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line[2:], ""))
        else:
            found[-1] = (found[-1][0], found[-1][1] + line + "\n")
    return found


def form(text: str) -> str:
    """A text without what differs each time: ids, secrets, hashes, times, and how it is spaced."""
    text = re.sub(r"[a-z]+_[0-9a-z]{26}\b|[a-z]+_[0-9a-z]+…|service_[a-z]+_[0-9A-Za-z]+|[0-9a-f]{32}", "*", text)
    text = re.sub(r"[0-9]{4}-[0-9]{2}-[0-9]{2} +[0-9:]{8}|127\.0\.0\.1:[0-9]+|localhost:[0-9]+", "*", text)
    return re.sub(r"\s+", "", text)


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with running_provider() as running:
        yield running


@pytest.fixture
def serving(page: Path, request: pytest.FixtureRequest) -> ServerHandle:
    """The server that a page is typed at: one for all, and a new one where the page says what is in it."""
    if page.stem == "notifications":
        return request.getfixturevalue("server_factory")(env=MAILED)
    if page.stem != "first-steps":
        return request.getfixturevalue("server")
    provider = request.getfixturevalue("provider")
    return request.getfixturevalue("server_factory")(env=provider.unknown_env)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_goes_as_it_is_written(serving: ServerHandle, tmp_path: Path, page: Path) -> None:
    """Every piece of an answer, between the places where a page leaves something out, is in the real one in order."""
    steps = commands_and_answers(page)
    assert steps
    for program in re.findall(r"Save this as `(.+?)`.*?```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL):
        (tmp_path / program[0]).write_text(program[1], encoding="utf-8")
    mark = "---next step---"
    with prepared_for(page, serving) as prepared:
        script = prepared + "\n".join(f"echo '{mark}'\n{command}" for command, _ in steps)
        script = script.replace(":8000", f":{serving.port}").replace("$PWD/.venv/bin", str(Path(sys.executable).parent))
        script = script.replace("service --data-dir", "env -u SERVICE_DATABASE_URL service --data-dir")
        done = subprocess.run(
            ["bash", "-c", script],
            env=serving.env,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    answers = done.stdout.split(f"{mark}\n")[1:]
    assert len(answers) == len(steps), done.stdout
    for (command, shown), answer in zip(steps, answers, strict=True):
        rest = form(answer)
        for piece in filter(None, form(shown).split("…")):
            _, found, rest = rest.partition(piece)
            if not found:
                pytest.fail(f"$ {command}\n{page.name} shows {piece!r}, the service answered\n{answer}")
