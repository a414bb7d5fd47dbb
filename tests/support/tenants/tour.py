"""A full tour of a tenant over HTTP: a valid use of every documented operation on a tenant's objects.

It carries a project from sign-in to a verified repair, then uses everything that can be stopped, ended or replaced,
and leaves some of it under way: a claimed case, a run that waits for a person, a grant that nobody has spent.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from typing import Any, Self
from urllib.parse import urlsplit

import httpx2
import msgspec

from schemas.mcp import MODERN
from scripts.bench import chains
from scripts.load import worlds
from scripts.load.automation_world import (
    AUTOMATION,
    BASE,
    OBSERVATION_SECONDS,
    PLAYBOOK,
    REPOSITORY,
    SETTLING,
    TRAFFIC,
    Shop,
    bindings,
    mint,
    onboard,
    open_shop,
)
from service.auth.authority import PrincipalKind
from service.auth.secrets import digest
from service.eventstore.store import EventStore
from service.http.edge.routes import all_endpoints
from service.registry import registry
from statemachines.contracts.playbook import assemble_entry, find_template
from tests.support import accounts, seen
from tests.support.ci_issuer import BOUND
from tests.support.connecting import CALLBACK, form_of, sent_back
from tests.support.mcp import META
from tests.support.playbook_samples import AUTO_MERGE, REVIEW, assertions_of, bindings_of
from tests.support.server import ServerHandle
from tests.support.sessions import open_session
from tests.support.tenants.asking import ask_questions
from tests.support.weekly import gap, hypothesis, keep_events, report_on

HEAD, MERGED = "e" * 40, "f" * 40
PULL_REQUEST = {
    "repository": REPOSITORY,
    "pr_number": 7,
    "pr_url": f"{REPOSITORY}/pull/7",
    "head_branch": "heal/now",
    "base_branch": BASE,
    "head_sha": HEAD,
}
"""What every observation of CI says of it."""
PROJECT = "/v1/projects/{project_id}"
WAIT = OBSERVATION_SECONDS + SETTLING
DISCOVER = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": META}}


class Tenant(worlds.Service):
    """A person with a project. Every request goes through one transport; a refusal ends the tour."""

    def __init__(self, server: ServerHandle, transport: httpx2.BaseTransport, name: str) -> None:
        assert server.database_url is not None
        super().__init__(server.port, server.database_url, server.internal_token, server.test_token)
        self.client = seen.client(server.base_url, transport=transport, timeout=20)
        self.name = name
        self.secrets: dict[str, str] = {}
        self._operator = server

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def call(self, method: str, path: str, body: Any, secret: str | None, **headers: str) -> Any:
        """Send one request with a bearer secret; `_` stands for `-` in header names. Returns the answer's JSON."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if secret is not None:
            sent["authorization"] = f"Bearer {secret}"
        content = None
        if body is not None:
            sent["content-type"] = "application/json"
            content = json.dumps(body).encode()
        answer = self.client.request(method, path, headers=sent, content=content)
        if answer.headers.get("content-type") == "application/x-tar":
            return answer.content
        return accounts.checked(answer)

    def wait_for_delivery(self, path: str, secret: str) -> None:
        """Wait until a log of deliveries has one, outside of the tour: both tours make the same requests."""
        with self._operator.client(secret) as client:
            while not client.get(path).raise_for_status().json()["deliveries"]:
                time.sleep(0.1)

    def wait_until_deleted(self, path: str, secret: str) -> None:
        """Wait until the deletion of a person has ended, outside of the tour, for the same reason."""
        with self._operator.client(secret) as client:
            while client.delete(path, headers={"idempotency-key": "gone"}).raise_for_status().status_code != 200:
                time.sleep(0.1)

    def carry(self, talk: chains.Talk) -> Any:
        """Run a scripted conversation to its end; returns its result."""
        try:
            method, path, headers, content = next(talk)
            while True:
                answer = self.client.request(method, path, headers=headers, content=content or None)
                method, path, headers, content = talk.send((answer.status_code, {}, answer.content))
        except StopIteration as over:
            return over.value

    def advance(self, seconds: int) -> None:
        """Advance the clock, as the test operator."""
        self._operator.advance(seconds)

    def sign_in(self) -> None:
        """Sign in twice, which makes two keys of one person."""
        for key in ("spare key", "owner"):
            self.secrets[key] = accounts.sign_in(self.client, self.internal_token, self.name)
        self.owner_key = self.secrets["owner"]

    def open_sessions(self, number: int) -> None:
        """Open sessions in the console, as the operator's links do."""
        [[user_id]] = self.query("select project_id from api_keys where key_hash = %s", digest(self.owner_key))
        asyncio.run(_open_sessions(self.database_url, user_id, number))


