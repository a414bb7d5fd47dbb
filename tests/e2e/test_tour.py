"""README's tour, typed into a shell against a fresh service, gives what README shows."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.server import ServerFactory

ROOT = Path(__file__).parents[2]
TOUR = re.search(r"^## A tour.*?(?=^## )", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def commands_and_answers() -> list[tuple[str, str]]:
    """Each line after a `$`, with what is shown below it."""
    assert TOUR is not None
    blocks = re.findall(r"(?:^    .*\n)+", TOUR[0], re.MULTILINE)
    lines = [line[4:] for block in blocks for line in block.splitlines()]
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


def test_the_tour_goes_as_it_is_written(server_factory: ServerFactory, database_url: str, tmp_path: Path) -> None:
    """Every piece of an answer, between the places where README leaves something out, is in the real one in order."""
    server = server_factory.prepare(database_url=database_url)
    server.start()
    steps = commands_and_answers()
    assert len(steps) > 12
    mark = "---next step---"
    script = "\n".join(f"echo '{mark}'\n{command.replace(':8000', f':{server.port}')}" for command, _ in steps)
    done = subprocess.run(
        ["bash", "-c", script.replace("$PWD/.venv/bin", str(Path(sys.executable).parent))],
        env=server.env,
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
                pytest.fail(f"$ {command}\nREADME shows {piece!r}, the service answered\n{answer}")
