"""The demo's story, step by step."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from typing import Any

from service.demo.plan import instrument, plan
from service.demo.stage import Api, DemoFailed, Stage, console
from service.demo.world import World, check_tools


def run() -> None:
    """Tell the whole story. Raises DemoFailed where it breaks off; leaves nothing running either way."""
    stage = Stage()
    began = time.monotonic()
    node = check_tools()
    with World() as world:
        stage.step("Start the service on an embedded PostgreSQL of its own")
        stage.show("ready after", f"{world.start_service():.1f} s at {world.base_url}")
        owner = sign_in(stage, world)
        project = create_project(stage, owner)
        observe(stage, world, owner, project)
        onboard(stage, world, owner, project, node)
        owner.close()
    console.print(
        f"\n[bold green]All {stage.steps} steps went as promised[/bold green] ({time.monotonic() - began:.0f} s)."
    )


def sign_in(stage: Stage, world: World) -> Api:
    """Device flow: start, pending, authorised by the hosted app, and the one poll that mints a key."""
    stage.step("Sign in with the device flow")
    anonymous = Api(world.base_url, None, stage, "device")
    start = anonymous.call("POST", "/v1/auth/device", {"client_name": "demo"})
    stage.show("code to confirm", f"{start['user_code']} at {start['verification_uri']}")
    pending = anonymous.call("POST", "/v1/auth/device/poll", {"device_code": start["device_code"]}, expect=400)
    stage.show("first poll", pending["error"]["code"])
    hosted_app = Api(world.base_url, world.internal_token, stage, "hosted app")
    identity = {"provider": "demo", "subject": "owner", "email": "owner@example.invalid"}
    hosted_app.call("POST", "/v1/auth/device/authorize", {"user_code": start["user_code"], "identity": identity})
    time.sleep(start["interval"])
    key = anonymous.call("POST", "/v1/auth/device/poll", {"device_code": start["device_code"]})
    stage.show("key", f"{key['key_prefix']}… for {key['env_var']}, shown once")
    anonymous.close()
    hosted_app.close()
    return Api(world.base_url, key["api_key"], stage, "owner")


def create_project(stage: Stage, owner: Api) -> dict[str, Any]:
    """Create the project; its DSN is the product's only credential for telemetry."""
    stage.step("Create a project and take its DSN")
    project: dict[str, Any] = owner.call("POST", "/v1/projects", {"name": "Shop"}, expect=201)
    stage.show("project", project["id"])
    stage.show("DSN", f"{project['dsn_prefix']}…")
    return project


def observe(stage: Stage, world: World, owner: Api, project: dict[str, Any]) -> None:
    """Run the product as it is: a real error becomes a case."""
    stage.step("Run the product; a real error becomes a case")
    commit = world.create_repository()
    stage.show("git repository of the product", f"first commit {commit[:12]}")
    world.run_shop(project["dsn"], commit[:12])
    world.visit("/accounts", user="ada")
    stage.say("Three customers check out with an empty cart, which nobody thought of:")
    for customer in ("ada", "grace", "edsger"):
        world.visit("/accounts", user=customer)
        stage.show(customer, f"the shop answered {world.visit('/checkout', user=customer, card='good')}")
    cases = owner.call("GET", f"/v1/projects/{project['id']}/cases")["cases"]
    if len(cases) != 1:
        raise DemoFailed(f"Expected one case, found {len(cases)}.")
    case = owner.call("GET", f"/v1/cases/{cases[0]['id']}")
    stage.show(
        "case", f"{case['title']} - {case['event_count']} events, {case['users_affected']} users, {case['status']}"
    )


def onboard(stage: Stage, world: World, owner: Api, project: dict[str, Any], node: str) -> None:
    """Plan, approve, prove, verify."""
    onboarding = f"/v1/projects/{project['id']}/onboarding"
    module = owner.call("GET", "/v1/onboarding/source-snapshot.mjs", quiet=True)
    state = propose(stage, owner, onboarding, world.snapshot(node, module))
    state, approval = approve(stage, owner, onboarding, state)
    credential = create_ci_credential(stage, owner, project)
    state, markers = start_proof(
        stage, world, owner, onboarding, state, lambda: world.snapshot(node, module, final=True)
    )
    exercise(stage, world, owner, project, state, markers, credential)
    state = verify(stage, owner, onboarding, state)
    stage.step("Read the signal map")
    signals = owner.call("GET", f"/v1/projects/{project['id']}/signal-map")
    stage.show("question", signals["business_question"])
    stage.show("evidence", signals["evidence_status"])
    again = owner.call("POST", f"{onboarding}/review", approval, expect=409, if_match=state["etag"])
    stage.show("approving again", again["error"]["code"])


def propose(stage: Stage, owner: Api, onboarding: str, snapshot: dict[str, Any]) -> dict[str, Any]:
    """Start the onboarding with a plan for the source as it stands."""
    stage.step("Snapshot the source and propose a plan")
    stage.show("source fingerprint", snapshot["source_fingerprint_sha256"])
    state: dict[str, Any] = owner.call("POST", onboarding, {"intent": "start", "plan": plan(snapshot)}, expect=201)
    stage.show("status", f"{state['status']}, plan {state['plan_sha256'][:16]}…, etag {state['etag']}")
    return state


