"""The texts and manifests of discovery: who may read them, how they are served, and that they are true."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from schemas.kernel.errors import CATALOGUE
from schemas.kernel.published import documented_operations
from service.analytics.blueprints.asking import CATALOGUE as BLUEPRINTS
from service.discovery.manifest import ADAPTERS, APART, LANGUAGES, TITLES
from service.http.app import Edge, create_app
from service.http.discovery import facts
from service.onboarding.lifecycle import GUIDANCE
from service.settings import CLIENT_VARIABLES, VARIABLES
from service.settingvalues import plans
from statemachines.onboarding.lifecycle import Status
from tests.service.http.edge.fakes import fake_services
from tests.service.http.edge.toy_api import running
from tests.support import seen
from tests.support.guides import anchors

pytestmark = pytest.mark.asyncio(loop_scope="module")

BASE = "https://service.example"
GUIDES = ("/service.md", "/install.md", "/skill/service/SKILL.md", "/v1/docs/query", "/v1/docs/automation")
DOCUMENTS = ("/adapters", "/v1/capabilities", "/v1/setup/manifest", "/v1/privacy/disclosure")
PAGES = ("/v1/docs/query", "/v1/docs/automation", "/v1/privacy/disclosure")
ADDRESSES = (
    *GUIDES,
    *DOCUMENTS,
    "/llms.txt",
    *(f"{page}.md" for page in PAGES),
    *(f"/adapters/{file}" for file in ADAPTERS),
)
VENDORS = ("posthog", "sentry", "stripe", "github", "gitlab", "anthropic", "openai", "claude", "cursor", "copilot")
ABLE: dict[str, Any] = {"provider_client_id": "client", "payment_api_key": "key", "encryption_key": b"1" * 32}
UNABLE: dict[str, Any] = {"provider_client_id": None, "payment_api_key": None, "encryption_key": None}


def edge_of(**settings: Any) -> Edge:
    """The whole route table without a database."""
    told = {"base_url": BASE, "deploy_sha": None, "test_clock": False, **settings}
    return create_app(lambda: fake_services(**told))


async def read(path: str, **settings: Any) -> httpx2.Response:
    """Read one path of an installation with these settings."""
    edge = edge_of(**settings)
    async with running(edge), seen.async_client(BASE, transport=httpx2.ASGITransport(edge)) as client:
        return await client.get(path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api() -> AsyncIterator[httpx2.AsyncClient]:
    edge = edge_of(**ABLE)
    async with running(edge), seen.async_client(BASE, transport=httpx2.ASGITransport(edge)) as client:
        yield client


@pytest.mark.parametrize("path", ADDRESSES)
async def test_anybody_may_read(api: httpx2.AsyncClient, path: str) -> None:
    """Public, cached for five minutes, the same with any credential, and for HEAD (R-DISC-16, G-014)."""
    answer = await api.get(path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert BASE in answer.text or path == "/v1/privacy/disclosure.md"
    for credential in ("Bearer owner", "Bearer nonsense", "Basic x"):
        with_one = await api.get(path, headers={"authorization": credential})
        assert (with_one.status_code, with_one.content) == (200, answer.content)
    head = await api.head(path)
    assert (head.status_code, head.headers["content-type"]) == (200, answer.headers["content-type"])
    assert (await api.get(path)).content == answer.content
    assert (await api.post(path)).status_code == 405


@pytest.mark.parametrize("path", ADDRESSES)
async def test_a_caller_who_has_it_is_not_sent_it_again(api: httpx2.AsyncClient, path: str) -> None:
    etag = (await api.get(path)).headers["etag"]
    again = await api.get(path, headers={"if-none-match": etag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", etag)


@pytest.mark.parametrize("path", GUIDES)
async def test_a_guide_is_markdown(api: httpx2.AsyncClient, path: str) -> None:
    """Its type, its title, and the User-Agent that every caller is asked for (R-DISC-09, R-DISC-17)."""
    answer = await api.get(path)
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert re.search(r"^# \w", answer.text, re.MULTILINE)
    assert "User-Agent" in answer.text
    assert "{{" not in answer.text.replace("${{", "")
    assert "{%" not in answer.text


@pytest.mark.parametrize("page", PAGES)
async def test_a_page_has_an_address_with_an_ending(api: httpx2.AsyncClient, page: str) -> None:
    """`.md` beside each page is its Markdown, as Accept gets it too (G-166)."""
    asked = await api.get(page, headers={"accept": "text/markdown"})
    beside = await api.get(f"{page}.md")
    assert asked.content == beside.content
    assert asked.headers["content-type"] == beside.headers["content-type"] == "text/markdown; charset=utf-8"


@pytest.mark.parametrize("path", ["/", "/v1/privacy/disclosure"])
@pytest.mark.parametrize(
    ("accept", "markdown"),
    [
        (None, False),
        ("*/*", False),
        ("application/json, text/markdown;q=0.5", False),
        ("text/markdown", True),
        ("text/html, text/markdown;q=0.9", True),
    ],
)
async def test_a_document_is_markdown_for_those_who_ask(
    api: httpx2.AsyncClient, path: str, accept: str | None, markdown: bool
) -> None:
    """And caches are told that Accept decides. Each form has a tag of its own."""
    answer = await api.get(path, headers={} if accept is None else {"accept": accept})
    kind = "text/markdown; charset=utf-8" if markdown else "application/json"
    assert (answer.status_code, answer.headers["content-type"], answer.headers["vary"]) == (200, kind, "accept")
    other = await api.get(path, headers={"accept": "text/markdown"})
    assert (answer.headers.get("etag") == other.headers["etag"]) == markdown


async def test_the_root_as_markdown_is_the_service_guide(api: httpx2.AsyncClient) -> None:
    root = await api.get("/", headers={"accept": "text/markdown"})
    assert root.content == (await api.get("/service.md")).content


async def test_the_root_is_a_page_for_a_browser(api: httpx2.AsyncClient) -> None:
    """With the ways that the JSON names too."""
    named = (await api.get("/")).json()
    browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    page = await api.get("/", headers={"accept": browser})
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.headers["vary"] == "accept"
    assert page.headers["x-frame-options"] == "DENY"
    assert "script" not in page.text
    ways = {"console": "/console", "documentation": "/docs", "mcp": "/mcp"}
    assert {name: named[name] for name in ways} == {name: f"{BASE}{way}" for name, way in ways.items()}
    links = re.findall(r'href="(/[^"]*)"', page.text)
    assert {"/console", "/docs", "/docs/api/discovery", "/docs/how-to/mcp", "/v1/openapi.json"} <= set(links)
    for link in links:  # the console is no part of the API
        assert link == "/console" or (await api.get(link)).status_code == 200, link
    again = await api.get("/", headers={"accept": browser, "if-none-match": page.headers["etag"]})
    assert again.status_code == 304


async def test_the_root_points_to_the_guides(api: httpx2.AsyncClient) -> None:
    """`docs` and `reference_docs` are the service guide, `automation_docs` that to automation (G-014, G-166)."""
    root = (await api.get("/")).json()
    told = {name: root[name] for name in ("docs", "reference_docs", "install_docs", "automation_docs", "skill")}
    assert told == {
        "docs": f"{BASE}/service.md",
        "reference_docs": f"{BASE}/service.md",
        "install_docs": f"{BASE}/install.md",
        "automation_docs": f"{BASE}/v1/docs/automation",
        "skill": f"{BASE}/skill/service/SKILL.md",
    }


async def test_the_list_for_language_models(api: httpx2.AsyncClient) -> None:
    """A title, a summary, and sections of links alone; every guide is among them (G-166)."""
    answer = await api.get("/llms.txt")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert re.match(r"# \w+\n\n> \w", answer.text)
    sections = re.split(r"^## ", answer.text, flags=re.MULTILINE)[1:]
    link = r"- \[[^]]+\]\(https://[^)]+\)(: .+)?"
    for section in sections:
        title, *lines = [line for line in section.splitlines() if line]
        assert re.fullmatch(r"\w[\w -]+", title)
        about = [line for line in lines if not re.fullmatch(link, line)]
        assert about in ([], lines[:1]), section
    for path in ("/service.md", "/install.md", "/v1/docs/query.md", "/v1/docs/automation.md", "/docs.md"):
        assert f"]({BASE}{path})" in answer.text


async def test_every_state_of_an_onboarding_leads_to_a_heading(api: httpx2.AsyncClient) -> None:
    """`guide_anchor` of each status that has a next step (G-087)."""
    text = (await api.get("/install.md")).text
    assert GUIDANCE.keys() == set(Status) - {Status.ABSENT, Status.VERIFIED}
    for step in GUIDANCE.values():
        path, _, anchor = step.guide_anchor.partition("#")
        assert path == "/install.md"
        assert anchor in anchors(text)


async def test_deploys_are_recorded_by_release_machinery(api: httpx2.AsyncClient) -> None:
    """The rule stands there, and the provider's own upload of source maps comes first (R-ING-08, R-GEN-09, G-141)."""
    text = (await api.get("/install.md")).text
    for place in (
        "startup code",
        "bootstrap hooks",
        "cron routes",
        "workers",
        "request handlers",
        "browser",
        "product",
    ):
        assert place in text
    maps = text[text.index("## Upload source maps") :]
    assert maps.index("provider") < maps.index("PUT /v1/projects/{project_id}/source-maps")


