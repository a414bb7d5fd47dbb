"""A newcomer, from the one-time link to a verified onboarding and an enabled contract."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import rfc8785
from playwright.sync_api import Browser

from tests.support.chromium import seated
from tests.support.hands import Hands, link_of
from tests.support.plans import plan_body, snapshot_body
from tests.support.playbook_samples import case_bindings, entered
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server

SNAPSHOT = snapshot_body("d" * 40, "e" * 64)
AUTOMATION = "heal-checkout"
CONFIRMED = (
    "repository_pull_request_access_confirmed",
    "ci_proof_callback_configured",
    "deploy_ingest_configured",
)
FRESH_SECONDS = 15 * 60


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without scripts"])
def test_a_newcomer_comes_to_an_enabled_contract(server: ServerHandle, chromium: Browser, scripts: bool) -> None:
    with seated(chromium, server.base_url, scripts=scripts) as seat:
        newcomer = Hands(seat)
        email = f"newcomer-{'with' if scripts else 'without'}-scripts@example.com"
        seat.page.goto(link_of(server, email))
        newcomer.press("Sign in")
        dsn = begin_a_project(newcomer)
        newcomer.reads("Waiting for your first event")
        product(server, dsn, "/v1/analytics/", {"event": "first_event", "distinct_id": "me"})
        if scripts:
            newcomer.reads("Your first event is here")
        newcomer.follow("I have kept it. Plan the onboarding")
        approve_the_plan(newcomer)
        runtime, ci = begin_the_proof(newcomer)
        find_gaps(newcomer)
        newcomer.follow("a credential of its own")
        credential = new_credential(newcomer, "ci_deploy", "Deploys")
        exercise(server, dsn, runtime)
        deploy(server, credential, ci)
        verify(newcomer)
        save_a_contract(newcomer)
        server.advance(FRESH_SECONDS + 1)
        seat.expect(403)
        sign_in_again(newcomer, link_of(server, email))
        enable(newcomer)


def begin_a_project(newcomer: Hands) -> str:
    """Create a project on the first page, and keep its DSN."""
    newcomer.reads("You have no project yet")
    newcomer.type("Name", "Shop")
    newcomer.press("Create the project")
    newcomer.reads("What comes next", "Send a first event")
    dsn = newcomer.copied("DSN")
    assert "service_dsn_" in dsn
    return dsn


def approve_the_plan(newcomer: Hands) -> None:
    """Hand in a plan of a coding agent, and approve it by the hash that the agent told."""
    plan = plan_body()
    newcomer.reads("There is no plan yet")
    newcomer.unfold("Start with a plan in JSON")
    newcomer.type("Plan", json.dumps(plan))
    newcomer.press("Hand in the plan")
    newcomer.reads("How many visitors pay?", "payments.add(payment)", "Safe to provoke")
    assert newcomer.copied("Exact plan hash (SHA-256)") == hashlib.sha256(rfc8785.dumps(plan)).hexdigest()
    newcomer.press("Approve this plan")


def begin_the_proof(newcomer: Hands) -> tuple[dict[str, str], dict[str, str]]:
    """Start a proof of the source, and keep the markers for product and CI."""
    newcomer.type("Snapshot of the final source", json.dumps(SNAPSHOT))
    newcomer.press("Start the proof")
    newcomer.reads("They are shown once.")
    cards = [
        newcomer.page.locator("section.card").filter(has_text=text) for text in ("In the running", "In the deploy")
    ]
    [runtime, ci] = [
        {"name": one.locator("p code").inner_text(), "value": one.locator("dd code").first.inner_text()}
        for one in cards
    ]
    newcomer.follow("I have kept them")
    return runtime, ci


def find_gaps(newcomer: Hands) -> None:
    """Verify too early, and read what is missing."""
    newcomer.press("Verify now")
    newcomer.reads("No workflow is bound, and there is no live CI credential.")


def new_credential(newcomer: Hands, kind: str, name: str, automation: str = "") -> str:
    """Make a credential, and keep it."""
    newcomer.fill({"kind": kind, "name": name} | ({"automation_id": automation} if automation else {}))
    newcomer.press("Create it")
    credential = newcomer.copied("Credential")
    newcomer.follow("I have kept it")
    newcomer.reads(name)
    return credential


def verify(newcomer: Hands) -> None:
    """Verify the proof, and read the receipt."""
    newcomer.turn_to("Onboarding")
    newcomer.press("Verify now")
    newcomer.reads("The source is verified since", "Seen 1 time")


def save_a_contract(newcomer: Hands) -> None:
    """Fill in the form of a playbook, and save the candidate."""
    newcomer.follow("Automation")
    newcomer.reads("There is no contract yet")
    newcomer.follow("Error to draft pull request")
    newcomer.fill(entered({**case_bindings(AUTOMATION), "traffic_sample_event": "order_paid"}))
    newcomer.fill({f"readiness_assertions.{name}": "true" for name in CONFIRMED})
    newcomer.press("Show the candidate")
    newcomer.reads("Valid", "lines added, 0 removed")
    newcomer.press("Save, disabled")
    newcomer.reads("The contract is saved, and disabled.", "Missing before it can be enabled")


def sign_in_again(newcomer: Hands, link: str) -> None:
    """Be asked for a newer sign-in on the way to the credential of the runner, and paste a new link."""
    newcomer.follow("Credentials")
    newcomer.fill({"name": "Runner"})
    newcomer.press("Create it")
    newcomer.follow("Sign in again")
    newcomer.type("Link", link)
    newcomer.press("Sign in again")


def enable(newcomer: Hands) -> None:
    """Make the credential of the runner, and enable the contract as shown."""
    new_credential(newcomer, "automation_runner", "Runner", AUTOMATION)
    newcomer.turn_to("Automation")
    newcomer.reads("Everything is there that an enable needs.")
    newcomer.press("Enable all of it, as shown")
    newcomer.reads("The automation is enabled.", f"Disable {AUTOMATION}")


def product(server: ServerHandle, secret: str, path: str, body: dict[str, Any], **headers: str) -> None:
    """Send what the product or its CI sends."""
    with server.client(secret) as client:
        assert client.post(path, json=body, headers=headers).status_code == 202


def exercise(server: ServerHandle, dsn: str, marker: dict[str, str]) -> None:
    """Do what the instrumented product does under the marker of a proof."""
    marked = {marker["name"]: marker["value"]}
    for event, properties in (
        ("order_created", {"order_kind": "book"}),
        ("order_paid", {"amount": 12, "currency": "eur"}),
    ):
        body = {"event": event, "distinct_id": "visitor", "properties": properties | marked}
        product(server, dsn, "/v1/analytics/", body)
    tags = {"failure_marker": "payment_declined", "decline_code": "51"} | marked
    product(server, dsn, "/v1/logs/", {"level": "error", "message": "The bank said no.", "tags": tags})


def deploy(server: ServerHandle, credential: str, marker: dict[str, str]) -> None:
    """Record the deploy of the proven source, as CI does."""
    body = {"version": "1.0.0", "environment": "production", "sha": SNAPSHOT["git_head_sha"]}
    product(server, credential, "/v1/deploys/", body, **{marker["name"]: marker["value"]})
