"""Behind the wall a program works in its copy, and neither sees nor changes what the runner stands on."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
from pathlib import Path

import pytest

from service.runner import wall
from service.runner.wall import Wall

HAS_NAMESPACES = Wall([], []).stands(Path("/"))
needs_namespaces = pytest.mark.skipif(not HAS_NAMESPACES, reason="this machine has no namespaces of users")
pytestmark = needs_namespaces


def behind(tmp_path: Path, script: str, **changes: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a script in a copy, behind a wall."""
    where = tmp_path / "copy"
    where.mkdir(exist_ok=True)
    command = Wall([], [])._replace(**changes).before(["sh", "-c", script], where)
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_it_is_the_same_user_without_any_right(tmp_path: Path) -> None:
    """Root has no capability there, and gains none by a namespace of its own."""
    seen = behind(tmp_path, "id -u; pwd; grep Cap /proc/self/status; grep NoNewPrivs /proc/self/status").stdout.split()
    assert seen[0] == str(os.geteuid())
    assert seen[1] == str(tmp_path / "copy")
    told = dict(zip(seen[2::2], seen[3::2], strict=True))
    assert {int(told[f"Cap{kind}:"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
    assert told["NoNewPrivs:"] == "1"


def test_it_sees_its_own_processes_alone(tmp_path: Path) -> None:
    """The runner, and the shell that started it with its secrets, are not there."""
    word = secrets.token_hex(16)
    secret = subprocess.Popen(["sleep", "900"], env={"SECRET": word, "PATH": os.environ["PATH"]})
    try:
        script = f"cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; kill -9 {secret.pid}; ls /proc"
        fixed = tmp_path / "fixed-and-not-told"
        fixed.mkdir()
        done = behind(tmp_path, script, fixed=[str(fixed)])
        assert str(fixed) not in done.stdout
        assert word not in done.stdout
        assert len([name for name in done.stdout.split() if name.isdigit()]) < 6
        assert secret.poll() is None
    finally:
        secret.kill()
        secret.wait()


@pytest.mark.parametrize(
    "undo",
    [
        "true",
        "umount {hidden}; umount {fixed}",
        "mount -o remount,rw,bind {fixed}",
        "unshare -rm sh -c 'umount -l {hidden}'",
    ],
)
def test_paths_are_hidden_and_fixed_whatever_it_tries(tmp_path: Path, undo: str) -> None:
    """A directory and a socket are hidden. What is fixed is read, and stays as it is. Inside of it the copy is free."""
    fixed = tmp_path / "fixed"
    hidden, copy = fixed / "hidden", fixed / "copy"
    copy.mkdir(parents=True)
    hidden.mkdir()
    (hidden / "secret").write_text("secret")
    (fixed / "file").write_text("file")
    agent = tmp_path / "agent"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(agent))
        script = f"""
        {undo.format(hidden=hidden, fixed=fixed)} 2>/dev/null
        cat {fixed}/file {hidden}/secret; echo evil > {fixed}/file; echo evil > {fixed}/new; echo evil > {hidden}/new
        rm -rf {fixed}/file; mv {fixed} {tmp_path}/other; test -S {agent} && echo socket
        echo mine > {copy}/mine
        """
        seen = behind(
            tmp_path, script, hidden=[str(hidden), str(agent)], fixed=[str(fixed)], writable=[str(copy)]
        ).stdout
    assert seen == "file"
    assert sorted(path.name for path in fixed.iterdir()) == ["copy", "file", "hidden"]
    assert (fixed / "file").read_text() == "file"
    assert [path.name for path in hidden.iterdir()] == ["secret"]
    assert (copy / "mine").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("script", "code"),
    [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("exec nowhere-at-all", 127), ("yes | head -1", 0)],
)
def test_the_exit_code_is_that_of_the_program(tmp_path: Path, script: str, code: int) -> None:
    """With a signal as shells tell it."""
    assert behind(tmp_path, script).returncode == code


def test_with_the_end_of_the_program_all_others_end(tmp_path: Path) -> None:
    """Also those in sessions of their own: nobody holds the pipe that they inherited."""
    done = behind(tmp_path, "setsid sh -c 'sleep 900' & setsid sleep 900 & echo done")
    assert done.stdout == "done\n"


def test_a_wall_without_its_paths_does_not_stand(tmp_path: Path) -> None:
    """Then nothing runs, and the runner knows it before."""
    assert not Wall([str(tmp_path / "nowhere")], []).stands(tmp_path)
    assert not Wall([], [str(tmp_path / "nowhere")]).stands(tmp_path)
    assert behind(tmp_path, "echo ran", fixed=[str(tmp_path / "nowhere")]).stdout == ""
    assert wall.PROBE_SECONDS > 0