async def test_the_guide_to_queries_has_every_blueprint(api: httpx2.AsyncClient) -> None:
    """With each parameter and each column as the catalogue has them (R-QRY-01 to R-QRY-04)."""
    text = (await api.get("/v1/docs/query")).text
    for name, blueprint in BLUEPRINTS.items():
        section = text[text.index(f"### {name}\n") :].partition("\n### ")[0]
        for field in blueprint.params.__struct_encode_fields__:
            assert f"| `{field}`" in section, (name, field)
        for column in blueprint.columns:
            assert f"`{column.name}`" in section, (name, column.name)


async def test_the_guide_to_automation_has_every_code(api: httpx2.AsyncClient) -> None:
    """Each code that an operation of the flow answers with, its status and its remedy."""
    text = (await api.get("/v1/docs/automation")).text
    for refusal in facts.refusals("automation"):
        row = f"| `{refusal.code}` | {refusal.known.status} |"
        assert row in text
        assert CATALOGUE[refusal.code].next_action in text


async def test_the_service_guide_names_every_operation(api: httpx2.AsyncClient) -> None:
    text = (await api.get("/service.md")).text
    for one in facts.operations().values():
        assert f"`{one}`" in text, str(one)


@pytest.mark.parametrize("path", GUIDES)
async def test_variables_are_those_that_exist(api: httpx2.AsyncClient, path: str) -> None:
    """Every SERVICE_ name of a guide is one that clients read, or the address that the guide itself sets."""
    named = set(re.findall(r"\bSERVICE_[A-Z_]+\b", (await api.get(path)).text))
    assert named <= CLIENT_VARIABLES | {variable.name for variable in VARIABLES} | {"SERVICE_URL"}


