"""Programs of the system that deployment files are for."""

import os
import shutil

import pytest


def program(name: str, package: str) -> str:
    """The path of a program; its tests are skipped without it, except in CI, which installs the Debian package."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        reason = f"{name} is not installed (Debian package {package})"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found
