"""A wall of Linux namespaces around a program: own processes, own mounts, no capability, and nothing survives it.

The runner imports `Wall`. The same file is the script that goes behind the wall and starts the program there, in an
interpreter of its own: namespaces of a user are for processes with one thread.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

PROBE_SECONDS = 30
NOT_STARTED = 127
_FIRST = "first"
_NEW_USER, _NEW_MOUNTS, _NEW_PROCESSES, _NEW_IPC = 0x10000000, 0x00020000, 0x20000000, 0x08000000
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_EXECUTION, _REMOUNT, _BIND, _ALL_BELOW = 1, 2, 4, 8, 32, 4096, 16384
_NO_TIMES, _NO_DIRECTORY_TIMES, _RELATIVE_TIMES, _PRIVATE = 1024, 2048, 1 << 21, 1 << 18
_DEATH_SIGNAL, _DROP_BOUND, _NO_NEW_PRIVILEGES = 1, 24, 38
_HIGHEST_CAPABILITY = 64
_LOCKED = (  # flags of a mount that a remount has to repeat, as `statvfs` shows them
    (os.ST_NOSUID, _NO_SUID), (4, _NO_DEVICES), (8, _NO_EXECUTION), (1024, _NO_TIMES), (2048, _NO_DIRECTORY_TIMES),
    (4096, _RELATIVE_TIMES),
)  # fmt: skip


class Wall(NamedTuple):
    """The existing paths that a program behind the wall finds empty, read-only, or writable inside of those."""

    hidden: Sequence[str]
    fixed: Sequence[str]
    writable: Sequence[str] = ()

    def before(self, command: Sequence[str], where: Path) -> list[str]:
        """Return the command that runs another behind this wall, in a directory."""
        plan = {**self._asdict(), "where": str(where), "parent": os.getpid()}
        return [sys.executable, "-I", "-S", __file__, json.dumps(plan), *command]

    def stands(self, where: Path) -> bool:
        """Whether this machine lets us build it. Tried out, since kernels, containers and profiles differ."""
        if sys.platform != "linux":
            return False
        try:
            tried = subprocess.run(
                self.before(["true"], where),
                env={"PATH": os.defpath},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=PROBE_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired):
            return False
        return tried.returncode == 0


def _call(name: str, *arguments: Any) -> None:
    """Call the C library. Raises OSError."""
    if getattr(_libc(), name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _call("mount", texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3])


def _fix(path: str) -> None:
    """Make a path read-only."""
    _mount(path, path, None, _BIND | _ALL_BELOW)
    shown = os.statvfs(path).f_flag
    kept = sum(flag for seen, flag in _LOCKED if shown & seen)
    _mount(None, path, None, _REMOUNT | _BIND | _READ_ONLY | kept)


def _hide(path: str) -> None:
    if os.path.isdir(path):  # noqa: PTH112 - pathlib costs each start of a program
        _mount("none", path, "tmpfs", _READ_ONLY | _NO_SUID | _NO_DEVICES | _NO_EXECUTION, "mode=0500,size=4k")
    else:
        _mount(os.devnull, path, None, _BIND)


def _build(plan: dict[str, Any]) -> None:
    """Enter new namespaces, as the same user, and change what is seen there. Raises OSError."""
    user, group = os.geteuid(), os.getegid()
    _call("unshare", ctypes.c_int(_NEW_USER | _NEW_MOUNTS | _NEW_PROCESSES | _NEW_IPC))
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w") as file:  # noqa: PTH123
            file.write(text)
    _mount(None, "/", None, _ALL_BELOW | _PRIVATE)
    for path in plan["writable"]:  # mounts of their own by now, which a read-only mount above takes along as they are
        _mount(path, path, None, _BIND | _ALL_BELOW)
    for path in plan["fixed"]:
        _fix(path)
    for path in plan["hidden"]:
        _hide(path)


def _give_up_rights() -> None:
    """Whatever is started from here on has no capability, be it root's, and gains none."""
    for number in range(_HIGHEST_CAPABILITY):
        with suppress(OSError):  # beyond the last capability of this kernel
            _call("prctl", _DROP_BOUND, number, 0, 0, 0)
    _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def _begin(command: list[str]) -> NoReturn:
    """Become the program."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):  # Python's own start ignores or handles these
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)  # noqa: S606 - the customer's own command
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
    os._exit(NOT_STARTED)


def _first(plan: dict[str, Any], command: list[str]) -> NoReturn:
    """Become the first process of the namespace. With its end the kernel ends all others."""
    _call("prctl", _DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    _mount("proc", "/proc", "proc", _NO_SUID | _NO_DEVICES | _NO_EXECUTION)
    for path in ("/proc/sys", "/proc/sysrq-trigger"):  # the file of the real root stays that of the machine
        if os.path.exists(path):  # noqa: PTH110
            _fix(path)
    os.chdir(plan["where"])  # once more, by the new mounts
    _give_up_rights()
    # Anew, so that its own arguments tell the program nothing of the plan.
    os.execv(sys.executable, [sys.executable, "-I", "-S", __file__, _FIRST, *command])  # noqa: S606


def _watch(command: list[str]) -> NoReturn:
    """Run the program as the first process of the namespace, until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    program = os.fork()
    if program == 0:
        _begin(command)
    while True:
        ended, status = os.wait()
        if ended == program:
            os._exit(_code(status))


def _code(status: int) -> int:
    """An exit code as shells tell it."""
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def main(arguments: Sequence[str]) -> NoReturn:
    """Run a program behind a wall, and end with its exit code."""
    told, command = arguments[0], list(arguments[1:])
    if told == _FIRST:
        _watch(command)
    plan = json.loads(told)
    _call("prctl", _DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != plan["parent"]:  # it died before it could take this process along
        os._exit(NOT_STARTED)
    _build(plan)
    first = os.fork()
    if first == 0:
        _first(plan, command)
    _, status = os.waitpid(first, 0)
    os._exit(_code(status))


if __name__ == "__main__":
    main(sys.argv[1:])
