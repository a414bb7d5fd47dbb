"""Two linters of OpenAPI find nothing to mend in the schema document, whole or of a flow (R-DISC-13, G-166)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients.test_generators import HERE, INSTALLED, MODULES, run
from tests.support.server import ServerHandle

NO_SUCCESS = "Operation must have at least one `2XX` response."
LEADS_ON = "#/paths/~1.well-known~1change-password/get/responses"
"""It redirects to the page at the issuer, and answers nothing itself."""
NAMED_BY_OURS_ALONE = {"#/components/schemas/ExportStatus"}
"""Components that only our own members of an operation refer to, where linters do not look."""

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(not (INSTALLED / ".installed").exists(), reason="`make clients` installs the linters"),
]


@pytest.fixture(params=[None, "onboarding"], ids=["whole", "flow"])
def served(server: ServerHandle, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The schema document as the service serves it. A linter takes many seconds, so it sees one flow of the four."""
    path = tmp_path / "openapi.json"
    query = {} if request.param is None else {"flow": request.param}
    with server.client() as client:
        path.write_bytes(client.get("/v1/openapi.json", params=query).raise_for_status().content)
    return path


def test_redocly(served: Path, tmp_path: Path) -> None:
    """No error, and no warning but of what it cannot see."""
    said = run(
        tmp_path,
        MODULES / ".bin" / "redocly",
        *("lint", served, "--config", HERE / "redocly.yaml", "--format", "json"),
        REDOCLY_TELEMETRY="off",
        REDOCLY_SUPPRESS_UPDATE_NOTICE="true",
    )
    found = json.loads(said[said.index("{") : said.rindex("}") + 1])
    assert found["totals"]["errors"] == 0
    places = {problem["location"][0].get("pointer"): problem["message"] for problem in found["problems"]}
    assert places.pop(LEADS_ON, NO_SUCCESS) == NO_SUCCESS
    assert {place: message for place, message in places.items() if place not in NAMED_BY_OURS_ALONE} == {}


def test_spectral(served: Path, tmp_path: Path) -> None:
    """No error and no warning."""
    run(
        tmp_path,
        MODULES / ".bin" / "spectral",
        *("lint", served, "--ruleset", HERE / "spectral.yaml", "--fail-severity", "warn"),
    )