async def _open_sessions(database_url: str, user_id: str, number: int) -> None:
    store = EventStore(database_url, registry())
    await store.start()
    try:
        for _ in range(number):
            await open_session(store, user_id)
    finally:
        await store.stop()


def take_tour(tenant: Tenant) -> Shop:
    """Run the whole tour; returns the final project."""
    tenant.sign_in()
    keys = tenant.call("GET", "/v1/keys", None, tenant.owner_key)["keys"]
    end_session(tenant)
    shop = open_shop(tenant, "shop")
    tenant.secrets |= {"ci": shop.ci, "runner": shop.runner, "dsn": shop.dsn}
    connect(tenant, shop)
    read_project(tenant, shop)
    run_id = repair(tenant, shop)
    read_chain(tenant, shop, run_id)
    shop = end_secrets(tenant, shop, keys[-1]["id"])
    stop_and_go(tenant, shop)
    leave_under_way(tenant, shop, again=repair_by_host(tenant, shop))
    review_week(tenant)
    work_on_cases(tenant)
    ask_questions(tenant)
    share(tenant)
    publish(tenant)
    be_told(tenant)
    set_up_provider(tenant)
    return shop


def end_session(tenant: Tenant) -> None:
    """Open two sessions in the console, past its pages, and end one."""
    tenant.open_sessions(2)
    sessions = tenant.call("GET", "/v1/auth/sessions", None, tenant.owner_key)["sessions"]
    tenant.call("DELETE", f"/v1/auth/sessions/{sessions[-1]['session_id']}", None, tenant.owner_key)


def set_up_provider(tenant: Tenant) -> None:
    """Provision a project of its own, and record its sessions."""
    project, owner = tenant.create_project("provided"), tenant.owner_key
    path = f"/v1/projects/{project['id']}"
    tenant.call("POST", f"{path}/provider/provision", {}, owner)
    tenant.call("POST", f"{path}/provider/session-replay/configure", {"sample_rate": 0.5}, owner)
    status = tenant.call("GET", f"{path}/provider/session-replay/status", None, owner)
    assert status["status"] == "ready"
    for name in ("session-recordings", "feature-flags", "experiments", "users/ann/summary"):
        tenant.call("GET", f"{path}/{name}", None, owner)
    [survey] = tenant.call("GET", f"{path}/surveys", None, owner)["surveys"]
    told = tenant.call("GET", f"{path}/surveys?survey_id={survey['id']}", None, owner)
    assert len(told["responses"]) == 1
    tenant.call("GET", "/v1/analytics/browser-config", None, project["dsn"])


def publish(tenant: Tenant) -> None:
    """Publish two queries of a project of their own, and revoke one."""
    project, owner = tenant.create_project("numbers"), tenant.owner_key
    path = f"/v1/projects/{project['id']}/public-queries"
    for title in ("One", "Other"):
        made = tenant.call("POST", path, {"blueprint_id": "top-events", "title": f"{title} of {tenant.name}"}, owner)
    tenant.call("DELETE", f"{path}/{made['publication_id']}", None, owner)


def be_told(tenant: Tenant) -> None:
    """Register webhooks that nobody answers at, use one, and take it away."""
    project, owner = tenant.create_project("told"), tenant.owner_key
    path = f"/v1/projects/{project['id']}/webhooks"
    wish = {"url": f"https://127.0.0.1:9/{tenant.name}"}
    first, _ = (
        tenant.call("POST", path, wish | {"events": [name]}, owner)["id"]
        for name in ("deploy.recorded", "case.created")
    )
    tenant.call("POST", "/v1/deploys/", {"version": "1", "environment": "production"}, project["dsn"])
    tenant.wait_for_delivery(f"{path}/{first}/deliveries", owner)
    told = tenant.call("GET", f"{path}/{first}/deliveries", None, owner)["deliveries"]
    tenant.call("POST", f"{path}/{first}/deliveries/{told[0]['delivery_id']}/resend", {}, owner)
    tenant.call("POST", f"{path}/{first}/replay", {"after": 0, "until": told[0]["position"]}, owner)
    tenant.call("POST", f"{path}/{first}/rotate-secret", {}, owner)
    tenant.call("GET", path, None, owner)
    tenant.call("GET", f"{path}/{first}", None, owner)
    tenant.call("PATCH", f"{path}/{first}", {"events": ["case.created"]}, owner)
    tenant.call("POST", f"{path}/{first}/test", {}, owner)
    tenant.call("DELETE", f"{path}/{first}", None, owner)
    be_notified(tenant, project)


