"""Programs of the customer are bounded, and nothing of them is left; the command says how it is used."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

LEAVES = "setsid sh -c 'sleep 300 & sleep 300' & sleep 1; exit 4"
CHILD = """
import sys
from pathlib import Path
from service.runner import child

class Enough(Exception): ...

def beat():
    beats.append(1)
    if len(beats) == int(sys.argv[3]):
        raise Enough

beats = []
child.harden()
heartbeat = child.Heartbeat(beat, 0.2)
try:
    how = {"seconds": float(sys.argv[2]), "heartbeat": heartbeat}
    ended = child.run(["sh", "-c", sys.argv[1]], Path("."), {"PATH": "/usr/bin:/bin"}, **how)
    print(ended.code, ended.late)
except Enough:
    print("enough")
print(child._children())
"""


def run(script: str, seconds: float = 60, beats: int = 1000) -> subprocess.CompletedProcess[bytes]:
    """Run a program as the runner does, in a process of its own."""
    command = [sys.executable, "-c", CHILD, script, str(seconds), str(beats)]
    return subprocess.run(command, capture_output=True, check=True)


def test_what_a_program_leaves_behind_is_ended() -> None:
    """Also what has left its process group."""
    began = time.monotonic()
    assert run(LEAVES).stdout.decode() == "4 False\n[]\n"
    assert time.monotonic() - began < 200


def test_a_program_ends_with_its_time_and_with_its_lease() -> None:
    """Late, or when a renewal is refused."""
    assert run("sleep 300", seconds=0.5).stdout.decode() == "-9 True\n[]\n"
    assert run("sleep 300", beats=2).stdout.decode() == "enough\n[]\n"


def test_a_megabyte_of_output_is_shown() -> None:
    """The rest is dropped, and the program does not wait for anybody."""
    done = run("head -c 3000000 /dev/zero")
    assert (len(done.stderr), done.stdout.decode()) == (1024 * 1024, "0 False\n[]\n")


def test_a_program_does_not_see_the_environment_of_the_runner() -> None:
    """It gets the variables that it is given, and those of its shell."""
    done = run("env | cut -d= -f1 | sort | tr '\\n' ' '")
    assert set(done.stderr.decode().split()) <= {"PATH", "PWD", "OLDPWD", "SHLVL", "_"}


@pytest.mark.parametrize(
    ("words", "environment", "said"),
    [
        (["--", "true"], {}, "are needed"),
        ([], {"SERVICE_URL": "http://x", "SERVICE_RUNNER_API_KEY": "k", "SERVICE_PROJECT_ID": "p"}, "CMD"),
        (
            ["--pass", "GITHUB_TOKEN", "--", "true"],
            {"SERVICE_URL": "http://x", "SERVICE_RUNNER_API_KEY": "k", "SERVICE_PROJECT_ID": "p"},
            "does not hand GITHUB_TOKEN on",
        ),
        (["--turns", "0", "--", "true"], {}, "--turns"),
    ],
)
def test_wrong_use_is_told(words: list[str], environment: dict[str, str], said: str, tmp_path: Path) -> None:
    """With exit code 2, before anything is asked."""
    command = [sys.executable, "-m", "service.runner.command", *words]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert said in done.stderr
