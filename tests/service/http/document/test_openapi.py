"""The schema document is valid, complete and filterable, and every pointer of the root leads somewhere."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import httpx2
import msgspec
import pytest
import pytest_asyncio
from openapi_spec_validator import OpenAPIV31SpecValidator

from schemas.discovery import FLOWS
from schemas.kernel.errors import CATALOGUE
from schemas.kernel.published import documented_operations
from service.auth.authority import PrincipalKind
from service.http.answer.reply import JSON
from service.http.app import ALIASES, create_app, schema_documents
from service.http.cases.intake import posthog
from service.http.declare.bound import TEST_CLOCK_PATH, Bound
from service.http.declare.headers import matches_tag
from service.http.document.schema_filters import operations, select
from service.http.edge.routes import all_endpoints, bind
from tests.service.http.edge.fakes import fake_services
from tests.service.http.edge.toy_api import running
from tests.support import seen

KEY = {PrincipalKind.KEY}
ROOT = Path(__file__).parents[4]
BASE = "https://service.example"
SHA = "8198502"
DOCUMENT = schema_documents().at(BASE)
OPERATIONS = {(method.upper(), path): operation for path, method, operation in operations(DOCUMENT)}


@pytest_asyncio.fixture
async def api() -> AsyncIterator[httpx2.AsyncClient]:
    """The whole route table without a database: enough for what is public."""
    edge = create_app(lambda: fake_services(base_url=BASE, deploy_sha=SHA, test_clock=False))
    async with running(edge), seen.async_client(BASE, transport=httpx2.ASGITransport(edge)) as client:
        yield client


def test_it_is_valid() -> None:
    """OpenAPI 3.1.0 by the validator, at the schema version of the contract (R-DISC-13, R-VER-01)."""
    assert [error.message for error in OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []
    assert (DOCUMENT["openapi"], DOCUMENT["info"]["version"]) == ("3.1.0", "2026-05-20")
    assert json.loads(json.dumps(DOCUMENT)) == DOCUMENT


def test_it_has_every_documented_operation() -> None:
    """Each documented one is there; each other one is marked as an extension (G-019)."""
    documented = {(row.method, row.path) for row in documented_operations()}
    assert documented <= OPERATIONS.keys()
    for name, operation in OPERATIONS.items():
        extension = name not in documented
        assert operation.get("x-extension", False) == extension
        assert ("extension" in operation["tags"]) == extension


def test_the_answers_to_exports_and_batches_are_described() -> None:
    """Beside that to one record: what an exporter is answered, in either encoding, and what became of many (G-142)."""
    described = OPERATIONS["POST", "/v1/logs/"]
    exported = described["responses"]["200"]["content"]
    assert exported["application/json"]["schema"] == {"$ref": "#/components/schemas/ExportLogsAnswer"}
    assert exported["application/x-protobuf"]["schema"] == {"type": "string", "format": "binary"}
    assert described["x-otlp"]["error"] == {"$ref": "#/components/schemas/ExportStatus"}
    for path, alone in (("/v1/logs/", "LogAccepted"), ("/v1/analytics/", "AnalyticsAccepted")):
        [one, many] = OPERATIONS["POST", path]["responses"]["202"]["content"]["application/json"]["schema"]["anyOf"]
        assert one == {"$ref": f"#/components/schemas/{alone}"}
        assert many == {"$ref": "#/components/schemas/BatchAccepted"}


def test_nothing_else_is_served() -> None:
    """The router has the paths of the document, their aliases and the test clock: no debug page, no schema browser."""
    edge = create_app(fake_services)
    served = {re.sub(r":(str|path)\}", "}", route.path) for route in edge.app.routes}
    documented = {path.rstrip("/") or "/" for path in DOCUMENT["paths"]}
    assert served == documented | set(ALIASES.values()) | {TEST_CLOCK_PATH}


async def test_aliases(api: httpx2.AsyncClient) -> None:
    """An alias answers like its path (G-016)."""
    for path, alias in ALIASES.items():
        one, two = await api.get(path), await api.get(alias)
        assert one.status_code == two.status_code != 404
        if one.is_success:
            assert one.content == two.content


def test_operations_have_names_in_words() -> None:
    """Generated clients call them so. Each is there once."""
    names = [operation["operationId"] for operation in OPERATIONS.values()]
    assert sorted(set(names)) == sorted(names)
    for (method, path), operation in OPERATIONS.items():
        name = operation["operationId"]
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", name), name
        assert not name.startswith(("post_", f"{method.lower()}_projects_project_id")), (path, name)
        assert not re.search(r"_(project_id|id|[a-z]+_id)\b", name), (path, name)


def test_the_test_clock_is_not_in_it() -> None:
    """It is served for tests and never documented (G-120)."""
    assert TEST_CLOCK_PATH not in DOCUMENT["paths"]
    assert TEST_CLOCK_PATH in {endpoint.operation.path for endpoint in all_endpoints()}


def test_every_mutation_has_its_request_schema() -> None:
    """Whatever takes a body and is built shows a schema for it (R-DISC-15)."""
    for (method, path), operation in OPERATIONS.items():
        if method in {"POST", "PUT", "PATCH"} and operation["x-max-body-bytes"]:
            for media in operation["requestBody"]["content"].values():
                assert media["schema"] or path == "/v1/billing/webhook", (method, path)


def test_security_names_the_schemes_of_the_contract() -> None:
    """The seven schemes, each used as its routes need (G-027)."""
    by_auth = {
        "none": [],
        "key": [{"ApiKeyAuth": []}],
        "owner": [{"ApiKeyAuth": []}],
        "runner": [{"RunnerCredentialAuth": []}],
        "key_or_runner": [{"ApiKeyAuth": []}, {"RunnerCredentialAuth": []}],
        "owner_or_runner": [{"ApiKeyAuth": []}, {"RunnerCredentialAuth": []}],
        "dsn": [{"DsnAuth": []}],
        "dsn_or_ci": [{"CiCredentialAuth": []}, {"DsnAuth": []}],
        "ci": [{"CiCredentialAuth": []}],
        "internal": [{"InternalTokenAuth": []}],
        "test": [{"TestTokenAuth": []}],
        "signature": [{"PaymentSignatureAuth": []}],
    }
    for row in documented_operations():
        assert OPERATIONS[row.method, row.path]["security"] == by_auth[row.auth], row.path
    used = {name for operation in OPERATIONS.values() for one in operation["security"] for name in one}
    assert set(DOCUMENT["components"]["securitySchemes"]) == used


def test_error_codes_are_listed_and_their_responses_have_the_right_envelope() -> None:
    """Each operation names its codes; each status refers to the envelope of the route (G-018)."""
    groups = {"onboarding", "credentials", "automation"}
    closed = {name for name, operation in OPERATIONS.items() if operation["tags"][0] in groups}
    closed.add(("DELETE", "/v1/projects/{project_id}"))
    for name, operation in OPERATIONS.items():
        codes = operation["x-error-codes"]
        assert set(codes) <= CATALOGUE.keys()
        variant = "Closed" if name in closed else ""
        for status in {CATALOGUE[code].status for code in codes}:
            shared = {"$ref": f"#/components/responses/{variant}Error{status}"}
            assert operation["responses"][str(status)] == shared or refuses_in_two_forms(operation, status)


def refuses_in_two_forms(operation: dict[str, Any], status: int) -> bool:
    """Whether a status has the form of a protocol of others beside the envelope."""
    schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    assert operation["operationId"] == "send_mcp_message"
    return [one["$ref"].rpartition("/")[2] for one in schema["anyOf"]] == ["McpRefusal", "ErrorEnvelope"]


def test_headers_are_those_of_the_table() -> None:
    """If-Match and Idempotency-Key appear where, and as required as, the table says; others where they are read."""
    for row in documented_operations():
        found = {
            p["name"]: p["required"] for p in OPERATIONS[row.method, row.path]["parameters"] if p["in"] == "header"
        }
        wanted = {}
        if row.idempotency_key:
            stands_in = row.path == "/v1/automation-runs/{run_id}/cancel"
            wanted["Idempotency-Key"] = row.idempotency_key == "required" and not stands_in
        if row.if_match:
            wanted["If-Match"] = row.if_match == "required"
        if "304" in OPERATIONS[row.method, row.path]["responses"]:
            wanted["If-None-Match"] = False
        if row.path == "/v1/deploys/" and row.method == "POST":
            wanted["X-Service-Onboarding-Proof"] = False
        assert found == wanted, row.path


def test_what_accept_chooses_among_are_the_media_types_of_the_answer() -> None:
    """OpenAPI ignores a parameter `Accept`: an operation that reads it declares each form of its answer."""
    forms = {name: {*operation["responses"]["200"].get("content", {})} for name, operation in OPERATIONS.items()
             if "200" in operation["responses"]}  # fmt: skip
    assert forms["POST", "/v1/projects/{project_id}/analytics/query"] == {"application/json", "text/csv"}
    assert forms["GET", "/"] == {"application/json", "text/html; charset=utf-8", "text/markdown; charset=utf-8"}
    assert not [p for operation in OPERATIONS.values() for p in operation["parameters"] if p["name"] == "Accept"]


def test_a_key_in_the_body_is_enough() -> None:
    """A generated client need not send the header where the body carries its key (G-113)."""
    [header] = [
        p for p in OPERATIONS["POST", "/v1/automation-runs/{run_id}/cancel"]["parameters"] if p["in"] == "header"
    ]
    assert (header["name"], header["required"]) == ("Idempotency-Key", False)
    assert "command_key" in header["description"]
    assert "command_key" not in DOCUMENT["components"]["schemas"]["CancelRun"]["required"]


def test_an_id_comes_first() -> None:
    """In every answer that has one; the tag of a union alone may stand before it."""
    for name, schema in DOCUMENT["components"]["schemas"].items():
        members = [member for member in schema.get("properties", {}) if name != "Playbook" or member != "kind"]
        assert "id" not in members or members[0] == "id", (name, members)


def objects_in(part: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every object of the document, with its place; examples are the service's own answers, and left out."""
    if isinstance(part, dict):
        yield where, part
        for name, value in part.items():
            if name != "example":
                yield from objects_in(value, f"{where}/{name}")
    elif isinstance(part, list):
        for index, value in enumerate(part):
            yield from objects_in(value, f"{where}/{index}")