def be_notified(tenant: Tenant, project: dict[str, Any]) -> None:
    """Add chats that nobody answers at, set rules, and take one away."""
    path, owner = f"/v1/projects/{project['id']}/notifications", tenant.owner_key
    wish = {"kind": "slack", "url": f"https://127.0.0.1:9/{tenant.name}", "name": f"Chat of {tenant.name}"}
    first, other = (tenant.call("POST", f"{path}/destinations", wish, owner)["id"] for _ in range(2))
    for one in (first, other):
        tenant.call("PUT", f"{path}/destinations/{one}/rule", {"events": ["report.recorded"]}, owner)
    tenant.call("POST", f"{path}/destinations/{first}/test", {}, owner)
    tenant.call("GET", path, None, owner)
    tenant.call("GET", f"{path}/destinations/{first}/deliveries", None, owner)
    tenant.call("DELETE", f"{path}/destinations/{first}/rule", None, owner)
    tenant.call("DELETE", f"{path}/destinations/{first}", None, owner)


def share(tenant: Tenant) -> None:
    """Let somebody else into a project of their own and out again, and take an offer back."""
    project, owner = tenant.create_project("common"), tenant.owner_key
    path, email = f"/v1/projects/{project['id']}/members", f"{tenant.name}-guest@example.com"
    guest = tenant.secrets["guest"] = accounts.sign_in(
        tenant.client, tenant.internal_token, f"{tenant.name}-guest", email_verified=True
    )
    made = tenant.call("POST", path, {"email": email, "role": "member"}, owner)["invitation_id"]
    invitation = f"/v1/members/invitations/{made}"
    tenant.call("GET", invitation, None, guest)
    joined = tenant.call("POST", f"{invitation}/accept", {}, guest)
    tenant.call("GET", path, None, owner)
    tenant.call("DELETE", f"{path}/{joined['user_id']}", None, owner)
    again = tenant.call("POST", path, {"email": email, "role": "owner"}, owner)["invitation_id"]
    tenant.call("DELETE", f"{path}/invitations/{again}", None, owner)


def review_week(tenant: Tenant) -> None:
    """Take a project of its own from a schedule to a recorded report, and pause it: later slots find it off."""
    project = tenant.create_project("reviews")
    path, owner, automation = f"/v1/projects/{project['id']}", tenant.owner_key, "review"
    onboard(tenant, project, mint(tenant, project["id"], "ci_deploy"), "came_back")
    wish = {"kind": "automation_runner", "name": "reviewer", "automation_id": automation}
    made = tenant.call("POST", f"{path}/credentials", wish, owner, idempotency_key="reviewer")
    runner = tenant.secrets["reviewer"] = made["credential"]
    bound = bindings_of(REVIEW, automation)
    bound |= {"schedule": {"cron": "0 * * * *", "timezone": "UTC", "start_window_seconds": 3600}}
    bound |= {"funnel": {"events": [TRAFFIC, "came_back"], "period_days": 1, "minimum_sample_size": 1}}
    entry = assemble_entry(find_template(REVIEW), bound, assertions_of(REVIEW))
    document = {"policy_version": 2, "automations": [entry]}
    tag = tenant.call("PUT", f"{path}/automation-contract", document, owner)["etag"]
    tenant.call("POST", f"{path}/automation-contract/enable", {}, owner, if_match=tag, idempotency_key="on")
    [receipt] = tenant.call("POST", f"{path}/automation-triggers/issue", {"automation_id": automation}, runner)[
        "trigger_receipts"
    ]
    ends = [receipt["schedule"][name] for name in ("period_start", "period_end")]
    keep_events(tenant.database_url, project["id"], [(TRAFFIC, "reviewed", end - 3600) for end in ends])
    begun = {"trigger_receipt_id": receipt["receipt_id"]}
    run = tenant.call("POST", f"{path}/automation-runs", begun, runner, idempotency_key="review")
    fence = {"state_revision": run["state_revision"], "lease_epoch": run["lease_epoch"]}
    source = tenant.call("POST", f"/v1/automation-runs/{run['run_id']}/report-source", fence, runner)
    fence["state_revision"] = source["state_revision"]
    report = report_on(source, gap(), hypothesis()) | {"limitations": []}
    tenant.call(
        "POST", f"/v1/automation-runs/{run['run_id']}/actions/record-report", fence | {"report": report}, runner
    )
    tenant.call("POST", f"{path}/automation-contract/pause", {}, owner)


