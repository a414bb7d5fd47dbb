"""The packages of a distribution: those of the code below this folder, and the pages of `docs/` as `service_docs`.

Links in `packaging/` lead here too. A build has its commit in `service/commit.txt`, from BUILD_COMMIT, else from the
repository that it is made in. The addresses of the project are those of BUILD_URL, such as
`https://git.example/you/service`. A build without it names none.

The wheel of the service has a bill of materials in CycloneDX, which `scripts/sbom.py` makes from the lock.
"""

import os
import re
import runpy
import subprocess
from pathlib import Path
from typing import Any

from setuptools import find_namespace_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path.cwd()  # of the distribution: build tools call this file from its folder
SBOM = ROOT / "scripts" / "sbom.py"
CODE = ("service", "statemachines", "projections", "schemas")
PAGES = ("tutorial", "how-to", "reference", "reference.machines", "explanation", "pictures")
DOCS = ["service_docs", *(f"service_docs.{folder}" for folder in PAGES)] if (ROOT / "docs").is_dir() else []


class BuildWithCommit(build_py):
    """Writes the commit beside the code. Nothing where it is not known, or where the code stays where it is."""

    def run(self, *given: Any, **named: Any) -> None:
        """Build, then write."""
        super().run(*given, **named)
        commit = os.environ.get("BUILD_COMMIT", "").strip() or _commit()
        known = re.fullmatch("[0-9a-f]{40}(?:[0-9a-f]{24})?", commit)
        if known and not self.editable_mode and (ROOT / "service" / "__init__.py").exists():
            Path(self.build_lib, "service", "commit.txt").write_text(f"{commit}\n", encoding="ascii")


class WheelWithSbom(bdist_wheel):
    """Puts the bill of materials where PEP 770 wants it. None in a distribution without a lock."""

    def egg2dist(self, egginfo_path: Any, distinfo_path: Any) -> None:
        """Make `.dist-info`, then write."""
        super().egg2dist(egginfo_path, distinfo_path)
        if SBOM.is_file():
            made = runpy.run_path(str(SBOM))
            target = Path(distinfo_path, "sboms", made["NAME"])
            target.parent.mkdir()
            name, version = self.distribution.get_name(), self.distribution.get_version()
            target.write_text(made["text"](ROOT, name, version), encoding="utf-8")


def _commit() -> str:
    """The commit of this repository. Empty without one: the folder may lie in somebody else's."""
    if not (ROOT / ".git").exists():
        return ""
    try:
        asked = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return asked.stdout.strip()


def _addresses() -> dict[str, str]:
    url = os.environ.get("BUILD_URL", "").strip().rstrip("/")
    if not url:
        return {}
    return {"Source": url, "Issues": f"{url}/issues", "Changelog": f"{url}/blob/main/CHANGELOG.md"}


setup(
    packages=[*find_namespace_packages(include=[part for name in CODE for part in (name, f"{name}.*")]), *DOCS],
    package_dir={"service_docs": "docs"} if DOCS else {},
    project_urls=_addresses(),
    cmdclass={"build_py": BuildWithCommit, "bdist_wheel": WheelWithSbom},
)
