"""Start a PostgreSQL program as another user: `python -I -S launch.py <uid> <gid> <bind> <path>... -- <program> ...`.

Run as a script of its own, between fork and exec, because PostgreSQL refuses to run as root. Giving up root is
final: user, group and all other groups change before anything of PostgreSQL runs.

When that user cannot reach one of the paths (a checkout below /root, a temporary directory of root), the program
keeps one capability, to pass directories and files whatever their modes; changing modes of directories that are not
ours would be worse. `bind` 1 ends the program when its parent ends.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import sys

PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 1, 8, 47, 2
CAP_DAC_OVERRIDE = 1
CAPABILITY_VERSION_3 = 0x20080522
SYS_CAPSET = {"x86_64": 126, "aarch64": 91, "armv7l": 185}


def main(argv: list[str]) -> None:
    """Become the user, then the program. Does not return."""
    parent = os.getppid()
    cut = argv.index("--")
    uid, gid, bind = (int(word) for word in argv[:3])
    paths, program = argv[3:cut], argv[cut + 1 :]
    libc = ctypes.CDLL(None, use_errno=True)
    if os.getuid() == 0 and uid != 0:
        if sys.platform == "linux":
            libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
        # access() asks with the real user and without capabilities: what the program will be able to do.
        if not all(os.access(path, os.R_OK | os.X_OK) for path in paths):
            keep_override(libc)
    if bind and sys.platform == "linux":
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            sys.exit("the parent ended first")
    os.execv(program[0], program)  # noqa: S606 (no shell is meant)


def keep_override(libc: ctypes.CDLL) -> None:
    """Keep CAP_DAC_OVERRIDE over exec, as an ambient capability. Exits when the kernel refuses."""
    number = SYS_CAPSET.get(os.uname().machine) if sys.platform == "linux" else None
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    bit = 1 << CAP_DAC_OVERRIDE
    sets = struct.pack("IIIIII", bit, bit, bit, 0, 0, 0)  # effective, permitted, inheritable; then the high words
    refused = number is None or libc.syscall(number, header, sets) != 0
    if refused or libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_DAC_OVERRIDE, 0, 0) != 0:
        sys.exit("the user that PostgreSQL runs as cannot reach its files; move the data directory, or do not use root")


if __name__ == "__main__":
    main(sys.argv[1:])
