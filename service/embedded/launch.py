"""Become another user, then a program: `python -I -S launch.py <uid> <gid> run <bind> <program> ...`.

Run as a script of its own, between fork and exec, because PostgreSQL refuses to run as root. Giving up root is
final: user, group and all other groups change before anything of PostgreSQL runs, and no capability is kept. `bind` 1
ends the program when its parent ends.

`launch.py <uid> <gid> reach <path>...` becomes that user and asks the kernel whether it gets to the paths: on the
error output stands the first folder or file that is closed to it, with exit code 1.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    """Become the user; then become the program, or tell what is closed. Does not return."""
    parent = os.getppid()
    uid, gid = (int(word) for word in argv[:2])
    wish, words = argv[2], argv[3:]
    if os.getuid() == 0 and uid != 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if wish == "reach":
        sys.exit(next(filter(None, map(first_closed, words)), 0))
    bind, program = words[0] == "1", words[1:]
    if bind and sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit("the parent ended first")
    os.execv(program[0], program)  # noqa: S606 (no shell is meant)


def first_closed(path: str) -> str | None:
    """The outermost place on the way to an absolute path, itself included, that this user cannot pass or run."""
    places = [path[:end] or "/" for end, letter in enumerate(path) if letter == "/"]
    closed = next((place for place in [*places, path] if not os.access(place, os.X_OK)), None)
    if closed is not None and os.path.islink(closed):  # noqa: PTH114 (pathlib takes longer to load than all of this)
        return first_closed(os.path.realpath(closed)) or closed  # a link is open: what it leads to is not
    return closed


if __name__ == "__main__":
    main(sys.argv[1:])
