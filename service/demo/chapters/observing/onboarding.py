"""Part 2: the plan for the product is proposed, approved by its exact hash, proven and verified."""

from __future__ import annotations

import secrets
from typing import Any

from service.demo.chapters.observing.plan import instrument, plan
from service.demo.theatre.scene import Scene, require
from service.demo.theatre.stage import Stage


def onboard(scene: Scene) -> str:
    """Plan, approve, prove, verify."""
    module = scene.owner.call("GET", "/v1/onboarding/source-snapshot.mjs", quiet=True)
    state = propose(scene, scene.world.snapshot(scene.node, module))
    state, approval = approve(scene, state)
    create_ci_credential(scene)
    instrument_product(scene)
    state, markers = start_proof(scene, state, scene.world.snapshot(scene.node, module, final=True))
    exercise(scene, state, markers)
    state = verify(scene, state)
    read_signal_map(scene, state, approval)
    return "The product's signals were approved by hash, and proven by running it."


def propose(scene: Scene, snapshot: dict[str, Any]) -> dict[str, Any]:
    """Start the onboarding with a plan for the source as it stands."""
    scene.stage.step("Snapshot the source and propose a plan")
    scene.stage.show("source fingerprint", snapshot["source_fingerprint_sha256"])
    wish = {"intent": "start", "plan": plan(snapshot)}
    state: dict[str, Any] = scene.owner.call("POST", f"{scene.path}/onboarding", wish, expect=201)
    scene.stage.show("status", f"{state['status']}, plan {state['plan_sha256'][:16]}…, etag {state['etag']}")
    return state


def approve(scene: Scene, state: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Approve the exact hash. Another hash and another etag are refused."""
    stage, owner, path = scene.stage, scene.owner, f"{scene.path}/onboarding/review"
    stage.step("A person approves exactly this plan")
    wrong = {"decision": "approve", "plan_sha256": "0" * 64}
    refused = owner.call("POST", path, wrong, expect=409, if_match=state["etag"])
    stage.show("another hash", refused["error"]["code"])
    approval = {"decision": "approve", "plan_sha256": state["plan_sha256"]}
    stale = owner.call("POST", path, approval, expect=412, if_match='"onb:of-yesterday:1"')
    stage.show("another etag", stale["error"]["code"])
    state = owner.call("POST", path, approval, if_match=state["etag"])
    stage.tell(f"A person approves the plan {state['plan_sha256'][:12]}… and no other. Running the product proves it:")
    stage.show("status", f"{state['status']}, etag {state['etag']}")
    return state, approval


def create_ci_credential(scene: Scene) -> None:
    """Create the credential that makes CI's deploy records trusted."""
    scene.stage.step("Give CI a credential of its own")
    wish = {"kind": "ci_deploy", "name": "Shop CI"}
    created = scene.owner.call("POST", f"{scene.path}/credentials", wish, idempotency_key=secrets.token_hex(8))
    scene.stage.show("CI credential", f"{created['prefix']}… for {created['env_var']}, shown once")
    scene.ci_credential = created["credential"]


def instrument_product(scene: Scene) -> None:
    """Capture what the approved plan names."""
    scene.stage.step("Instrument the product, commit, and start the proof")
    instrument(scene.world.repository / "shop.py")
    scene.world.commit("Capture what the approved plan names")
    changed = scene.world.git("show", "--stat", "--format=%h %s", "HEAD").splitlines()[-1].strip()
    scene.stage.show("committed", changed)


def start_proof(scene: Scene, state: dict[str, Any], snapshot: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Open the proof session for the instrumented source. Returns state and markers."""
    body = {"implementation_source_snapshot": snapshot}
    path = f"{scene.path}/onboarding/proof"
    proof = scene.owner.call("POST", path, body, expect=201, if_match=state["etag"])
    state = proof["state"]
    session = state["proof_session"]["proof_session_id"]
    scene.stage.show("status", f"{state['status']}, proof session {session}")
    scene.stage.say("Two one-time markers came back; the service keeps only their hashes.")
    return state, proof["one_time_markers"]


def exercise(scene: Scene, state: dict[str, Any], markers: dict[str, Any]) -> None:
    """Run the product: half of the plan first, then what verify reports as missing."""
    stage, world = scene.stage, scene.world
    stage.step("Run the product for real, and ask what is still missing")
    scene.restart_shop(markers["runtime"]["value"])
    world.visit("/accounts", user="barbara")
    world.visit("/cart", user="barbara", item="tea", quantity=2)
    show_remaining(stage, scene.owner.call("POST", f"{scene.path}/onboarding/verify", if_match=state["etag"]))
    world.visit("/checkout", user="barbara", card="good")
    world.visit("/accounts", user="margaret")
    world.visit("/cart", user="margaret", item="cup", quantity=1)
    declined = world.visit("/checkout", user="margaret", card="declined")
    stage.show("the one safe error", f"a declined test card: the shop answered {declined}")
    deploy = world.run_ci(
        world.repository, "ci_deploy.py", credential=scene.ci_credential, marker=markers["ci"]["value"]
    )
    matched = f"trusted={deploy['trusted']}, proof matched={deploy['onboarding_proof_matched']}"
    stage.show("CI recorded the deploy", matched)


def verify(scene: Scene, state: dict[str, Any]) -> dict[str, Any]:
    """Verify. Everything has been exercised now."""
    stage = scene.stage
    stage.step("Verify")
    verdict = scene.owner.call("POST", f"{scene.path}/onboarding/verify", if_match=state["etag"])
    if not verdict["ok"]:
        show_remaining(stage, verdict)
    require(verdict["ok"], "The service did not verify the proof.")
    verified: dict[str, Any] = verdict["state"]
    stage.show("status", f"{verified['status']}, installation_complete={verified['installation_complete']}")
    receipt = verified["receipt"]
    for row in receipt["analytics"]:
        observed = ", ".join(row["observed_properties"])
        stage.show("proved event", f"{row['event']} with {observed} ({row['row_count']} rows)")
    stage.show("proved error", f"{receipt['error']['marker']} ({receipt['error']['row_count']} rows)")
    commit = receipt["deploy"]["source_snapshot"]["git_head_sha"]
    stage.show("proved deploy", f"{receipt['deploy']['environment']} at {commit[:12]}")
    events = ", ".join(row["event"] for row in receipt["analytics"])
    stage.tell(f"{events}; the error {receipt['error']['marker']}; {commit[:12]} in production.")
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


def read_signal_map(scene: Scene, state: dict[str, Any], approval: dict[str, str]) -> None:
    """Read the signal map. The approval cannot be given twice."""
    scene.stage.step("Read the signal map")
    signals = scene.owner.call("GET", f"{scene.path}/signal-map")
    scene.stage.show("question", signals["business_question"])
    scene.stage.show("evidence", signals["evidence_status"])
    path = f"{scene.path}/onboarding/review"
    again = scene.owner.call("POST", path, approval, expect=409, if_match=state["etag"])
    scene.stage.show("approving again", again["error"]["code"])