def test_generators_read_every_schema() -> None:
    """No pattern with a lookaround or an escape that RE2 lacks, items for every array, no default of null."""
    for where, part in objects_in(DOCUMENT):
        if isinstance(pattern := part.get("pattern"), str):
            assert not re.search(r"\(\?|\\[uZzbBs]", pattern), (where, pattern)
        if part.get("type") == "array":
            assert "items" in part or "prefixItems" in part, where
        assert "default" not in part or part["default"] is not None, where


BOUND = bind(all_endpoints())
BODIES = {bound.name: bound for bound in BOUND if bound.takes_body and not bound.raw_body}


@pytest.mark.parametrize("name", BODIES)
def test_a_refusal_shows_the_schema_as_it_is_published(name: str) -> None:
    """Nothing that RE2 or a generator refuses, and whole: a reference leads nowhere in a refusal (R-ERR-16)."""
    schema = BODIES[name].body_schema
    for where, part in objects_in(schema):
        assert part.keys().isdisjoint({"$ref", "$defs"}), where
        if isinstance(pattern := part.get("pattern"), str):
            assert not re.search(r"\(\?|\\[uZzbBs]", pattern), (where, pattern)
        if part.get("type") == "array":
            assert "items" in part or "prefixItems" in part, where
    assert len(json.dumps(schema)) < 100_000


