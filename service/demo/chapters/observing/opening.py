"""Part 1: a person signs in, creates a project, and the product's first real error becomes a case."""

from __future__ import annotations

import time
from typing import Any

from service.demo.theatre.scene import Scene, require
from service.demo.theatre.stage import Api


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
    identity = {"provider": "demo", "subject": "owner", "email": "owner@example.invalid"}
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