def work_on_cases(tenant: Tenant) -> None:
    """Do to the cases of a project of their own what members may do, and suppress what is not worth a case."""
    project = tenant.create_project("errands")
    path, owner, dsn = f"/v1/projects/{project['id']}", tenant.owner_key, project["dsn"]
    for kind in ("ErrandLost", "ErrandLate"):
        lose_errand(tenant, f"{kind} on its way", dsn)
    for route, body in (("store", {"level": "info", "message": "An errand begins."}), ("envelope", {})):
        tenant.call("POST", f"/api/{project['alias']}/{route}/", body, dsn)
    told = {"event_id": "5" * 32, "comments": "Nobody opened the door."}
    tenant.call("POST", f"/api/0/projects/errands/{project['alias']}/user-feedback/", told, dsn)
    blocked = {"effective-directive": "script-src-elem", "blocked-uri": "chrome-extension"}
    tenant.call("POST", f"/api/{project['alias']}/security/", {"csp-report": blocked}, dsn)
    sent = tenant.client.post(
        f"/api/{project['alias']}/minidump/",
        data={"sentry": json.dumps({"level": "info"})},
        files={"upload_file_minidump": ("1.dmp", b"MDMP")},
        headers={"authorization": f"Bearer {dsn}"},
    )
    assert sent.is_success, sent.text
    for door in ("/batch/", "/capture/", "/e/", "/i/v0/e/", "/flags/", "/decide/"):
        tenant.call("POST", door, {"event": "errand begun", "distinct_id": "u1"}, dsn)
    lost, late = tenant.call("GET", f"{path}/cases", None, owner)["cases"]
    case, revision = f"/v1/cases/{lost['id']}", lost["revision"]
    for deed, more in (
        ("assign", {"user_id": None}),
        ("comments", {"text": "Somebody looks after it."}),
        ("resolve", {}),
        ("reopen", {}),
        ("ignore", {}),
        ("reopen", {}),
        ("resolve", {}),
    ):
        tenant.call("POST", f"{case}/{deed}", {"case_revision": revision} | more, owner)
        revision = tenant.call("GET", case, None, owner)["revision"]
    lose_errand(tenant, lost["title"], dsn)
    revision = tenant.call("GET", case, None, owner)["revision"]
    tenant.call("POST", f"{case}/merge", {"case_revision": revision, "into_case_id": late["id"]}, owner)
    into = tenant.call("GET", f"/v1/cases/{late['id']}", None, owner)
    wish = {"case_revision": into["revision"], "fingerprint": lost["fingerprint"]}
    tenant.call("POST", f"/v1/cases/{late['id']}/split", wish, owner)
    tenant.call("POST", f"{case}/runs", {"status": "escalated"}, owner)
    event, *_ = tenant.call("GET", f"{case}/events", None, owner)["events"]
    for read in (
        f"{case}/events/{event['id']}",
        f"{case}/common",
        f"{case}/users",
        f"{path}/users",
        f"{path}/users/{tenant.name}-walker/summary",
        f"{path}/logs",
        f"{path}/suppressions",
    ):
        tenant.call("GET", read, None, owner)
    person = f"{path}/users/{tenant.name}-runner"
    tenant.call("DELETE", person, None, owner, idempotency_key="gone")
    tenant.wait_until_deleted(person, owner)
    map_lines(tenant, path, case)
    hear_people(tenant, path, project["alias"], dsn)
    tenant.call("POST", f"{path}/suppressions/preview", {"fingerprint_pattern": "*"}, owner)
    exported = {"event_id": "ab" * 16, "timestamp": int(time.time()), "level": "error", "message": "Old"}
    tenant.call("POST", f"{path}/event-imports", {"events": [{"event": json.dumps(exported)}]}, owner)
    rule = tenant.call(
        "POST", f"{path}/suppressions", {"fingerprint_pattern": "no-such*", "action": "auto_ignore"}, owner
    )
    tenant.call("DELETE", f"{path}/suppressions/{rule['id']}", None, owner)
    save_views(tenant, path)


def save_views(tenant: Tenant, path: str) -> None:
    """Save two views, change one and remove the other."""
    owner = tenant.owner_key
    wish = {"name": f"View of {tenant.name}", "filter": {"text": "failed", "tag": "team=shop", "path": "app/"}}
    first, other = (tenant.call("POST", f"{path}/case-views", wish, owner) for _ in range(2))
    tenant.call("GET", f"{path}/case-views", None, owner)
    one = f"{path}/case-views/{first['view_id']}"
    tenant.call("GET", one, None, owner)
    tenant.call("PUT", one, {"name": "Changed", "filter": {}}, owner, if_match=first["etag"])
    wish = {"action": "ignore", "filter": {"text": "nothing-of-this"}}
    tenant.call("POST", f"{path}/case-batches/preview", wish, owner)
    case, *_ = tenant.call("GET", f"{path}/cases?status=open", None, owner)["cases"]
    chosen = [{"case_id": case["case_id"], "case_revision": case["revision"]}]
    acts = {"action": "ignore", "cases": chosen}
    tenant.call("POST", f"{path}/case-batches", acts, owner, idempotency_key="batch")
    again = {"case_revision": case["revision"] + 1}
    tenant.call("POST", f"/v1/cases/{case['case_id']}/reopen", again, owner)
    tenant.call("DELETE", f"{path}/case-views/{other['view_id']}", None, owner)


