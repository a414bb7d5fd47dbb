"""Part 4: a runner repairs the error, a person reviews and merges, and the service verifies."""

from __future__ import annotations

from typing import Any

from service.demo.chapters.observing.opening import check_out_empty
from service.demo.chapters.repairing.contract import await_receipt, set_up
from service.demo.chapters.repairing.policy import MATERIAL_EVENTS, SETTLING, WINDOW
from service.demo.theatre.pictures import path_of
from service.demo.theatre.scene import Scene, require
from service.demo.theatre.workshop import CHECK, REPOSITORY, Workshop


def heal(scene: Scene) -> str:
    """From a recurring error to its verified repair."""
    recur(scene)
    set_up(scene)
    open_workshop(scene)
    receipt = await_receipt(scene)
    came = receipt["case"]["event_count"]
    scene.stage.tell(f"On nobody's request the minute sweep issues a receipt: with {came} events it is material.")
    scene.stage.step("The runner claims the case, repairs it and asks a person")
    scene.stage.tell("A runner, a process of its own, claims the case, charges its budget, writes a test and a change.")
    run = repair(scene, receipt)
    review_and_merge(scene, run)
    deploy(scene, run)
    observe_traffic(scene)
    verify(scene, run)
    scene.healed = str(run["run_id"])
    bundle = scene.owner.call("GET", f"/v1/automation-runs/{scene.healed}/proof", quiet=True)
    scene.stage.draw(path_of(bundle, scene.healed))
    return "A runner repaired it under a budget and a one-time grant; a person merged; traffic verified it."


def recur(scene: Scene) -> None:
    """Repeat the error until the policy counts it as material."""
    scene.stage.step("The error recurs, until it is material")
    scene.stage.say("Customers still check out with empty carts, in the instrumented shop too:")
    scene.restart_shop()
    check_out_empty(scene, "katherine", "dorothy")
    cases = scene.owner.call("GET", f"{scene.path}/cases?status=all")["cases"]
    for case in sorted(cases, key=lambda case: int(case["event_count"])):
        scene.stage.show("case", f"{case['title']} - {case['event_count']} events, trust {case['trust']}")
    scene.stage.say("The declined test card of the proof is synthetic: it will never trigger anything.")
    most = max(case["event_count"] for case in cases)
    require(most >= MATERIAL_EVENTS, f"The error came only {most} times.")


def open_workshop(scene: Scene) -> None:
    """Push the product to the code host, where a runner works with branches and pull requests."""
    scene.stage.step("Host the product's repository, with a protected main branch")
    scene.workshop = Workshop(scene.world, scene.ci_credential)
    scene.workshop.open()
    scene.stage.show(REPOSITORY, f"only pull requests that are no draft and have passed {CHECK!r} reach main")


def repair(scene: Scene, receipt: dict[str, Any]) -> dict[str, Any]:
    """Start `service-runner` and do the parts of people and CI. Returns the run afterwards."""
    scene.stage.say("`service-runner`, with its credential, a token of the code host, and the shop's coding tool:")
    for line in scene.workshop.run_runner(scene.project["id"], scene.runner_secret):
        scene.stage.hear("runner", line)
        if line.endswith("asked a person to approve"):
            decide(scene)
    run = find_run(scene, receipt)
    prove_opened(scene, run)
    return run


def work(scene: Scene, policy: dict[str, Any], receipt: dict[str, Any]) -> dict[str, Any]:
    """Start the shop's own runner and do the parts of people and CI. Returns the run afterwards."""
    scene.stage.say("Its own process, with its credential and the service's address in the environment:")
    project_id = scene.project["id"]
    for line in scene.workshop.run_agent(project_id, policy, receipt["receipt_id"], scene.runner_secret):
        scene.stage.hear("runner", line)
        if line.startswith("waits for a person"):
            decide(scene)
        elif line.startswith("opened pull request"):
            prove_opened(scene, find_run(scene, receipt))
        elif line.startswith("waits for CI"):
            prove(scene, find_run(scene, receipt), "checks_passed")
    return find_run(scene, receipt)


def find_run(scene: Scene, receipt: dict[str, Any]) -> dict[str, Any]:
    """Read the one run of a consumed receipt."""
    consumed = scene.owner.call("GET", f"/v1/automation-trigger-receipts/{receipt['receipt_id']}", quiet=True)
    run: dict[str, Any] = scene.owner.call("GET", f"/v1/automation-runs/{consumed['consumed_run_id']}", quiet=True)
    return run