def approve(stage: Stage, owner: Api, onboarding: str, state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Approve the exact hash; another hash and another etag are refused."""
    stage.step("A person approves exactly this plan")
    wrong = {"decision": "approve", "plan_sha256": "0" * 64}
    refused = owner.call("POST", f"{onboarding}/review", wrong, expect=409, if_match=state["etag"])
    stage.show("another hash", refused["error"]["code"])
    approval = {"decision": "approve", "plan_sha256": state["plan_sha256"]}
    stale = owner.call("POST", f"{onboarding}/review", approval, expect=412, if_match='"onb:of-yesterday:1"')
    stage.show("another etag", stale["error"]["code"])
    state = owner.call("POST", f"{onboarding}/review", approval, if_match=state["etag"])
    stage.show("status", f"{state['status']}, etag {state['etag']}")
    return state, approval


def create_ci_credential(stage: Stage, owner: Api, project: dict[str, Any]) -> str:
    """Create the credential that makes CI's deploy records trusted."""
    stage.step("Give CI a credential of its own")
    credential = owner.call(
        "POST",
        f"/v1/projects/{project['id']}/credentials",
        {"kind": "ci_deploy", "name": "Shop CI"},
        idempotency_key=secrets.token_hex(8),
    )
    stage.show("CI credential", f"{credential['prefix']}… for {credential['env_var']}, shown once")
    return str(credential["credential"])


def start_proof(
    stage: Stage,
    world: World,
    owner: Api,
    onboarding: str,
    state: dict[str, Any],
    snapshot: Callable[[], dict[str, Any]],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Instrument the product, commit, and open the proof session; returns state and markers."""
    stage.step("Instrument the product, commit, and start the proof")
    instrument(world.repository / "shop.py")
    world.commit("Capture what the approved plan names")
    stage.show("committed", world.git("show", "--stat", "--format=%h %s", "HEAD").splitlines()[-1].strip())
    body = {"implementation_source_snapshot": snapshot()}
    proof = owner.call("POST", f"{onboarding}/proof", body, expect=201, if_match=state["etag"])
    state = proof["state"]
    stage.show("status", f"{state['status']}, proof session {state['proof_session']['proof_session_id']}")
    stage.say("Two one-time markers came back; the service keeps only their hashes.")
    return state, proof["one_time_markers"]


def exercise(
    stage: Stage,
    world: World,
    owner: Api,
    project: dict[str, Any],
    state: dict[str, Any],
    markers: dict[str, Any],
    credential: str,
) -> None:
    """Run the product for real: half of the way, then what verify says is missing."""
    onboarding = f"/v1/projects/{project['id']}/onboarding"
    stage.step("Run the product for real, and ask what is still missing")
    world.run_shop(project["dsn"], world.git("rev-parse", "--short=12", "HEAD"), markers["runtime"]["value"])
    world.visit("/accounts", user="barbara")
    world.visit("/cart", user="barbara", item="tea", quantity=2)
    show_remaining(stage, owner.call("POST", f"{onboarding}/verify", if_match=state["etag"]))
    world.visit("/checkout", user="barbara", card="good")
    world.visit("/accounts", user="margaret")
    world.visit("/cart", user="margaret", item="cup", quantity=1)
    declined = world.visit("/checkout", user="margaret", card="declined")
    stage.show("the one safe error", f"a declined test card: the shop answered {declined}")
    deploy = world.run_ci(credential, markers["ci"]["value"])
    matched = f"trusted={deploy['trusted']}, proof matched={deploy['onboarding_proof_matched']}"
    stage.show("CI recorded the deploy", matched)


def verify(stage: Stage, owner: Api, onboarding: str, state: dict[str, Any]) -> dict[str, Any]:
    """Ask for the verdict; everything has been exercised now."""
    stage.step("Verify")
    verdict = owner.call("POST", f"{onboarding}/verify", if_match=state["etag"])
    if not verdict["ok"]:
        show_remaining(stage, verdict)
        raise DemoFailed("Everything was exercised, but verify still misses something.")
    verified: dict[str, Any] = verdict["state"]
    receipt = verified["receipt"]
    stage.show("status", f"{verified['status']}, installation_complete={verified['installation_complete']}")
    for row in receipt["analytics"]:
        observed = ", ".join(row["observed_properties"])
        stage.show("proved event", f"{row['event']} with {observed} ({row['row_count']} rows)")
    stage.show("proved error", f"{receipt['error']['marker']} ({receipt['error']['row_count']} rows)")
    commit = receipt["deploy"]["source_snapshot"]["git_head_sha"]
    stage.show("proved deploy", f"{receipt['deploy']['environment']} at {commit[:12]}")
    return verified


def show_remaining(stage: Stage, verdict: dict[str, Any]) -> None:
    """Show what verify still misses."""
    remaining = verdict["remaining"]
    stage.show("verified", verdict["ok"])
    for milestone in remaining["analytics"]["milestones"]:
        stage.show("not seen yet", milestone["event"])
    for gap in remaining["analytics"]["properties"]:
        stage.show("incomplete", f"{gap['event']}: {', '.join(gap['properties'])}")
    if remaining["safe_error"]:
        stage.show("safe error missing", remaining["safe_error"]["marker"])
    if remaining["deploy"]:
        stage.show("deploy", ", ".join(remaining["deploy"]["blockers"]))