def lose_errand(tenant: Tenant, message: str, dsn: str) -> None:
    """Report an error, which opens its case or brings it back."""
    error = {"message": message, "level": "error", "user": {"id": f"{tenant.name}-walker"}}
    tenant.call("POST", "/v1/logs/", error, dsn)


def hear_people(tenant: Tenant, path: str, alias: str, dsn: str) -> None:
    """Report an error as an SDK does, write about it in its form, and read both."""
    owner, event_id = tenant.owner_key, hashlib.sha256(tenant.name.encode()).hexdigest()[:32]
    walker = {"id": f"{tenant.name}-walker"}
    error = {"event_id": event_id, "level": "error", "message": "The errand stands still.", "user": walker}
    tenant.call("POST", f"/api/{alias}/store/", error, dsn)
    written = {
        "event_id": event_id,
        "name": tenant.name,
        "email": f"{tenant.name}@example.com",
        "comments": "Nobody came.",
    }
    items = b'{}\n{"type":"user_report"}\n' + json.dumps(written).encode()
    accounts.checked(tenant.client.post(f"/api/{alias}/envelope/", content=items, headers=accounts.bearer(dsn)))
    [case, *_] = tenant.call("GET", f"{path}/cases", None, owner)["cases"]
    listed = tenant.call("GET", f"{path}/feedback-reports?case_id={case['id']}", None, owner)
    [report] = listed["feedback_reports"]
    tenant.call("GET", f"/v1/cases/{case['id']}/events/{report['event_id']}", None, owner)


def map_lines(tenant: Tenant, path: str, case: str) -> None:
    """Store source maps, read the frames of a case by them, and take one away."""
    owner, content = tenant.owner_key, {"version": 3, "sources": ["errand.js"], "names": [], "mappings": "AAAA"}
    kept = [
        tenant.call("PUT", f"{path}/source-maps?release=r{number}&source_url=~/errand.js", content, owner)
        for number in range(2)
    ]
    tenant.call("GET", f"{path}/source-maps", None, owner)
    tenant.call("POST", f"{case}/unmangle", {}, owner)
    tenant.call("DELETE", f"{path}/source-maps/{kept[0]['id']}", None, owner)
    foreign, project_id = "/api/0/organizations/errands", path.removeprefix("/v1/projects/")
    tenant.call("GET", f"{foreign}/chunk-upload/", None, owner)
    part = hashlib.sha1(tenant.name.encode(), usedforsecurity=False).hexdigest()
    form = {"file": (part, tenant.name.encode())}
    sent = tenant.client.post(f"{foreign}/chunk-upload/", files=form, headers={"authorization": f"Bearer {owner}"})
    assert accounts.checked(sent)["stored"] == [part]
    wish = {"checksum": part, "chunks": ["0" * 40]}
    tenant.call("POST", f"{foreign}/artifactbundle/assemble/", wish | {"projects": [project_id]}, owner)
    tenant.call("POST", f"/api/0/projects/errands/{project_id}/artifactbundle/assemble/", wish, owner)
    release = {"version": "errand-1", "projects": [project_id]}
    tenant.call("POST", f"{foreign}/releases/", release, owner)
    tenant.call("PUT", f"{foreign}/releases/errand-1/", {"projects": [project_id]}, owner)
    tenant.call("GET", f"{foreign}/repos/", None, owner)
    tenant.call("GET", f"{foreign}/releases/errand-1/previous-with-commits/", None, owner)
    tenant.call("POST", f"{foreign}/releases/errand-1/deploys/", {"environment": "e", "projects": [project_id]}, owner)


def connect(tenant: Tenant, shop: Shop) -> None:
    """Ask for access to the analytics provider, and whether it was given; it is not."""
    started = tenant.call("POST", "/v1/auth/provider", {"project_id": shop.id}, shop.owner)
    poll = {"connection_id": started["connection_id"]}
    assert tenant.call("POST", "/v1/auth/provider/poll", poll, shop.owner)["status"] == "pending"