def decide(scene: Scene) -> None:
    """Decide as a person would: read the request, then approve it."""
    waiting = scene.owner.call("GET", f"{scene.path}/automation-approvals?status=pending")["approvals"]
    require(len(waiting) == 1, f"Expected one request for approval, found {len(waiting)}.")
    [asked] = waiting
    facts = asked["evidence"]
    scene.stage.show("asked", f"{asked['action']}: {asked['summary']!r}, {facts['changed_lines']} lines")
    path = f"/v1/automation-approvals/{asked['approval_id']}/decide"
    decided = scene.owner.call("POST", path, {"decision": "approve", "reason": "Small, and it has a test."})
    scene.stage.show("decided", f"{decided['status']} by a person")


def prove(scene: Scene, run: dict[str, Any], observation: str) -> None:
    """Run CI's report on the run's pull request."""
    pull = run["pull_request"]
    proof = scene.workshop.ci(pull["head_branch"], "ci_proof.py", observation, str(pull["number"]))
    scene.stage.show(
        "CI proved", f"{proof['observation']} of pull request {pull['number']}, trusted={proof['trusted']}"
    )


def prove_opened(scene: Scene, run: dict[str, Any]) -> None:
    """CI on a new pull request: test its head, then prove that it is open as it was granted."""
    pull = run["pull_request"]
    tested = scene.workshop.ci(pull["head_branch"], "ci_checks.py", str(pull["number"]))
    [check] = tested["checks"]
    scene.stage.show("CI tested the head", f"{check['name']}: {check['conclusion']}")
    prove(scene, run, "pr_opened")


def show_diff(scene: Scene, run: dict[str, Any]) -> None:
    """Show the pull request's changes of the product itself."""
    scene.stage.draw(scene.workshop.diff(run["pull_request"]["head_branch"]))


def review_and_merge(scene: Scene, run: dict[str, Any]) -> None:
    """Merge as a person, by the policy. CI proves the merge."""
    scene.stage.step("A person reviews the draft and merges it")
    show_diff(scene, run)
    number = str(run["pull_request"]["number"])
    scene.workshop.hub("ready", number)
    merged = scene.workshop.hub("merge", number, "merge")
    scene.stage.tell(
        f"A person approves, a draft is opened once, CI proves its tests, the person merges {merged['head_sha'][:12]}."
    )
    scene.stage.show("merged in git", f"{merged['head_sha'][:12]} as {merged['merge_commit_sha'][:12]}")
    prove(scene, run, "merged")


def deploy(scene: Scene, run: dict[str, Any]) -> None:
    """Deploy what was merged: CI tests that commit and records it, and the shop restarts from it."""
    scene.stage.step("CI deploys the merged commit")
    recorded = scene.workshop.ci("main", "ci_deploy.py")
    commit = scene.workshop.update_shop()
    scene.stage.show("CI recorded the deploy", f"{commit[:12]}, bound to {recorded['automation_run_id']}")
    require(recorded["automation_run_id"] == run["run_id"], "The deploy was not bound to its run.")
    scene.restart_shop()
    scene.stage.show("the shop", f"restarted from {commit[:12]}")


def observe_traffic(scene: Scene) -> None:
    """Send customers: paid orders are the traffic that counts, and an empty cart is no longer an error."""
    scene.stage.step("Traffic flows through the repaired product")
    scene.move_clock(5, "the deploy is a few seconds old.")
    scene.buy("ada", "grace", "edsger", "barbara")
    check_out_empty(scene, "margaret")


def verify(scene: Scene, run: dict[str, Any]) -> None:
    """Poll until verification ends: 202 within the window, then the outcome."""
    scene.stage.step("The service verifies: traffic, and no recurrence")
    scene.move_clock(SETTLING, "nothing received before can still be under way.")
    poll(scene, run, expect=202)
    scene.move_clock(WINDOW, "the observation window passes.")
    verdict = poll(scene, run, expect=200)
    require(verdict["status"] == "succeeded", f"The run ended as {verdict['status']}.")
    case = scene.owner.call("GET", f"/v1/cases/{run['case_id']}")
    scene.stage.show("run", f"{verdict['status']}; the case is {case['status']} at revision {case['revision']}")
    require(case["status"] == "resolved", "The case was not resolved.")
    sample = verdict["verification"]["sample"]
    counted = f"{sample['count']} paid orders (at least {sample['minimum']}), {sample['recurrence_count']} recurrences"
    scene.stage.tell(f"Deployed by CI and verified: {counted}. The case is {case['status']}.")


def poll(scene: Scene, run: dict[str, Any], *, expect: int) -> dict[str, Any]:
    """Ask once for the result of the deploy."""
    path = f"/v1/automation-runs/{run['run_id']}/verify"
    verdict: dict[str, Any] = scene.owner.call("POST", path, {}, expect=expect)
    seen, sample = verdict["verification"], verdict["verification"]["sample"]
    counted = f"{sample['count']} of at least {sample['minimum']} {sample['event']}"
    scene.stage.show("verification", f"{seen['outcome']}: {counted}, recurrences {sample['recurrence_count']}")
    return verdict
