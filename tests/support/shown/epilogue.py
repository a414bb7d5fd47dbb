"""The rest of the interface after the tour of a tenant: operations for everybody and for operators, and ends."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx2

from scripts.load import worlds
from service.http.declare.operations import ANYONE
from service.http.edge.routes import all_endpoints
from service.http.events.event import list_events, list_stream_events
from service.webhooks.mail import UnsubscribeToken, make_token
from tests.support import accounts
from tests.support.ci_issuer import CiIssuer
from tests.support.connecting import CALLBACK, form_of, sent_back
from tests.support.payments import notification, signature, subscription
from tests.support.server import ENCRYPTION_KEY, ServerHandle
from tests.support.shown.plain import HOST
from tests.support.tenants.tour import Tenant

PAGES = ("/docs/how-to/stop", "/docs/api/deletion")
ASKED = (
    *("/v1/openapi.json?index=true", "/device?user_code=WDJB-MJHT", "/v1/install/sdk/python", "/docs/search?q=lease"),
    *(f"{page}{ending}" for page in PAGES for ending in ("", ".md")),
)
"""Reads for everybody whose answer depends on the question."""
NOT_BY_THEMSELVES = {
    *(
        CALLBACK,
        "/v1/openapi.json",
        "/docs/search",
        "/v1/events/schemas",
        "/v1/log/proof/inclusion",
        "/v1/log/proof/consistency",
    ),
}
"""Reads for everybody that make a poor example, or none, without a question."""
CSV = {"accept": "text/csv"}


def finish(tenant: Tenant, server: ServerHandle) -> None:
    """Send a valid request to each operation that the tour leaves out, but for those that end things (see `end`)."""
    check_log(tenant)
    follow_events(tenant)
    read_all(tenant)
    stand_in(tenant, server)
    export(tenant)
    read_tables(tenant)
    connect(tenant)
    report_payment(tenant)
    plan_twice(tenant)
    end_mail(tenant)


def end_mail(tenant: Tenant) -> None:
    """End mail to the owner by a link, as it stands in a message."""
    [project, *_] = tenant.call("GET", "/v1/projects", None, tenant.owner_key)["projects"]
    path = f"/v1/projects/{project['id']}/notifications/destinations"
    made = tenant.call("POST", path, {"kind": "mail", "name": "My mail"}, tenant.owner_key)
    tenant.call("PUT", f"{path}/{made['id']}/rule", {"events": ["run.ended"]}, tenant.owner_key)
    token = make_token(bytes.fromhex(ENCRYPTION_KEY), UnsubscribeToken(project["id"], made["id"], made["member_id"]))
    assert tenant.client.get(f"/unsubscribe/{token}").is_success
    assert tenant.client.post(f"/unsubscribe/{token}", data={"List-Unsubscribe": "One-Click"}).is_success


def read_all(tenant: Tenant) -> None:
    """Read all that is for everybody, in each of its media types."""
    for adapter in tenant.call("GET", "/adapters", None, None)["adapters"]:
        assert tenant.client.get(f"/adapters/{adapter['file']}").is_success
    tenant.call("GET", "/v1/automation-playbooks/error-to-draft-pr", None, None)
    for path in ("/docs/api/cases", "/docs/how-to/run"):
        for media in ("text/html", "text/markdown"):
            assert tenant.client.get(path, headers={"accept": media}).is_success, path
    for path in ASKED:
        assert tenant.client.get(path).is_success, path
    for operation in (endpoint.operation for endpoint in all_endpoints()):
        if operation.method == "GET" and operation.who.principals == ANYONE and operation.path not in NOT_BY_THEMSELVES:
            for media in (operation.docs.content_type, *operation.docs.also_answers):
                if "{" not in operation.path:
                    answer = tenant.client.get(operation.path, headers={"accept": media.partition(";")[0]})
                    assert answer.status_code in operation.responses, f"{operation.path}: {answer.text}"
                    assert answer.status_code < 400, f"{operation.path}: {answer.status_code} {answer.text}"


def stand_in(tenant: Tenant, server: ServerHandle) -> None:
    """Sign in as a synthetic person, and look a real one up."""
    code = tenant.call("POST", "/v1/auth/device", {"client_name": "tests"}, None)["user_code"]
    wish = {"user_code": code, "test_run_id": "nightly"}
    tenant.call("POST", "/v1/auth/device/test-authorize", wish, server.test_token)
    tenant.call("POST", "/v1/auth/identity/resolve", {"identity": accounts.identity("alex")}, server.internal_token)


def export(tenant: Tenant) -> None:
    """Send records as an exporter of OpenTelemetry does."""
    project = tenant.create_project("exports")
    record = {"severityNumber": 9, "body": {"stringValue": "An order was placed."}}
    body = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
    tenant.call("POST", "/v1/logs/", body, project["dsn"])


def read_tables(tenant: Tenant) -> None:
    """Publish a query and read it, as JSON and as CSV; and ask for the rest of the tables."""
    project, owner = tenant.create_project("tables"), tenant.owner_key
    path = f"/v1/projects/{project['id']}"
    tenant.call("POST", "/v1/analytics/", {"event": "order_paid", "distinct_id": "u7"}, project["dsn"])
    wish = {"blueprint_id": "top-events", "title": "Orders"}
    made = tenant.call("POST", f"{path}/public-queries", wish, owner)
    public = f"/v1/public/q/{made['publication_id']}"
    tenant.call("GET", public, None, None)
    assert tenant.client.get(public, headers=CSV).is_success
    query = {"source": "events", "select": [{"field": "event"}, {"fn": "count", "as": "events"}], "group_by": ["event"]}
    for door, body in (("query-blueprints/top-events/run", {}), ("analytics/query", query)):
        headers = accounts.bearer(owner) | CSV
        assert tenant.client.post(f"{path}/{door}", json=body, headers=headers).is_success


def check_log(tenant: Tenant) -> None:
    """Read the signed log as anybody does, and prove a part of it."""
    give_up = time.monotonic() + 60
    while True:
        answer = tenant.client.get("/v1/log/checkpoint")
        if answer.is_success and int(answer.text.split("\n")[1]) > 2:
            break
        assert time.monotonic() < give_up, answer.text
        time.sleep(0.2)
    assert tenant.client.get("/v1/log/tile/0/000.p/1").is_success
    assert tenant.client.get("/v1/log/proof/inclusion?position=2&size=3").is_success
    assert tenant.client.get("/v1/log/proof/consistency?from=2&to=3").is_success


def follow_events(tenant: Tenant) -> None:
    """Read the events of a project, and of it alone, in each further form."""
    project = tenant.create_project("followed")
    paths = f"/v1/projects/{project['id']}/events", f"/v1/streams/{project['id']}/events"
    for operation, path in zip((list_events.operation, list_stream_events.operation), paths, strict=True):
        give_up = time.monotonic() + 60
        while not tenant.call("GET", path, None, tenant.owner_key)["events"]:
            assert time.monotonic() < give_up, "its first event has no position"
            time.sleep(0.2)
        for media in operation.docs.also_answers:
            headers = {**accounts.bearer(tenant.owner_key), "accept": media}
            assert tenant.client.get(path, headers=headers).is_success


def connect(tenant: Tenant) -> None:
    """Connect an analytics provider, as the person's browser does, and disconnect it."""
    project = tenant.create_project("connected")
    started = tenant.call("POST", "/v1/auth/provider", {"project_id": project["id"]}, tenant.owner_key)
    page = tenant.client.get(sent_back(started).removeprefix(HOST))
    assert page.is_success, page.text
    assert tenant.client.post(CALLBACK, data=form_of(page) | {"decision": "allow"}).is_success
    poll = {"connection_id": started["connection_id"]}
    tenant.call("POST", "/v1/auth/provider/poll", poll, tenant.owner_key)
    tenant.call("DELETE", f"/v1/projects/{project['id']}/provider-connection", None, tenant.owner_key)