def test_no_refusal_makes_a_schema_of_its_own() -> None:
    """Every one comes from `body_schema`, the document apart; what the decoder writes for itself is not shown."""
    sources = [path for room in ("service", "schemas") for path in (ROOT / room).rglob("*.py")]
    found = sorted(path.name for path in sources if "json.schema" in path.read_text())
    assert found == ["openapi.py", "published.py"]


def test_what_is_always_true_is_a_constant_that_is_sent() -> None:
    """`ok` of an accepted record: a generator that takes it for optional, or for an enum of booleans, drops it."""
    schemas = DOCUMENT["components"]["schemas"]
    for name in ("LogAccepted", "AnalyticsAccepted", "DeployAccepted"):
        assert schemas[name]["properties"]["ok"].items() >= {"type": "boolean", "const": True}.items()
        assert "ok" in schemas[name]["required"]


def shapes_of(kind: Any) -> Iterator[type[msgspec.Struct]]:
    """Every struct that a type holds, at any depth."""
    met: set[Any] = set()
    pending = [kind]
    while pending:
        one = pending.pop()
        if one in met:
            continue
        met.add(one)
        pending += [
            argument for argument in get_args(one) if not isinstance(argument, str | int | float | msgspec.Meta)
        ]
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            yield one
            pending += get_type_hints(one, include_extras=True).values()


