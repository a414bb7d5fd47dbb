"""The packages to install: those of the code, and the pages of `docs/` as `service_docs`.

A build has its commit in `service/commit.txt`: from BUILD_COMMIT, else from the repository that it is made in.
"""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from setuptools import find_namespace_packages, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
CODE = ("service", "statemachines", "projections", "schemas")
PAGES = ("tutorial", "how-to", "reference", "reference.machines", "explanation", "pictures")


class BuildWithCommit(build_py):
    """Writes the commit beside the code. Nothing where it is not known, or where the code stays where it is."""

    def run(self, *given: Any, **named: Any) -> None:
        """Build, then write."""
        super().run(*given, **named)
        commit = os.environ.get("BUILD_COMMIT", "").strip() or _commit()
        if re.fullmatch("[0-9a-f]{40}(?:[0-9a-f]{24})?", commit) and not self.editable_mode:
            Path(self.build_lib, "service", "commit.txt").write_text(f"{commit}\n", encoding="ascii")


def _commit() -> str:
    """The commit of this repository. Empty without one: the folder may lie in somebody else's."""
    if not (ROOT / ".git").exists():
        return ""
    try:
        asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return asked.stdout.strip()


setup(
    packages=[
        *find_namespace_packages(include=[pattern for name in CODE for pattern in (name, f"{name}.*")]),
        "service_docs",
        *(f"service_docs.{folder}" for folder in PAGES),
    ],
    package_dir={"service_docs": "docs"},
    cmdclass={"build_py": BuildWithCommit},
)