async def test_the_skill_passes_its_validator(api: httpx2.AsyncClient, tmp_path: Path) -> None:
    """`agentskills` of skills-ref finds no fault in it, in a folder of its name."""
    folder = tmp_path / "service"
    folder.mkdir()
    (folder / "SKILL.md").write_bytes((await api.get("/skill/service/SKILL.md")).content)
    program = Path(sys.executable).with_name("agentskills")
    check = partial(subprocess.run, [program, "validate", folder], capture_output=True, text=True, check=False)
    done = await asyncio.to_thread(check)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (await api.get("/v1/skill/service/SKILL.md")).content == (folder / "SKILL.md").read_bytes()


async def test_the_adapters_are_listed_and_served(api: httpx2.AsyncClient) -> None:
    """The five of G-014, each as the type that the list says; exactly one is JSON, and parses (R-DISC-10)."""
    listed = (await api.get("/adapters")).json()
    names = ["general.md", "coding-agent-a.md", "coding-agent-b.md", "editor-rules.txt", "plugin.json"]
    assert [item["file"] for item in listed["adapters"]] == names
    assert listed["count"] == len(names)
    types = []
    for item in listed["adapters"]:
        assert item["url"] == f"{BASE}/adapters/{item['file']}"
        answer = await api.get(item["url"])
        assert answer.headers["content-type"] == item["content_type"]
        types.append(item["content_type"].partition(";")[0])
    rules = (await api.get("/adapters/general.md")).text
    assert 0 < rules.index("connected analytics provider") < rules.index("DSN"), "the provider's way comes first"
    assert types.count("application/json") == 1
    assert set(types) == {"text/markdown", "text/plain", "application/json"}
    assert json.loads((await api.get("/adapters/plugin.json")).text)["api"]["url"] == f"{BASE}/v1/openapi.json"


