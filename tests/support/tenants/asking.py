"""The part of a tenant's tour that asks about a product: its events counted, and what is made of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.plans import plan_body, snapshot_body

if TYPE_CHECKING:
    from tests.support.tenants.tour import Tenant


def ask_questions(tenant: Tenant) -> None:
    """Send events of a project of their own, and ask what blueprints know of them."""
    project = tenant.create_project("questions")
    path, owner = f"/v1/projects/{project['id']}", tenant.owner_key
    event = {"event": "question asked", "distinct_id": f"{tenant.name}-asker"}
    tenant.call("POST", "/v1/analytics/", event, project["dsn"])
    run_blueprints(tenant, path, owner)
    put_queries_together(tenant, path, owner)
    watch(tenant, path, owner)
    install(tenant)


def install(tenant: Tenant) -> None:
    """Take a project of their own from a drafted plan to a verified install."""
    project, owner = tenant.create_project("installed"), tenant.owner_key
    path, dsn = f"/v1/projects/{project['id']}", project["dsn"]
    wish = {"project_id": project["id"], "business_question": "Who pays?"}
    tenant.call("POST", "/v1/install/plan", wish, owner)
    for _ in range(2):
        plan_sha256 = tenant.call("PUT", f"{path}/signal-map", plan_body(), owner)["plan_sha256"]
    files = [{"file": "src/pay.py", "anchor": "payments.add(payment)"}]
    report = {"plan_sha256": plan_sha256, "source_snapshot": snapshot_body(), "files": files}
    for _ in range(2):
        tenant.call("PUT", f"{path}/implementation-report", report, owner)
    tenant.call("POST", "/v1/analytics/", {"event": "order_paid", "distinct_id": f"{tenant.name}-payer"}, dsn)
    failure = {"type": "BankRefused", "value": "The bank said no."}
    tenant.call("POST", "/v1/logs/", {"level": "error", "message": "It broke.", "exception": failure}, dsn)
    tenant.call("POST", "/v1/deploys/", {"version": "1", "environment": "production"}, dsn)
    assert tenant.call("POST", f"{path}/install/verify", {}, owner)["ok"]
    for read in ("verify-report", "answer-contracts", "setup"):
        tenant.call("GET", f"{path}/{read}", None, owner)
    defect = {"kind": "bug", "fingerprint": "tour-of-a-tenant", "title": f"Of {tenant.name}"}
    for _ in range(2):
        tenant.call("POST", "/v1/feedback", defect | {"project_id": project["id"]}, owner)


def run_blueprints(tenant: Tenant, path: str, owner: str) -> None:
    """Read the catalogue, and run two blueprints of it."""
    tenant.call("GET", "/v1/query-blueprints", None, owner)
    tenant.call("GET", "/v1/query-blueprints/top-events", None, owner)
    told = tenant.call("POST", f"{path}/query-blueprints/top-events/run", {}, owner)
    assert [row["event"] for row in told["rows"]] == ["question asked"]
    tenant.call("POST", f"{path}/query-blueprints/errors-by-release/run", {}, owner, idempotency_key="errors")


def put_queries_together(tenant: Tenant, path: str, owner: str) -> None:
    """Ask by fields and filters; a text needs a provider."""
    people = {"fn": "unique", "field": "distinct_id", "as": "people"}
    mine = {"field": "distinct_id", "op": "eq", "value": f"{tenant.name}-asker"}
    query = {"source": "events", "select": [{"field": "event"}, people], "filters": [mine], "group_by": ["event"]}
    told = tenant.call("POST", f"{path}/analytics/query", query, owner)
    assert told["rows"] == [{"event": "question asked", "people": 1}]
    tenant.call("POST", f"{path}/analytics/query", query | {"limit": 1}, owner, idempotency_key="query")


def watch(tenant: Tenant, path: str, owner: str) -> None:
    """Make two alerts, look at one and delete the other."""
    wish = {"blueprint_id": "top-events", "threshold_column": "row_count", "threshold_op": "gte", "threshold_value": 1}
    tenant.call("POST", f"{path}/alerts/preview", wish | {"days": 1}, owner)
    made = tenant.call("POST", f"{path}/alerts", wish, owner)["id"]
    assert tenant.call("POST", f"{path}/alerts/{made}/evaluate", {}, owner)["triggered"]
    tenant.call("GET", f"{path}/alerts/{made}", None, owner)
    tenant.call("GET", f"{path}/alerts", None, owner)
    again = tenant.call("POST", f"{path}/alerts", wish, owner)["id"]
    tenant.call("DELETE", f"{path}/alerts/{again}", None, owner)
