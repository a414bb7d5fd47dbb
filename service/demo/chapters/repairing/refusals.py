"""Part 6: what is refused, and a repair without traffic, which is never a success."""

from __future__ import annotations

from typing import Any

from service.demo.chapters.repairing.contract import await_receipt
from service.demo.chapters.repairing.healing import deploy, poll, prove, work
from service.demo.chapters.repairing.policy import MAX_WAIT, SETTLING, WINDOW
from service.demo.theatre.scene import Scene, require
from service.demo.theatre.stage import Api


def refuse(scene: Scene) -> str:
    """The first case regresses. Its second run tries every command that must be refused."""
    regress(scene)
    receipt = await_receipt(scene)
    again = f"a receipt for its revision {receipt['case']['case_revision']} follows"
    scene.stage.tell(f"The first error comes back another way: its case regresses, and {again}.")
    scene.stage.step("The runner repairs what the first repair had missed")
    run = work(scene, scene.policy, receipt)
    prove(scene, run, "auto_merge_enabled")
    prove(scene, run, "merged")
    run = scene.owner.call("GET", f"/v1/automation-runs/{run['run_id']}", quiet=True)
    stale = scene.as_runner("stale worker")
    try_again(scene, stale, run)
    try_stale_tokens(scene, stale, run)
    try_other_change(scene, stale, run)
    stale.close()
    deploy_unused(scene, run)
    return "What is stale, repeated or other than granted was refused; a repair that nobody used did not count."


def regress(scene: Scene) -> None:
    """The repaired error recurs in another way, and its case regresses to the next revision."""
    scene.stage.step("The first error comes back another way: its case regresses")
    for customer in ("annie", "henrietta"):
        scene.world.visit("/accounts", user=customer)
        scene.world.visit("/cart", user=customer, item="tea", quantity=0)
        answered = scene.world.visit("/checkout", user=customer, card="good")
        scene.stage.show(customer, f"nothing of tea in the cart; the shop answered {answered}")


def show_refused(scene: Scene, **refused: dict[str, Any]) -> None:
    """Tell what was refused, with the codes; `_` stands for a space."""
    found = {what.replace("_", " "): answer["error"]["code"] for what, answer in refused.items()}
    for what, code in found.items():
        scene.stage.show(what, code)
    scene.stage.tell(f"Refused: {', '.join(f'{what} ({code})' for what, code in found.items())}.")


def try_again(scene: Scene, stale: Api, run: dict[str, Any]) -> None:
    """A receipt has one run, and a consumed grant one call."""
    scene.stage.step("Refused: a second run, a second call")
    wish = {"trigger_receipt_id": run["trigger_receipt_id"]}
    path = f"{scene.path}/automation-runs"
    refused = stale.call("POST", path, wish, expect=409, idempotency_key="another-start")
    show_refused(scene, a_second_run_for_the_receipt=refused)
    require(refused["error"]["details"]["run_id"] == run["run_id"], "The refusal names another run.")
    first = stale.call("POST", path, wish, idempotency_key=f"start-{run['trigger_receipt_id']}")
    require(first["run_id"] == run["run_id"], "The repeated start named another run.")
    scene.stage.show("the first start again", f"the same run, replay={first['idempotent_replay']}")
    token = {name: run[name] for name in ("state_revision", "lease_epoch")}
    consume = f"/v1/automation-runs/{run['run_id']}/actions/draft-pr/consume"
    again = stale.call("POST", consume, {"grant_id": run["grants"][0]["grant_id"], **token})
    require(not again["call_authorized"], "A consumed grant authorized a second call.")
    scene.stage.show("the grant again", f"call authorized={again['call_authorized']}, only reconciling")


def try_stale_tokens(scene: Scene, stale: Api, run: dict[str, Any]) -> None:
    """Work done under an older state or an older lease is dropped."""
    scene.stage.step("Refused: an old state revision, the lease of the first run")
    path = f"/v1/automation-runs/{run['run_id']}/usage"

    def charge(**older: int) -> dict[str, Any]:
        body = {"state_revision": run["state_revision"], "lease_epoch": run["lease_epoch"], "turns": 1, **older}
        refused: dict[str, Any] = stale.call("POST", path, body, expect=409, idempotency_key="-".join(older))
        return refused

    show_refused(
        scene,
        an_older_state_revision=charge(state_revision=run["state_revision"] - 1),
        an_older_lease_of_the_case=charge(lease_epoch=run["lease_epoch"] - 1),
    )


def try_other_change(scene: Scene, stale: Api, run: dict[str, Any]) -> None:
    """The granted change is the one change."""
    scene.stage.step("Refused: another branch than the granted one")
    token = {name: run[name] for name in ("state_revision", "lease_epoch")}
    actions = f"/v1/automation-runs/{run['run_id']}/actions/draft-pr"
    granted = run["grants"][0]
    other = {**granted["binding"], "head_branch": "repair/something-else", **token}
    foreign = {"grant_id": granted["grant_id"][:-1] + ("0" if granted["grant_id"][-1] != "0" else "1"), **token}
    show_refused(
        scene,
        another_branch=stale.call("POST", f"{actions}/authorize", other, expect=409),
        a_grant_of_no_run=stale.call("POST", f"{actions}/consume", foreign, expect=409),
    )


def deploy_unused(scene: Scene, run: dict[str, Any]) -> None:
    """Deploy without any traffic: pending until the deadline, then failed."""
    deploy(scene, run)
    scene.stage.step("Nobody comes: without traffic a repair is never verified")
    poll(scene, run, expect=202)
    scene.move_clock(WINDOW, "the window is over, the deadline is not.")
    poll(scene, run, expect=202)
    scene.move_clock(MAX_WAIT - WINDOW + SETTLING, "the deadline passes.")
    verdict = poll(scene, run, expect=200)
    require(verdict["status"] == "failed", f"Without traffic the run ended as {verdict['status']}.")
    case = scene.owner.call("GET", f"/v1/cases/{run['case_id']}")
    scene.stage.tell(
        f"Nobody visits the repaired shop: at its deadline the run has {verdict['status']}, the case stays open."
    )
    scene.stage.show("run", f"{verdict['status']}; the case stays {case['status']}")