def disconnect(tenant: Tenant) -> None:
    """Connect a project of its own to a provider, as its person's browser does, and disconnect it."""
    project, owner = tenant.create_project("left"), tenant.owner_key
    started = tenant.call("POST", "/v1/auth/provider", {"project_id": project["id"]}, owner)
    back = urlsplit(sent_back(started))
    page = tenant.client.get(f"{back.path}?{back.query}")
    assert page.is_success, page.text
    assert tenant.client.post(CALLBACK, data=form_of(page) | {"decision": "allow"}).is_success
    tenant.call("DELETE", f"/v1/projects/{project['id']}/provider-connection", None, owner)


def reads_of_projects() -> list[str]:
    """The paths of all reads that are built, need nothing but the project's id, and are open to its owner."""
    return [
        operation.path
        for operation in (endpoint.operation for endpoint in all_endpoints())
        if operation.method == "GET" and PrincipalKind.KEY in operation.who.principals
        if operation.path.startswith(PROJECT) and operation.path.count("{") == 1
        if operation.query is None or not any(field.required for field in msgspec.structs.fields(operation.query))
    ]


def read_project(tenant: Tenant, shop: Shop) -> None:
    """Call every read of the project."""
    for path in ("/v1/projects", "/v1/usage", "/v1/usage/history", "/v1/billing/status"):
        tenant.call("GET", path, None, shop.owner)
    tenant.call("POST", "/mcp", DISCOVER, shop.owner, mcp_protocol_version=MODERN, mcp_method=DISCOVER["method"])
    tenant.call("POST", "/v1/billing/checkout", {"plan": "pro"}, shop.owner)
    tenant.call("POST", "/v1/billing/portal", {}, shop.owner)
    for path in (*reads_of_projects(), f"{PROJECT}/deploys?limit=1"):
        tenant.call("GET", path.replace(PROJECT, shop.path), None, shop.owner)
    tenant.call("POST", f"{shop.path}/dsn/verify", {"dsn": shop.dsn}, shop.owner)
    tenant.call("GET", "/v1/analytics/browser-config", None, shop.dsn)


def repair(tenant: Tenant, shop: Shop) -> str:
    """Take an error to a verified repair that people reviewed; returns the run's id."""
    tenant.carry(chains.open_case(shop, "OrderLost"))
    run_id: str = tenant.carry(chains.carry_to_deploy(shop))
    tenant.advance(WAIT)
    tenant.call("POST", "/v1/analytics/", {"event": TRAFFIC, "distinct_id": "later"}, shop.dsn)
    tenant.advance(SETTLING)
    tenant.carry(chains.verifying(shop, [run_id]))
    return run_id


def read_chain(tenant: Tenant, shop: Shop, run_id: str) -> None:
    """Read what a repair leaves, as owner and as runner."""
    run = tenant.call("GET", f"/v1/automation-runs/{run_id}", None, shop.owner)
    receipt_id, case_id = run["trigger_receipt_id"], run["case_id"]
    tenant.call("GET", f"/v1/automation-runs/{run_id}/policy", None, shop.runner)
    for secret in (shop.owner, shop.runner):
        tenant.call("GET", f"/v1/automation-runs/{run_id}/proof", None, secret)
        path, headers = f"/v1/automation-runs/{run_id}/tlog-proof", {"authorization": f"Bearer {secret}"}
        assert tenant.client.get(path, headers=headers).status_code in {200, 404}  # It waits for no checkpoint.
        tenant.call("GET", f"/v1/automation-trigger-receipts/{receipt_id}", None, secret)
        tenant.call("GET", f"{shop.path}/automation-runs?automation_id={AUTOMATION}", None, secret)
        tenant.call("GET", f"{shop.path}/automation-trigger-receipts", None, secret)
    tenant.call("GET", f"/v1/cases/{case_id}", None, shop.owner)
    tenant.call("GET", f"{shop.path}/events?limit=2", None, shop.owner)
    tenant.call("GET", f"/v1/streams/{run_id}/events?limit=2", None, shop.owner)
    tenant.call("GET", "/v1/events/schemas?topic=project.created.v1", None, shop.owner)
    tenant.call("GET", f"{shop.path}/automation-approvals?run_id={run_id}", None, shop.owner)
    tenant.call("GET", f"{shop.path}/automation-decisions", None, shop.owner)
    first = tenant.call("GET", f"{shop.path}/deploys?limit=1", None, shop.owner)
    tenant.call("GET", f"{shop.path}/deploys?limit=1&cursor={first['next_cursor']}", None, shop.owner)
    tenant.call("GET", f"{shop.path}/deploys/{first['deploys'][0]['deploy_id']}", None, shop.owner)


