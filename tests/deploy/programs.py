"""Programs of the system that deployment files are for."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SYSTEMD = "systemd-analyze", "systemd"
COMPOSE = "docker-compose", "docker-compose"


def program(name: str, package: str) -> str:
    """The path of a program; its tests are skipped without it, except in CI, which installs the Debian package."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        reason = f"{name} is not installed (Debian package {package})"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def check_unit(unit: Path) -> None:
    """Assert that `systemd-analyze verify` accepts a unit and has nothing to say of it."""
    done = _run([program(*SYSTEMD), "verify", "--man=no", str(unit)])
    ours = [line for line in (done.stdout + done.stderr).splitlines() if unit.name in line]
    assert (done.returncode, ours) == (0, [])


def composed(file: Path) -> str:
    """What compose makes of a file that it accepts, with the one variable that ours need."""
    command = [program(*COMPOSE), "-f", str(file), "config"]
    done = _run(command, SERVICE_BASE_URL="https://service.example.com")
    assert done.returncode == 0, done.stderr
    return done.stdout


def _run(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