def report_payment(tenant: Tenant) -> None:
    """Tell of a subscription, as the payment provider does."""
    user_id = tenant.call("GET", "/v1/billing/status", None, tenant.owner_key)["user_id"]
    about = subscription("sub_1", "active", "pro", user_id=user_id)
    raw = json.dumps(notification("customer.subscription.updated", about, 1_767_225_600)).encode()
    headers = {"content-type": "application/json", "stripe-signature": signature(raw)}
    accounts.checked(tenant.client.post("/v1/billing/webhook", content=raw, headers=headers))


def plan_twice(tenant: Tenant) -> None:
    """Replace a plan before it is reviewed."""
    project, owner = tenant.create_project("plans"), tenant.owner_key
    path = f"/v1/projects/{project['id']}/onboarding"
    first = tenant.call("POST", path, {"intent": "start", "plan": worlds.plan("Who pays?")}, owner)
    second = {"intent": "start", "plan": worlds.plan("Who stays?")}
    tenant.call("POST", path, second, owner, if_match=first["etag"])


def exchange(tenant: Tenant, issuer: CiIssuer) -> None:
    """Bind a workflow twice, and exchange the token of its run."""
    project = tenant.create_project("built")
    for _ in range(2):
        tenant.call("POST", f"/v1/projects/{project['id']}/ci-bindings", issuer.binding(), tenant.owner_key)
    body = {"project_id": project["id"], "token": issuer.token(HOST)}
    tenant.call("POST", "/v1/auth/ci/exchange", body, None)


def end(tenant: Tenant) -> None:
    """Delete a person of a project, the project, then the account of somebody else, each until it is gone."""
    project = tenant.create_project("gone")
    until_gone(tenant.client, "DELETE", f"/v1/projects/{project['id']}/users/alex-walker", tenant.owner_key, None)
    until_gone(tenant.client, "DELETE", f"/v1/projects/{project['id']}", tenant.owner_key, None)
    guest = accounts.sign_in(tenant.client, tenant.internal_token, f"{tenant.name}-gone")
    until_gone(tenant.client, "POST", "/v1/auth/self_delete", guest, {"confirm": "DELETE"})


def until_gone(client: httpx2.Client, method: str, path: str, secret: str, body: Any) -> None:
    """Repeat a request with its key until it answers 200."""
    headers = accounts.bearer(secret) | {"idempotency-key": "gone"}
    give_up = time.monotonic() + 60
    while True:
        answer = client.request(method, path, json=body, headers=headers)
        assert answer.is_success, answer.text
        if answer.status_code == 200:
            return
        assert time.monotonic() < give_up, answer.text
        time.sleep(0.2)
