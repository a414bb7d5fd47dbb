"""A tenant whose every text is naughty, with the browsers of two people."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from service.auth.secrets import digest
from service.eventstore.store import EventStore
from service.registry import registry
from tests.support import seen
from tests.support.console import COOKIE
from tests.support.naughty.defacing import Defacer
from tests.support.naughty.doors import Filler
from tests.support.server import ServerHandle
from tests.support.sessions import open_operator, open_session
from tests.support.tenants.tour import Tenant, hand_over, take_tour

DOORS = frozenset(
    f"{operation} {member}"
    for operation, members in {
        "add_notification_destination": "name",
        "authorize_draft_pr": "title tests.command",
        "authorize_device": "identity.name",
        "cancel_automation_run": "reason",
        "comment_on_case": "text",
        "create_alert": "name",
        "create_case_run": "summary_md",
        "create_credential": "name",
        "create_project": "name",
        "create_public_query": "title",
        "create_webhook": "description",
        "decide_automation_approval": "reason",
        "pause_automation_contract": "reason",
        "plan_install": "business_question",
        "put_automation_contract": "automations.bindings.name automations.policy.escalation.instructions "
        "automations.policy.scope.test_commands automations.policy.execution.hosted_ci.workflow_file",
        "put_implementation_report": "files.file files.anchor tests.command",
        "put_signal_map": "business_question plan_markdown milestones.meaning failures.context deploy.targets.anchor",
        "record_deploy": "branch message",
        "record_log": "message exception.type exception.value extra.exception.frames.function",
        "record_pr_proof": "closed_by",
        "record_report": "report.findings.message report.findings.title report.findings.rationale "
        "report.findings.expected_impact report.findings.suggested_human_next_step report.limitations",
        "record_sentry_deploy": "name url",
        "record_sentry_event": "message",
        "release_claim": "reason",
        "render_automation_playbook": "bindings.name bindings.escalation.destination",
        "request_automation_approval": "summary evidence.diff evidence.reason",
        "revoke_credential": "reason",
        "send_feedback": "title",
        "start_device": "client_name",
        "start_onboarding": "plan.business_question plan.plan_markdown plan.milestones.meaning",
        "update_automation_run": "reason summary_md",
        "upload_source_map": "sources",
    }.items()
    for member in members.split()
)
"""The members of bodies that take a naughty text in the tour of a tenant, beside the doors of `doors`."""


@dataclass
class NaughtyScene:
    """The cookies of the owner and of a guest, pages to begin with, and the texts taken and refused."""

    owner: str
    guest: str
    invitation: str
    known: list[str]
    taken: Mapping[str, Mapping[str, str]]
    refused: list[str]


@contextmanager
def open_naughty(server: ServerHandle, seed: int) -> Iterator[NaughtyScene]:
    """Take a tenant's tour and fill a project besides. `seed` says which texts stand where."""
    assert server.database_url is not None
    transport = Defacer(seed)
    with Tenant(server, transport, f"naughty-{seed}") as tenant, seen.client(server.base_url, timeout=60) as client:
        hand_over(tenant, take_tour(tenant))
        filler = Filler(server, client, tenant.owner_key, seed)
        known = filler.fill()
        projects = client.get("/v1/projects?limit=100", headers={"authorization": f"Bearer {tenant.owner_key}"}).json()
        known += [
            f"projects/{one['project_id']}/{page}"
            for one in projects["projects"]
            for page in ("reports", "arrived", "search?q=card")
        ]
        owner, guest = (cookie_of(server, tenant, key) for key in (tenant.owner_key, filler.guest_key))
        yield NaughtyScene(owner, guest, filler.invitation, known, transport.taken, filler.refused)


def cookie_of(server: ServerHandle, tenant: Tenant, key: str) -> str:
    """The cookie of a new session of the person with a key."""
    [[user_id]] = tenant.query("select project_id from api_keys where key_hash = %s", digest(key))
    return f"{COOKIE}={asyncio.run(_secret_of(str(server.database_url), user_id))}"


def operator_cookie(server: ServerHandle) -> str:
    """The cookie of a new session of the operator of a test server."""
    return f"{COOKIE}={asyncio.run(_secret_of(str(server.database_url), None))}"


async def _secret_of(database_url: str, user_id: str | None) -> str:
    store = EventStore(database_url, registry())
    await store.start()
    try:
        return (await open_session(store, user_id or await open_operator(store))).secret
    finally:
        await store.stop()
