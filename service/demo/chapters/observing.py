"""The plan that the demo proposes for its shop, and the instrumentation it asks for."""

import secrets
import time
from pathlib import Path
from typing import Any

from service.demo.theatre.scene import OWNER, Scene, require
from service.demo.theatre.stage import Api, Stage

MILESTONES = [
    ("account_opened", "A visitor opened an account.", ["plan_tier"], "# durable: the account exists",
     'telemetry.capture("account_opened", user, plan_tier="basic")'),
    ("item_added", "A customer put something into the cart.", ["item", "quantity"],
     "# durable: the item is in the cart",
     'telemetry.capture("item_added", user, item=item, quantity=quantity)'),
    ("order_paid", "A customer paid for an order: the first value, and the business result.",
     ["total_cents", "lines"], "# durable: the order is paid",
     'telemetry.capture("order_paid", user, total_cents=total, lines=len(cart))'),
]  # fmt: skip

MARKDOWN = """\
# From visitor to paid order

A *customer* enters through the shop's account form. Value flows from account to cart to paid order; the order is the
first value for the customer and the business result for the shop.

The one material failure is a declined payment. It can be provoked safely with the test card, which is why it is the
safe error of the proof. CI records each deploy once, after the tests passed, with the commit that was tested.
"""


def plan(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Lay out the plan for the shop as it stands in `snapshot`."""
    return {
        "business_question": "How many visitors who open an account go on to pay for an order?",
        "plan_markdown": MARKDOWN,
        "source_snapshot": snapshot,
        "historical_evidence": None,
        "milestones": [
            {
                "event": event,
                "meaning": meaning,
                "provider_boundary": "server_provider",
                "properties": properties,
                "targets": [{"file": "shop.py", "anchor": anchor}],
            }
            for event, meaning, properties, anchor, _ in MILESTONES
        ],
        "failures": [
            {
                "marker": "checkout.payment_declined",
                "meaning": "The card issuer declined; the customer leaves without an order.",
                "provider_boundary": "server_provider",
                "context": ["step"],
                "safe_live_proof": True,
                "targets": [{"file": "shop.py", "anchor": "except PaymentDeclined as error:"}],
            }
        ],
        "deploy": {
            "environment": "production",
            "sha_source": "git_head",
            "targets": [{"file": "ci_deploy.py", "anchor": 'sha = git("rev-parse", "HEAD")'}],
        },
    }


def instrument(shop: Path) -> None:
    """Capture each approved milestone right after its durable success."""
    source = shop.read_text()
    for _, _, _, anchor, call in MILESTONES:
        source = source.replace(anchor, f"{anchor}\n    {call}", 1)
    shop.write_text(source)


# Part 1: a person signs in, creates a project, and the product's first real error becomes a case.


def open_story(scene: Scene) -> str:
    """Start the service, sign in, create the project, and run the product as it is."""
    scene.stage.step("Start the service on an embedded PostgreSQL of its own")
    seconds = scene.world.start_service()
    scene.stage.show("ready after", f"{seconds:.1f} s at {scene.world.base_url}")
    told = f"The service is ready after {seconds:.1f} s at {scene.world.base_url}, on a PostgreSQL of its own"
    scene.stage.tell(f"{told}; a person signs in.")
    scene.owner = sign_in(scene)
    create_project(scene)
    case = observe(scene)
    return f"A real error of {case['users_affected']} customers became one case."


def sign_in(scene: Scene) -> Api:
    """Device flow: start, pending, authorised by the hosted app, and the one poll that mints a key."""
    stage, world = scene.stage, scene.world
    stage.step("Sign in with the device flow")
    anonymous = Api(world.base_url, None, stage, "device")
    start = anonymous.call("POST", "/v1/auth/device", {"client_name": "demo"})
    stage.show("code to confirm", f"{start['user_code']} at {start['verification_uri']}")
    pending = anonymous.call("POST", "/v1/auth/device/poll", {"device_code": start["device_code"]}, expect=400)
    stage.show("first poll", pending["error"]["code"])
    hosted_app = Api(world.base_url, world.internal_token, stage, "hosted app")
    identity = {"provider": "email", "subject": OWNER, "email": OWNER}
    hosted_app.call("POST", "/v1/auth/device/authorize", {"user_code": start["user_code"], "identity": identity})
    time.sleep(start["interval"])
    key = anonymous.call("POST", "/v1/auth/device/poll", {"device_code": start["device_code"]})
    stage.show("key", f"{key['key_prefix']}… for {key['env_var']}, shown once")
    anonymous.close()
    hosted_app.close()
    return Api(world.base_url, key["api_key"], stage, "owner")


def create_project(scene: Scene) -> None:
    """Create the project. The shop has no analytics provider: the DSN is its only credential for telemetry."""
    scene.stage.step("Create a project and take its DSN")
    scene.project = scene.owner.call("POST", "/v1/projects", {"name": "Shop"}, expect=201)
    scene.stage.show("project", scene.project["id"])
    scene.stage.say("A product with an analytics provider connects it and keeps its official SDK. This shop has none:")
    scene.stage.show("DSN", f"{scene.project['dsn_prefix']}…")


def observe(scene: Scene) -> dict[str, Any]:
    """Run the product as it is: a real error becomes a case, which is returned."""
    stage, world = scene.stage, scene.world
    stage.step("Run the product; a real error becomes a case")
    commit = world.create_repository()
    stage.show("git repository of the product", f"first commit {commit[:12]}")
    scene.restart_shop()
    stage.show("the shop", f"runs at http://127.0.0.1:{world.shop_port}")
    stage.say("Three customers check out with an empty cart, which nobody thought of:")
    check_out_empty(scene, "ada", "grace", "edsger")
    cases = scene.owner.call("GET", f"{scene.path}/cases")["cases"]
    require(len(cases) == 1, f"Expected one case, found {len(cases)}.")
    case: dict[str, Any] = scene.owner.call("GET", f"/v1/cases/{cases[0]['id']}")
    counts = f"{case['event_count']} events, {case['users_affected']} users"
    stage.show("case", f"{case['title']} - {counts}, {case['status']}")
    stage.tell(f"The shop runs at http://127.0.0.1:{world.shop_port}; checking out an empty cart answers 500.")
    stage.tell(f"What its customers met is one case: {case['title']} ({counts}).")
    return case


def check_out_empty(scene: Scene, *customers: str) -> None:
    """Check out as customers with an empty cart."""
    for customer in customers:
        scene.world.visit("/accounts", user=customer)
        answered = scene.world.visit("/checkout", user=customer, card="good")
        scene.stage.show(customer, f"the shop answered {answered}")


# Part 2: the plan for the product is proposed, approved by its exact hash, proven and verified.


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