def end_secrets(tenant: Tenant, shop: Shop, key_id: str) -> Shop:
    """End a key, a credential and the DSN; returns the project with its new DSN."""
    tenant.call("POST", f"/v1/keys/{key_id}/revoke", {}, shop.owner)
    mint(tenant, shop.id, "ci_deploy")
    listed = tenant.call("GET", f"{shop.path}/credentials", None, shop.owner)["credentials"]
    spare = next(item["id"] for item in listed if item["kind"] == "ci_deploy" and item["last_used_at"] is None)
    tenant.call("POST", f"/v1/project-credentials/{spare}/revoke", {"reason": "not needed"}, shop.owner)
    tenant.secrets["dsn"] = dsn = tenant.call("POST", f"{shop.path}/dsn/rotate", {}, shop.owner)["dsn"]
    tenant.call("POST", f"{shop.path}/public-dsn/rotate", {}, shop.owner)
    tenant.call("GET", f"{shop.path}/settings", None, shop.owner)
    tenant.call("PATCH", f"{shop.path}/settings", {"accept_public_events": False}, shop.owner)
    bound = tenant.call("POST", f"{shop.path}/ci-bindings", BOUND, shop.owner)
    tenant.call("GET", f"{shop.path}/ci-bindings", None, shop.owner)
    tenant.call("GET", f"{shop.path}/credentials?exchanged=true", None, shop.owner)
    gone = f"{shop.path}/ci-bindings/{bound['binding']['id']}"
    tenant.call("DELETE", gone, None, shop.owner, if_match=bound["etag"])
    return Shop(shop.id, shop.owner, dsn, shop.ci, shop.runner)


def stop_and_go(tenant: Tenant, shop: Shop) -> None:
    """Replace the contract by one whose code the host merges; pause it and turn its automation off in between."""
    contract = f"{shop.path}/automation-contract"
    playbook = tenant.call("GET", f"/v1/automation-playbooks/{PLAYBOOK}", None, None)
    assertions = (
        "repository_pull_request_access_confirmed",
        "ci_proof_callback_configured",
        "deploy_ingest_configured",
        "provider_auto_merge_access_confirmed",
        "branch_protection_required_checks_confirmed",
    )
    wish = {
        "version": playbook["version"],
        "bindings": bindings() | {"code_delivery": AUTO_MERGE},
        "readiness_assertions": dict.fromkeys(assertions, True),
    }
    rendered = tenant.call("POST", f"{shop.path}/automation-playbooks/{PLAYBOOK}/render", wish, shop.owner)
    tenant.call("POST", f"{contract}/validate", rendered["contract_input"], shop.owner)
    tenant.call("POST", f"{contract}/backtest", rendered["contract_input"] | {"days": 1}, shop.owner)
    tag = tenant.call("GET", contract, None, shop.owner)["etag"]
    tag = tenant.call("PUT", contract, rendered["contract_input"], shop.owner, if_match=tag)["etag"]
    on = tenant.call("POST", f"{contract}/enable", {}, shop.owner, if_match=tag, idempotency_key="on-1")
    off = {"enabled": False}
    path = f"{contract}/automations/{AUTOMATION}"
    tag = tenant.call("PATCH", path, off, shop.owner, if_match=on["contract"]["etag"])["etag"]
    tenant.call("POST", f"{contract}/enable", {}, shop.owner, if_match=tag, idempotency_key="on-2")
    tag = tenant.call("POST", f"{contract}/pause", {"reason": "lunch"}, shop.owner)["contract"]["etag"]
    tenant.call("POST", f"{contract}/enable", {}, shop.owner, if_match=tag, idempotency_key="on-3")


