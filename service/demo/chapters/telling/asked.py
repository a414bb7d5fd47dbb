"""A question to telemetry: the answer brings its evidence, with a hash for everybody to check."""

from __future__ import annotations

import hashlib
from typing import Any

import rfc8785

from service.demo.chapters.observing.plan import MILESTONES
from service.demo.theatre.scene import Scene, require

BLUEPRINT = "ordered-funnel"


def ask(scene: Scene) -> str:
    """Ask for the shop's funnel, and check the receipt of the answer."""
    stage = scene.stage
    stage.step("A person asks for the shop's funnel")
    wish = {"params": {"events": [event for event, *_ in MILESTONES], "days": 7}}
    answer = scene.owner.call("POST", f"{scene.path}/query-blueprints/{BLUEPRINT}/run", wish)
    stage.tell("Of the people in the shop during seven days, in the order of the plan:")
    stage.draw([f"{row['event']:18} {row['users']:3} people, {row['conversion']:.0%}" for row in answer["rows"]])
    evidence = answer["evidence"]
    stage.show("evidence", f"{evidence['source']}, complete={evidence['complete']}")
    stage.step("The receipt of question and answer, made again by the reader")
    made = receipt_of(answer, limit=1000)
    require(made == evidence["query_receipt_sha256"], "The receipt is another one.")
    changed = {**answer, "rows": [{**answer["rows"][0], "users": 1}, *answer["rows"][1:]]}
    require(receipt_of(changed, limit=1000) != made, "Another answer has the same receipt.")
    whole = "whole" if evidence["complete"] else "not whole"
    stage.tell(f"Evidence: own records, a {whole} window, receipt {made[:12]}…, which the reader computes alike.")
    return "The funnel came with its evidence; its receipt names question and answer."


def receipt_of(answer: dict[str, Any], *, limit: int) -> str:
    """Hash question and answer, as the page about questions describes it."""
    evidence = answer["evidence"]
    named = {
        "source": evidence["source"],
        "blueprint_id": answer["blueprint_id"],
        "params": evidence["params"],
        "from": evidence["from"],
        "to": evidence["to"],
        "limit": limit,
        "columns": answer["columns"],
        "rows": answer["rows"],
    }
    return hashlib.sha256(rfc8785.dumps(named)).hexdigest()
