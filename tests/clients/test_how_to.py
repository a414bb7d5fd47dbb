"""The program that each how-to page of an SDK shows, run as it stands: its error arrives, under the SDK's variables.

And the guide's way through a provider, with that provider's own SDK.
"""

from __future__ import annotations

import json
import re
import uuid
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser

from tests.clients.test_generators import MODULES, SCRIPTS, pytestmark, run
from tests.clients.test_new_project import visit
from tests.e2e.test_guides import through_the_provider
from tests.support.accounts import bearer, create_project, sign_in
from tests.support.newcomer import chromium as chromium  # noqa: PLC0414 (a fixture is found by name)
from tests.support.provider import running_provider
from tests.support.server import ServerFactory, ServerHandle

__all__ = ["pytestmark"]

PAGES = Path(__file__).parents[2] / "docs" / "how-to"


def variables(sdks: dict[str, Any]) -> dict[str, str]:
    """What the pages export, of this project."""
    return {
        "SENTRY_DSN": sdks["sentry_dsn"],
        "POSTHOG_HOST": sdks["posthog_host"],
        "POSTHOG_API_KEY": sdks["posthog_key"],
        "OTEL_EXPORTER_OTLP_ENDPOINT": sdks["otlp_endpoint"],
        "OTEL_EXPORTER_OTLP_HEADERS": sdks["otlp_headers"],
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }


@pytest.mark.parametrize("page", ["sentry", "posthog", "opentelemetry"])
def test_the_program_of_a_page_reports(server: ServerHandle, tmp_path: Path, page: str) -> None:
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    exported = set(re.findall(r"\b([A-Z_]+)=", text))
    (program,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    with server.client() as client:
        key = sign_in(client, server.internal_token, f"how-to-{uuid.uuid4().hex[:8]}")
        project = create_project(client, key)
        (tmp_path / "program.py").write_text(program, encoding="utf-8")
        told = {name: value for name, value in variables(project["sdks"]).items() if name in exported | {"NO_PROXY"}}
        run(tmp_path, SCRIPTS / "python", "program.py", **told)
        found = client.get(f"/v1/projects/{project['id']}/cases", headers=bearer(key)).raise_for_status().json()
    assert [case["title"] for case in found["cases"]] == ["RuntimeError: Payment 17 failed"]


def section(page: str, heading: str) -> str:
    """The one program below a heading of a page."""
    text = (PAGES / f"{page}.md").read_text(encoding="utf-8")
    [part] = [part for part in text.split("\n## ")[1:] if part.startswith(f"{heading}\n")]
    [program] = re.findall(r"^```[a-z]+\n(.*?)^```", part, re.MULTILINE | re.DOTALL)
    return str(program)


class Shop:
    """A project of its own, and what it has."""

    def __init__(self, client: httpx2.Client, server: ServerHandle) -> None:
        self._client = client
        self.key = sign_in(client, server.internal_token, f"how-to-{uuid.uuid4().hex[:8]}")
        self.project = create_project(client, self.key)

    def titles(self) -> list[str]:
        path = f"/v1/projects/{self.project['id']}/cases"
        found = self._client.get(path, headers=bearer(self.key)).raise_for_status().json()
        return [case["title"] for case in found["cases"]]


def test_the_program_for_node_reports(server: ServerHandle, tmp_path: Path) -> None:
    """With the SDK from npm, as the page on Sentry has it."""
    (tmp_path / "node_modules" / "@sentry").mkdir(parents=True)
    (tmp_path / "node_modules" / "@sentry" / "node").symlink_to(MODULES / "@sentry" / "node-11")
    (tmp_path / "report.cjs").write_text(section("sentry", "Node.js"), encoding="utf-8")
    with server.client() as client:
        shop = Shop(client, server)
        run(tmp_path, "node", "report.cjs", **variables(shop.project["sdks"]))
        assert shop.titles() == ["RangeError: Payment 17 failed"]


def test_the_program_of_a_page_reports_from_a_browser(server: ServerHandle, chromium: Browser, tmp_path: Path) -> None:
    """Bundled with the SDK from npm, under the public DSN."""
    with server.client() as client:
        shop = Shop(client, server)
        public = shop.project["sdks_public"]["sentry_dsn"]
        program = section("sentry", "A page in a browser").replace("PUBLIC_DSN", json.dumps(public))
        visit(chromium, tmp_path, program, re.compile(r"/envelope/"), 2)  # of the visit, and of the error
        assert shop.titles() == ["RangeError: Payment 17 failed"]


def test_a_program_reports_to_the_old_place_and_here(server: ServerHandle, tmp_path: Path) -> None:
    """The page on the move has a client for each. Another project stands where the old tracker was."""
    (tmp_path / "program.py").write_text(section("coming-from", "1. Make a project and change the DSN"), "utf-8")
    with server.client() as client:
        here, there = Shop(client, server), Shop(client, server)
        old = there.project["sdks"]["sentry_dsn"]
        run(tmp_path, SCRIPTS / "python", "program.py", **variables(here.project["sdks"]), OLD_DSN=old)
        for shop in (here, there):
            assert shop.titles() == ["RuntimeError: Payment 17 failed"]


def test_the_guide_leads_through_the_sdk_of_a_provider(
    server_factory: ServerFactory, database_url: str, tmp_path: Path
) -> None:
    """As a newcomer does, who has the address of this service and a product with that SDK (G-181)."""
    [packages] = SCRIPTS.parent.glob("lib/python*/site-packages")
    with running_provider() as provider:
        server = server_factory.prepare(database_url=database_url, env=provider.unknown_env)
        server.start()
        through_the_provider(server, provider, tmp_path, packages)
        sent = {event["properties"].get("$lib") for event in provider.events if event["event"] == "order_paid"}
        assert sent == {"posthog-python"}