class Repair:
    """One chain in progress, with the latest answers of the service."""

    def __init__(self, tenant: Tenant, shop: Shop, error: str) -> None:
        self.tenant = tenant
        self.shop = shop
        self.case_id = tenant.carry(chains.open_case(shop, error))
        self.issue()

    def issue(self) -> None:
        """Have a receipt issued; the sweep may already have issued it."""
        wish = {"automation_id": AUTOMATION}
        issued = self.post(f"{self.shop.path}/automation-triggers/issue", wish)["trigger_receipts"]
        [self.receipt] = [item for item in issued if item["case"]["case_id"] == self.case_id]
        self.cases = f"/v1/cases/{self.case_id}/claims"

    def post(self, path: str, body: Any, secret: str | None = None) -> Any:
        """Send a command under a key of its own, as the runner unless told otherwise."""
        return self.tenant.carry(
            chains.ask("POST", path, body, self.shop.runner if secret is None else secret, 200, 201, 202)
        )

    def claim(self) -> str:
        """Claim the case; returns the path of the claim."""
        wish = {
            "trigger_receipt_id": self.receipt["receipt_id"],
            "case_revision": self.receipt["case"]["case_revision"],
        }
        self.held = self.post(self.cases, wish)
        return f"{self.cases}/{self.held['claim_id']}"

    def start(self) -> None:
        """Start the run."""
        wish = {"trigger_receipt_id": self.receipt["receipt_id"]}
        self.run = self.post(f"{self.shop.path}/automation-runs", wish)
        self.path = f"/v1/automation-runs/{self.run['run_id']}"

    @property
    def token(self) -> dict[str, int]:
        run = self.tenant.call("GET", self.path, None, self.shop.runner)
        return {"state_revision": run["state_revision"], "lease_epoch": run["lease_epoch"]}

    def act(self, what: str, body: dict[str, Any]) -> Any:
        """Send a runner command under the fence."""
        return self.post(f"{self.path}/{what}", self.token | body)

    def authorize(self) -> str:
        """Have a pull request granted; returns the grant."""
        change = {
            "repository": REPOSITORY,
            "base_branch": BASE,
            "head_branch": "heal/now",
            "head_sha": HEAD,
            "delivery_mode": "auto_merge",
            "files_changed": ["src/orders.py"],
            "changed_lines": 4,
            "tests": [{"command": "make test", "passed": True}],
        }
        grant_id: str = self.act("actions/draft-pr/authorize", change)["grant_id"]
        return grant_id

    def prove(self, observation: str, **seen: Any) -> None:
        """Report an observation as CI."""
        body = {
            "observation": observation,
            **PULL_REQUEST,
            "draft": False,
        }
        self.post(f"{self.path}/pr-proof", body | seen, self.shop.ci)

    def observe(self, state: str) -> None:
        """Tell of its pull request as CI."""
        seen = {
            **PULL_REQUEST,
            "head_repository": REPOSITORY,
            "state": state,
            "tree_sha": MERGED,
            "patch_id": HEAD,
        }
        self.post(f"{self.shop.path}/pull-request-observations", seen, self.shop.ci)


def repair_by_host(tenant: Tenant, shop: Shop) -> Repair:
    """Carry a repair to its merge by the code host, and cancel it before anybody has verified it."""
    work = Repair(tenant, shop, "CartLost")
    work.claim()
    work.start()
    work.act("actions/draft-pr/consume", {"grant_id": work.authorize()})
    work.prove("pr_opened")
    checks = [{"name": name, "conclusion": "success"} for name in AUTO_MERGE["required_status_checks"]]
    protected = {"branch_protection_enforced": True, "bypass_used": False, "auto_merge_enabled": False}
    work.prove("checks_passed", required_status_checks=checks, **protected)
    wish = {"pr_number": 7, "head_sha": HEAD, "merge_method": AUTO_MERGE["merge_method"]}
    grant = work.act("actions/auto-merge/authorize", wish)
    work.act("actions/auto-merge/consume", {"grant_id": grant["grant_id"]})
    protected |= {"auto_merge_enabled": True}
    work.prove("auto_merge_enabled", merge_method=AUTO_MERGE["merge_method"], **protected)
    work.prove("merged", merge_commit_sha=MERGED, **protected)
    work.observe("merged")
    work.post(f"{work.path}/cancel", {"reason": "found another way"}, shop.owner)
    return work


def leave_under_way(tenant: Tenant, shop: Shop, again: Repair) -> None:
    """Release a claim and take it up again, then leave three repairs at three points.

    No case is left without a claim: the sweep would go on with it while somebody else moves the clock.
    """
    claimed = Repair(tenant, shop, "MailLost")
    path = claimed.claim()
    tenant.call("GET", f"{claimed.cases}/active", None, shop.runner)
    tenant.call("GET", f"{claimed.cases}/active", None, shop.owner)
    claimed.post(f"{path}/renew", {"lease_epoch": claimed.held["lease_epoch"]})
    claimed.post(f"{path}/release", {"lease_epoch": claimed.held["lease_epoch"], "reason": "not now"})
    tenant.advance(WAIT)
    claimed.issue()
    claimed.claim()
    again.issue()
    again.claim()
    again.start()
    again.act("approvals", {"action": "draft_pr", "summary": "May I?"})
    granted = Repair(tenant, shop, "PriceLost")
    granted.claim()
    granted.start()
    granted.authorize()


def hand_over(tenant: Tenant, shop: Shop) -> None:
    """Hand one more repair over to people, with the reason and what was tried; they close its pull request."""
    work = Repair(tenant, shop, "StockLost")
    work.claim()
    work.start()
    work.act("actions/draft-pr/consume", {"grant_id": work.authorize()})
    work.prove("pr_opened")
    told = {"status": "escalated", "reason": "No test fails.", "summary_md": "What was tried."}
    tenant.call("PATCH", work.path, work.token | told, shop.runner)
    work.prove("closed", merged=False, closed_by="somebody")
