"""Look the hashed locks up among known vulnerabilities, with pip-audit: `make audit`, or `make audit OSV=all.zip`.

OSV is the export of PyPI's advisories by the database of that name, a zip of one JSON document for each. With it
nothing is asked of anybody: its answers come from a loopback server, which speaks the one operation that pip-audit
calls. pip-audit is installed in an environment of its own.

`python -m scripts.audit PIP_AUDIT [FILE]`
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements/runtime.txt", "requirements/lock.txt")
ECOSYSTEM = "PyPI"
_BY_VERSION = "ECOSYSTEM"


class Advisories:
    """The advisories of a database, by package."""

    def __init__(self, file: Path) -> None:
        """Read a zip. Raises OSError, zipfile.BadZipFile and ValueError."""
        self._of: dict[str, list[dict[str, Any]]] = {}
        with zipfile.ZipFile(file) as archive:
            for name in archive.namelist():
                if name.endswith(".json"):
                    self._add(json.loads(archive.read(name)))
        if not self._of:
            raise ValueError(f"{file} has no advisory of {ECOSYSTEM}.")

    def _add(self, advisory: dict[str, Any]) -> None:
        if advisory.get("withdrawn") is None:
            for name in {_folded(one["package"]["name"]) for one in _affected(advisory)}:
                self._of.setdefault(name, []).append(advisory)

    def of(self, name: str, version: str) -> list[dict[str, Any]]:
        """The advisories for a version of a package. Raises InvalidVersion."""
        asked = Version(version)
        return [
            one
            for one in self._of.get(_folded(name), ())
            if any(_holds(part, asked) for part in _affected(one) if _folded(part["package"]["name"]) == _folded(name))
        ]


def _folded(name: str) -> str:
    return re.sub("[-_.]+", "-", name).lower()


def _affected(advisory: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The parts of an advisory for packages of Python."""
    for part in advisory.get("affected", ()):
        if part.get("package", {}).get("ecosystem") == ECOSYSTEM:
            yield part


def _holds(part: Mapping[str, Any], asked: Version) -> bool:
    """Whether a version is listed, or in a range."""
    ranges = (one for one in part.get("ranges", ()) if one.get("type") == _BY_VERSION)
    return any(_read(one) == asked for one in part.get("versions", ())) or any(_in_range(one, asked) for one in ranges)


def _in_range(one: Mapping[str, Any], asked: Version) -> bool:
    """Whether the last event up to a version introduces the fault."""
    inside = False
    for event in sorted(one.get("events", ()), key=_place):
        [(kind, said)] = ((kind, said) for kind, said in event.items() if kind in _KINDS)
        at = _read(said)
        if at is None or asked < at or (kind == "last_affected" and asked == at):
            continue
        inside = kind == "introduced"
    return inside


_KINDS = ("introduced", "fixed", "last_affected", "limit")


def _place(event: Mapping[str, Any]) -> tuple[Version, bool]:
    """The order of events: by version, and where one is fixed and introduced in one, fixed first."""
    [(kind, said)] = ((kind, said) for kind, said in event.items() if kind in _KINDS)
    return _read(said) or Version("0"), kind == "introduced"


def _read(said: str) -> Version | None:
    """A version of an advisory. None for one that Python does not know, which no lock can name."""
    try:
        return Version(said)
    except InvalidVersion:
        return None


@contextmanager
def answering(advisories: Advisories) -> Iterator[str]:
    """The address of a server on loopback that answers OSV's query."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            found = advisories.of(asked["package"]["name"], asked["version"])
            body = json.dumps({"vulns": found} if found else {}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1/query"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def audit(program: str, *options: str) -> int:
    """Let pip-audit look the locks up. Returns its exit code: 0 when nothing is known, 1 when something is."""
    files = [word for lock in LOCKS for word in ("-r", str(ROOT / lock))]
    command = [program, "--disable-pip", "--require-hashes", "--progress-spinner=off", *options, *files]
    alone = {"NO_PROXY": "127.0.0.1"} if options else {}
    return subprocess.run(command, check=False, env={**os.environ, **alone}).returncode


def main(words: list[str]) -> int:
    """Carry out a look, and return its exit code."""
    program, *file = words
    if not file:
        return audit(program)
    with answering(Advisories(Path(file[0]))) as url:
        return audit(program, "--vulnerability-service=osv", f"--osv-url={url}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