ANSWERS = [body for bound in BOUND for body in bound.operation.responses.values() if body is not None]
SENT = {shape.__name__: shape for body in ANSWERS for shape in shapes_of(body)}
ASKED = {shape.__name__ for bound in BODIES.values() for shape in shapes_of(bound.body_type)}


@pytest.mark.parametrize("name", sorted(SENT.keys() - ASKED & SENT.keys()))
def test_a_member_that_is_always_sent_is_required(name: str) -> None:
    """By its type: only what may be unset is left out, and what a struct omits that omits defaults (R-DISC-13)."""
    shape = SENT[name]
    hints = get_type_hints(shape)
    names = dict(zip(shape.__struct_fields__, shape.__struct_encode_fields__, strict=True))
    sparse = shape.__struct_config__.omit_defaults
    given = {one.name for one in msgspec.structs.fields(shape) if one.required}
    always = {
        names[one] for one in names if msgspec.UnsetType not in get_args(hints[one]) and (one in given or not sparse)
    }
    component = DOCUMENT["components"]["schemas"].get(name)
    if component is not None:
        tag = {shape.__struct_config__.tag_field} - {None}
        assert set(component.get("required", ())) == always | tag


def alternatives(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The shapes that a schema is one of."""
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    branches = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    for branch in branches:
        yield from alternatives(branch)
    if not branches:
        yield schema


@pytest.mark.parametrize(
    "bound", [bound for bound in BOUND if bound.operation.who.principals >= KEY], ids=lambda one: one.name
)
def test_each_shape_of_an_answer_to_people_has_room_for_the_notice(bound: Bound) -> None:
    """One in several shapes too, and above all a closed one (R-BILL-11)."""
    operation = OPERATIONS.get((bound.operation.method, bound.operation.path))
    if operation is None or bound.operation.docs.sealed:
        return
    for status, response in operation["responses"].items():
        for schema in alternatives(response.get("content", {}).get(JSON, {}).get("schema", {})) if status < "4" else ():
            if "properties" in schema and schema.get("title") != "BatchAccepted":
                assert "billing_notice" in schema["properties"], (status, schema.get("title"))


def test_members_with_a_default_are_optional() -> None:
    for where, part in objects_in(DOCUMENT["components"]["schemas"]):
        for name in part.get("required", []) if part.get("type") == "object" else []:
            assert "default" not in part["properties"][name], (where, name)


def test_a_request_has_no_default() -> None:
    """openapi-typescript takes a member with one for one that is always there; the words tell it instead."""
    schemas = DOCUMENT["components"]["schemas"]
    for name in ("CreateCredential", "LogEvent", "RecordUsage", "IdentityBody"):
        assert [where for where, part in objects_in(schemas[name]) if "default" in part] == []
    lifetime = schemas["CreateCredential"]["properties"]["expires_in_seconds"]
    assert lifetime["description"] == "Lifetime in seconds. 7776000 when left out."
    spent = schemas["RecordUsage"]["properties"]["cost_usd"]["description"]
    assert spent.endswith("with at most 6 decimals. 0 when left out.")


BYTES = {
    **dict.fromkeys(["record_sentry_envelope", "record_sentry_event", "upload_source_map"], "application/octet-stream"),
    **dict.fromkeys(
        [endpoint.operation.operation_id for endpoint in posthog.ENDPOINTS],
        "application/octet-stream",
    ),
    "record_security_reports": "application/csp-report",
    "record_minidump": "multipart/form-data",
    "upload_chunks": "multipart/form-data",
    "answer_provider_page": "application/x-www-form-urlencoded",
    "unsubscribe": "application/x-www-form-urlencoded",
}
"""Bodies that are files, or of a foreign protocol."""


def test_a_body_is_json() -> None:
    """A generator that is told of text/plain leaves the operation out, or sends it by that name (G-006)."""
    for operation in OPERATIONS.values():
        wanted = BYTES.get(operation["operationId"], "application/json")
        assert list(operation.get("requestBody", {}).get("content", {wanted: {}})) == [wanted]
    ingest = {name for name, operation in OPERATIONS.items() if operation.get("x-also-takes") == ["text/plain"]}
    assert ingest == {("POST", "/v1/logs/"), ("POST", "/v1/analytics/")}


def test_a_step_of_a_run_is_enumerated() -> None:
    """What a runner may report, and nothing else (G-106)."""
    step = DOCUMENT["components"]["schemas"]["UpdateRun"]["properties"]
    assert step["phase"]["enum"] == ["running"]
    assert step["status"]["enum"] == ["draft_pr_opened", "failed", "escalated"]


def members_of(schema: Any) -> set[str]:
    """Names of what is always there; of an object inside, its own names too."""
    named = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else {}
    shown = {name: named["properties"][name] for name in named.get("required", ())}
    return {*shown, *(inner for member in shown.values() for inner in members_of(member))}


FENCES = {"state_revision": {"state_revision"}, "case_revision": {"revision", "case_revision"}}
"""What a command names of what it was decided on -> under which name an answer shows it as it is now."""


def fence_of(operation: Any) -> str | None:
    if any(one["name"] == "If-Match" for one in operation.get("parameters", ()) if "name" in one):
        return "ETag"
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    return next((name for name in FENCES if name in members_of(body)), None)


def test_an_answer_carries_the_revision_that_the_next_command_needs() -> None:
    """Whoever has carried out a command can send the next one without a read in between."""
    fenced = {name: fence for name, operation in OPERATIONS.items() if (fence := fence_of(operation))}
    assert fenced["POST", "/v1/automation-runs/{run_id}/approvals"] == "state_revision"
    assert fenced["POST", "/v1/cases/{case_id}/comments"] == "case_revision"
    assert fenced["PUT", "/v1/projects/{project_id}/automation-contract"] == "ETag"
    for name, fence in fenced.items():
        answers = {k: v for k, v in OPERATIONS[name]["responses"].items() if k.startswith("2")}
        assert answers, name
        for answer in answers.values():
            if fence == "ETag":
                assert fence in answer["headers"], name
            else:
                assert members_of(answer["content"]["application/json"]["schema"]) & FENCES[fence], name


def test_prose_is_for_readers() -> None:
    """Neither ids of rules nor the indentation of source code."""
    for where, part in objects_in(DOCUMENT):
        for name in ("description", "summary"):
            if isinstance(text := part.get(name), str):
                assert not re.search(r"\b(R-[A-Z]+-|G-)\d|\n |\bthreat \d", text), (where, text)
                assert text == text.strip(), where


def references(part: Any) -> set[str]:
    return set(re.findall(r'"\$ref": "(#/[^"]+)"', json.dumps(part)))


def resolves(document: dict[str, Any], reference: str) -> bool:
    found: Any = document
    for name in reference.removeprefix("#/").split("/"):
        found = found.get(name)
        if found is None:
            return False
    return True


@pytest.mark.parametrize("name", OPERATIONS, ids=lambda name: f"{name[0]} {name[1]}")
def test_one_operation_is_complete_by_itself(name: tuple[str, str]) -> None:
    """The document of one operation holds each component it refers to and no other."""
    method, path = name
    document = select(DOCUMENT, path=path, method=method)
    assert [(p, m) for p, m, _ in operations(document)] == [(path, method.lower())]
    assert_complete(document)


FLOW_OF = {flow: {"flow": flow} for flow in FLOWS}
TAG_OF = {tag["name"]: {"tag": tag["name"]} for tag in DOCUMENT["tags"]}


@pytest.mark.parametrize("filters", [*FLOW_OF.values(), *TAG_OF.values()], ids=[*FLOW_OF, *TAG_OF])
def test_a_flow_and_a_tag_are_complete_by_themselves(filters: dict[str, str]) -> None:
    """Valid, with each component they refer to and no other, and in the order of the whole document."""
    document = select(DOCUMENT, **filters)
    assert [error.message for error in OpenAPIV31SpecValidator(document).iter_errors()] == []
    assert_complete(document)
    kept = [(path, method) for path, method, _ in operations(document)]
    assert kept == [(path, method) for path, method, _ in operations(DOCUMENT) if (path, method) in set(kept)]


def test_operations_come_in_the_order_of_the_work() -> None:
    """Of two flows, the steps that everybody takes: each after the one that it needs."""
    steps = {
        "onboarding": [
            *("create_project", "start_onboarding", "review_onboarding", "start_onboarding_proof", "verify_onboarding"),
        ],
        "automation": [
            *("render_automation_playbook", "validate_automation_contract", "put_automation_contract"),
            *("enable_automation_contract", "list_automation_trigger_receipts", "create_claim", "start_automation_run"),
            *("record_automation_usage", "request_automation_approval", "decide_automation_approval"),
            *("authorize_draft_pr", "consume_draft_pr", "record_pr_proof", "verify_automation_run"),
        ],
    }
    for flow, wanted in steps.items():
        names = [operation["operationId"] for _, _, operation in operations(select(DOCUMENT, flow=flow))]
        assert [name for name in names if name in wanted] == wanted
        assert ("delete_project" in names) == (flow == "automation")


PROVIDER_FLOW = {
    *("POST /v1/auth/device", "POST /v1/auth/device/poll", "GET /v1/projects", "POST /v1/projects"),
    *("POST /v1/auth/provider", "POST /v1/auth/provider/poll"),
    *("GET /v1/auth/provider/callback", "POST /v1/auth/provider/callback"),
    "DELETE /v1/projects/{project_id}/provider-connection",
    "POST /v1/projects/{project_id}/provider/provision",
    "POST /v1/projects/{project_id}/provider/session-replay/configure",
    "GET /v1/projects/{project_id}/provider/session-replay/status",
    *(
        f"GET /v1/projects/{{project_id}}/{name}"
        for name in ("session-recordings", "feature-flags", "surveys", "experiments")
    ),
}
"""What the setup of provider analytics takes: a key, a project, the connection, and what is read through it."""


def test_the_provider_flow_is_whole() -> None:
    """Each step of it, the way to its first step, and every schema that they refer to (R-DISC-14, G-164, G-165)."""
    document = select(DOCUMENT, flow="provider")
    assert {f"{method.upper()} {path}" for path, method, _ in operations(document)} == PROVIDER_FLOW
    assert_complete(document)
    about = {
        f"{bound.operation.method} {bound.operation.path}"
        for bound in bind(all_endpoints())
        if "/provider" in bound.operation.path or bound.operation.group == "provider"
    }
    assert about <= PROVIDER_FLOW


def assert_complete(document: dict[str, Any]) -> None:
    """Fail on a reference that leads nowhere, and on a component that nothing refers to."""
    used = references(document)
    assert all(resolves(document, reference) for reference in used)
    held = {
        f"#/components/{section}/{component}"
        for section, components in document["components"].items()
        if section != "securitySchemes"
        for component in components
    }
    assert held == used


async def test_each_operation_of_a_flow_tells_the_envelope_of_its_errors(api: httpx2.AsyncClient) -> None:
    """In the schema by a name, and in the guide of the flow; a refusal has that form (G-018, R-ERR-02)."""
    guides = {"onboarding": "/install.md", "automation": "/v1/docs/automation.md"}
    for flow, guide in guides.items():
        found = (await api.get("/v1/openapi.json", params={"flow": flow})).json()
        text = (await api.get(guide)).text
        rows = {kind: text[text.index(f"| {kind} |") :].partition("\n")[0] for kind in ("closed", "standard")}
        named = {kind: set(re.findall(r"`([a-z]+_[a-z_]+)`", row.split(" | ")[2])) for kind, row in rows.items()}
        told: dict[str, set[str]] = {"closed": set(), "standard": set()}
        for path, method, operation in operations(found):
            told[operation["x-error-envelope"]].add(operation["operationId"])
            concrete = re.sub(r"\{[^}]*\}", "nothing_1", path)
            answer = await api.request(
                method, concrete, headers={"x-service-dsn": "wrong", "authorization": "Bearer wrong"}
            )
            if answer.is_success:
                continue
            error = answer.json()["error"]
            assert ("request_id" not in error) == (operation["x-error-envelope"] == "closed"), (path, error)
        assert named == told, flow


async def test_filters_over_http(api: httpx2.AsyncClient) -> None:
    """Flow, tag, one operation, without components, and the index (R-DISC-14)."""
    for flow in ("install", "onboarding", "automation", "provider"):
        found = (await api.get("/v1/openapi.json", params={"flow": flow})).json()
        assert found["paths"]
        assert all(flow in operation["x-flows"] for _, _, operation in operations(found))
        assert [error.message for error in OpenAPIV31SpecValidator(found).iter_errors()] == []
    onboarding = (await api.get("/v1/openapi.json", params={"flow": "onboarding"})).json()
    assert "post" in onboarding["paths"]["/v1/projects"]  # the flow begins by making a project
    tagged = (await api.get("/v1/openapi.json", params={"tag": "credentials"})).json()
    assert {tag for _, _, operation in operations(tagged) for tag in operation["tags"]} == {
        "credentials",
        "extension",
    }
    assert {tag["name"] for tag in tagged["tags"]} == {"credentials", "extension"}
    both = (await api.get("/v1/openapi.json", params={"tag": "credentials", "flow": "provider"})).json()
    assert all("provider" in operation["x-flows"] for _, _, operation in operations(both))
    one = (await api.get("/v1/openapi.json", params={"path": "/v1/projects", "method": "post"})).json()
    assert [(p, m) for p, m, _ in operations(one)] == [("/v1/projects", "post")]
    bare = (await api.get("/v1/openapi.json", params={"include_components": "false"})).json()
    assert "components" not in bare
    assert bare["paths"] == DOCUMENT["paths"]
    index = (await api.get("/v1/openapi.json", params={"index": "true"})).json()
    assert {(o["method"], o["path"]) for o in index["operations"]} == OPERATIONS.keys()
    assert index["flows"] == ["install", "onboarding", "automation", "provider"]
    assert "paths" not in index
    assert (await api.get("/v1/openapi.json")).json() == DOCUMENT


@pytest.mark.parametrize(
    ("params", "status", "code"),
    [
        ({"flow": "unheard-of"}, 400, "invalid_payload"),
        ({"tag": "unheard-of"}, 400, "invalid_payload"),
        ({"path": "/v1/projects"}, 400, "invalid_payload"),
        ({"method": "GET"}, 400, "invalid_payload"),
        ({"index": "yes"}, 400, "invalid_payload"),
        ({"include_components": "0"}, 400, "invalid_payload"),
        ({"path": "/v1/projects", "method": "DELETE"}, 404, "operation_not_found"),
        ({"path": "/v1/unheard-of", "method": "GET"}, 404, "operation_not_found"),
        ({"unheard-of": "1"}, 200, None),
    ],
)
async def test_filters_that_select_nothing(
    api: httpx2.AsyncClient, params: dict[str, str], status: int, code: str | None
) -> None:
    """Unknown flow or tag and half a pair are 400, an unknown pair is 404."""
    answer = await api.get("/v1/openapi.json", params=params)
    assert answer.status_code == status
    assert code is None or answer.json()["error"]["code"] == code


@pytest.mark.parametrize(
    ("path", "method", "operation_id"),
    [
        ("/v1/projects/proj_01m8jkxnq2vc4atgzhdavm8tja", "delete", "delete_project"),
        ("/v1/projects/{id}/health/", "GET", "get_project_health"),
        ("/v1/projects/:project/cases", "get", "list_cases"),
        ("/v1/projects/{projectId}/automation-contract/enable", "post", "enable_automation_contract"),
        ("/v1/auth/device/poll", "post", "poll_device"),
    ],
)
async def test_an_operation_is_found_by_any_form_of_its_path(
    api: httpx2.AsyncClient, path: str, method: str, operation_id: str
) -> None:
    """Values in the place of parameters and other names of them; a fixed path comes before one with a parameter."""
    found = (await api.get("/v1/openapi.json", params={"path": path, "method": method})).json()
    assert [operation["operationId"] for _, _, operation in operations(found)] == [operation_id]


@pytest.mark.parametrize("name", OPERATIONS, ids=lambda name: f"{name[0]} {name[1]}")
def test_every_path_with_values_names_its_operation(name: tuple[str, str]) -> None:
    method, path = name
    for filled in (re.sub(r"\{\w+\}", "a.1", path), re.sub(r"\{\w+\}", "{other}", path)):
        document = select(DOCUMENT, path=filled, method=method)
        assert [(p, m) for p, m, _ in operations(document)] == [(path, method.lower())]


async def test_conditional_reads(api: httpx2.AsyncClient) -> None:
    """The tag changes with the filter; If-None-Match that names it gets 304 (G-009)."""
    whole, part = await api.get("/v1/openapi.json"), await api.get("/v1/openapi.json?index=true")
    etag = whole.headers["etag"]
    assert re.fullmatch(r'"[0-9a-f]{32}"', etag)
    assert etag != part.headers["etag"]
    assert whole.headers["cache-control"] == "public, max-age=300"
    for sent in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        answer = await api.get("/v1/openapi.json", headers={"if-none-match": sent})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
        assert "content-type" not in answer.headers
    assert (await api.get("/v1/openapi.json", headers={"if-none-match": '"other"'})).status_code == 200


def test_weak_comparison_of_tags() -> None:
    """If-None-Match compares weakly and takes lists."""
    assert matches_tag('W/"a" , "b"', '"a"')
    assert not matches_tag('"ab"', '"a"')
    assert not matches_tag(None, '"a"')


async def test_errors_are_listed(api: httpx2.AsyncClient) -> None:
    """The catalogue over HTTP is the catalogue in the code."""
    answer = (await api.get("/v1/errors")).json()
    assert {entry["code"]: entry["status"] for entry in answer["errors"]} == {
        code: known.status for code, known in CATALOGUE.items()
    }
    assert answer["count"] == len(CATALOGUE)


async def test_root(api: httpx2.AsyncClient) -> None:
    """The required members, the versions, and only pointers that are built (R-DISC-01 to R-DISC-05)."""
    root = (await api.get("/")).json()
    assert {"name", "docs", "api_schema"} <= root.keys()
    assert (root["version"], root["contract_version"]) == (3, 3)
    assert root["deploy_sha"] == SHA
    assert set(root["proof_contract"]) == {"install", "answering"}
    for start in root["quick_start"]:
        assert set(start) == {"when", "action", "urls"}
    assert "User-Agent" in root["next_action"]
    there = {"/console", *(path for _, path in OPERATIONS)}  # Pages of the console are no operations.
    urls = [value for value in root.values() if isinstance(value, str) and value.startswith(BASE)]
    urls += [url for start in root["quick_start"] for url in start["urls"]]
    assert len(urls) > 5
    for url in urls:
        assert url.removeprefix(BASE).partition("?")[0] in there, url
    for url in urls:
        if "{" not in url and "POST" not in url and ("GET", url.removeprefix(BASE).partition("?")[0]) in OPERATIONS:
            assert (await api.get(url)).status_code == 200, url
    assert "results" not in json.dumps(root)


async def test_a_commit_that_nobody_named_is_unknown() -> None:
    edge = create_app(lambda: fake_services(base_url=BASE, deploy_sha=None, test_clock=False))
    async with running(edge), seen.async_client(BASE, transport=httpx2.ASGITransport(edge)) as client:
        assert (await client.get("/")).json()["deploy_sha"] == "unknown"


async def test_no_test_clock_without_the_setting(api: httpx2.AsyncClient) -> None:
    """404 whatever is presented (G-120)."""
    for headers in ({}, {"authorization": "Bearer owner"}):
        answer = await api.post(TEST_CLOCK_PATH, json={"seconds": 1}, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_found")
