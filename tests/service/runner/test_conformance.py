"""The runner breaks no rule of the conformance kit, and needs nothing of the service to do so."""

from __future__ import annotations

import subprocess
import sys

import pytest

from service.conformance.kit import play_all
from service.conformance.play import Played
from service.conformance.scenarios import SCENARIOS
from service.conformance.world import ServiceUnderPlay
from tests.support.runners import MAIN, SERVICE_RUNNER
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server
PLAYED = (*MAIN, "auto-merge")

IMPORTS = """
import sys
import service.runner.command
print(*{name.split(".")[0] for name in sys.modules} - set(sys.stdlib_module_names))
print(*(name for name in sys.modules if name.startswith("service.") and not name.startswith("service.runner")))
"""


@pytest.fixture(scope="module")
def played(shared_server: ServerHandle, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    """How it fared in the main scenarios. `make torture` plays all of them."""
    service = ServiceUnderPlay(shared_server.base_url, shared_server.internal_token, shared_server.test_token)
    main = [scenario for scenario in SCENARIOS if scenario.name in PLAYED]
    found = play_all(main, service, SERVICE_RUNNER, tmp_path_factory.mktemp("played"), timeout=120.0, at_once=4)
    return {one.scenario.name: one for one in found}


@pytest.mark.parametrize("name", PLAYED)
def test_it_breaks_no_rule(name: str, played: dict[str, Played]) -> None:
    assert played[name].breaches == []


def test_it_loads_the_standard_library_and_itself() -> None:
    """Beside that there is the empty package that it lies in."""
    done = subprocess.run([sys.executable, "-I", "-c", IMPORTS], capture_output=True, text=True, check=True)
    outside, inside = done.stdout.splitlines()
    assert {
        name for name in outside.split() if not name.startswith(("__editable__", "__main__", "_", "sitecustomize"))
    } <= {"service"}
    assert inside == ""
