"""The program that each how-to page of an SDK shows, run as it stands: its error arrives, under the SDK's variables.

And the guide's way through a provider, with that provider's own SDK.
"""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.clients.test_generators import SCRIPTS, pytestmark, run
from tests.e2e.test_guides import through_the_provider
from tests.support.accounts import bearer, create_project, sign_in
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