@pytest.mark.parametrize("file", ["GENERAL.MD", "general", "general.md.", "texts", "plugin", "~", "__init__.py"])
async def test_no_other_name_is_an_adapter(api: httpx2.AsyncClient, file: str) -> None:
    answer = await api.get(f"/adapters/{file}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "adapter_not_found")


@pytest.mark.parametrize("file", ["general.md%00.png", "..%2fservice.md", "%2e%2e", "general.md/", "a/b"])
async def test_no_other_path_is_an_adapter(api: httpx2.AsyncClient, file: str) -> None:
    assert (await api.get(f"/adapters/{file}")).status_code == 404


def keys_of(part: Any) -> set[str]:
    """Every key of a JSON document."""
    if isinstance(part, dict):
        return {*part, *(key for value in part.values() for key in keys_of(value))}
    return {key for value in part for key in keys_of(value)} if isinstance(part, list) else set()


@pytest.mark.parametrize("path", [*DOCUMENTS, "/adapters/plugin.json", "/"])
async def test_no_key_names_a_vendor(api: httpx2.AsyncClient, path: str) -> None:
    keys = keys_of((await api.get(path)).json())
    assert [key for key in keys if any(vendor in key.lower() for vendor in VENDORS)] == []


async def test_only_the_moment_may_differ(api: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process shows the same capabilities, at another time."""
    from service.discovery import manifest as shown
    from service.http.discovery import installation as doors

    first = (await api.get("/v1/capabilities")).json()
    shown._generated_at.cache_clear()
    doors._capabilities.cache_clear()
    monkeypatch.setattr(shown.time, "time", lambda: first["generated_at"] + 86_400.5)
    second = (await read("/v1/capabilities", **ABLE)).json()
    assert second.pop("generated_at") == first.pop("generated_at") + 86_400
    assert second == first
    shown._generated_at.cache_clear()
    doors._capabilities.cache_clear()


async def test_a_capability_has_the_operations_that_are_built() -> None:
    """Each built operation belongs to exactly one capability of an installation that can do everything (R-DISC-06)."""
    found = (await read("/v1/capabilities", **ABLE)).json()
    assert isinstance(found["schema_version"], int)
    assert isinstance(found["generated_at"], int)
    named = [name for one in found["capabilities"] for name in one["operations"]]
    assert sorted(named) == sorted(str(one) for one in facts.operations().values())
    assert all(one["available"] and one["reason"] is None for one in found["capabilities"])
    assert set(APART) <= set(facts.operations())
    assert {one.group for one in facts.operations().values()} | set(APART.values()) == set(TITLES)


async def test_what_the_settings_leave_out_is_not_offered() -> None:
    """No provider client, no payment key, no encryption key: neither manifest nor guide offers it."""
    found = (await read("/v1/capabilities", **UNABLE)).json()
    missing = {one["id"]: one for one in found["capabilities"] if not one["available"]}
    assert set(missing) == {"provider", "payments", "webhooks"}
    assert all(one["reason"] and one["operations"] == [] for one in missing.values())
    assert found["surfaces"]["webhooks"]["available"] is False
    assert "connect_provider" not in (await read("/install.md", **UNABLE)).text
    assert "POST /v1/auth/provider" not in (await read("/install.md", **UNABLE)).text
    assert "POST /v1/auth/provider" in (await read("/install.md", **ABLE)).text
    assert "Plans cannot be bought" in (await read("/service.md", **UNABLE)).text
    assert "Plans cannot be bought" not in (await read("/service.md", **ABLE)).text


async def test_a_provider_without_a_key_to_seal_its_tokens_is_not_offered() -> None:
    found = (await read("/v1/capabilities", **{**ABLE, "encryption_key": None})).json()
    assert "provider" in {one["id"] for one in found["capabilities"] if not one["available"]}


async def test_the_setup_manifest(api: httpx2.AsyncClient) -> None:
    """All ten members in their forms; each variable in the store of the part that uses it (R-DISC-07, R-DISC-08)."""
    [row] = [row for row in documented_operations() if row.path == "/v1/setup/manifest"]
    assert row.method == "GET"
    found = (await api.get("/v1/setup/manifest")).json()
    for name in ("runtime_env", "owner_env", "framework_env_matrix", "host_env_matrix"):
        assert found[name]
        assert all(isinstance(item, dict) for item in found[name])
    for name in ("env_preflight_checks", "local_state", "public_queries"):
        assert isinstance(found[name], dict)
    [dsn] = [item for item in found["runtime_env"] if item["name"] == "SERVICE_DSN"]
    assert (dsn["required"], dsn["purpose"].startswith("A product with an analytics provider")) == (False, True)
    owner = {item["name"] for item in found["owner_env"]}
    assert owner == {"SERVICE_API_KEY", "SERVICE_PRIVATE_API_KEY"}
    assert owner | {item["name"] for item in found["runtime_env"]} <= CLIENT_VARIABLES
    stores = {name: host["store"] for host in found["host_env_matrix"] for name in host["variables"]}
    assert stores["SERVICE_RUNNER_API_KEY"] == "secret store of the scheduler"
    assert stores["SERVICE_CI_API_KEY"] == "secret store of the CI"
    assert [item["language"] for item in found["framework_env_matrix"]] == [name for name, _, _ in LANGUAGES]


async def test_the_manifest_belongs_to_the_flow_of_installing(api: httpx2.AsyncClient) -> None:
    paths = (await api.get("/v1/openapi.json", params={"flow": "install"})).json()["paths"]
    assert {"/v1/setup/manifest", "/install.md"} <= paths.keys()


@pytest.mark.parametrize("variant", ["client", "server"])
@pytest.mark.parametrize("errors", [True, False])
@pytest.mark.parametrize("analytics", [True, False])
async def test_a_disclosure_mirrors_its_parameters(
    api: httpx2.AsyncClient, variant: str, errors: bool, analytics: bool
) -> None:
    """And its own address leads to the same answer (R-DISC-12)."""
    params = {"variant": variant, "errors": str(errors).lower(), "analytics": str(analytics).lower()}
    answer = await api.get("/v1/privacy/disclosure", params=params)
    found = answer.json()
    assert (found["variant"], found["includes"]) == (variant, {"errors": errors, "analytics": analytics})
    assert ("**Errors.**" in found["paste_ready_markdown"]) == errors
    assert ("**Events.**" in found["paste_ready_markdown"]) == analytics
    assert ("**Analytics provider.**" in found["paste_ready_markdown"]) == (errors or analytics)
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", found["last_updated"])
    assert (await api.get(found["canonical_url"])).content == answer.content


async def test_a_disclosure_has_defaults(api: httpx2.AsyncClient) -> None:
    found = (await api.get("/v1/privacy/disclosure")).json()
    assert (found["variant"], found["includes"]) == ("client", {"errors": True, "analytics": True})


@pytest.mark.parametrize(("name", "value"), [("variant", "mobile"), ("errors", "perhaps"), ("analytics", "")])
async def test_a_disclosure_takes_no_other_values(api: httpx2.AsyncClient, name: str, value: str) -> None:
    answer = await api.get("/v1/privacy/disclosure", params={name: value})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "invalid_payload")
    assert error["details"]["request_body_schema"] is None
    assert [field["field"] for field in error["details"]["invalid_fields"]] == [name]


async def test_a_disclosure_tells_what_the_settings_are() -> None:
    """Retention is that of the plans, the place is the operator's own statement (G-135)."""
    own = plans('{"free": {"events": 5, "retention_days": 17, "price_cents": 0}}')
    told = await read("/v1/privacy/disclosure", plans=own, data_residency="Frankfurt, Germany")
    assert "17 days (free)" in told.json()["paste_ready_markdown"]
    assert told.json()["data_residency"] == {"location": "Frankfurt, Germany", "stated": True}
    assert "Frankfurt" in told.json()["paste_ready_markdown"]
    silent = (await read("/v1/privacy/disclosure")).json()
    assert silent["data_residency"] == {"location": "where the operator runs the service", "stated": False}
