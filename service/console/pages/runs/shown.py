"""One run, with its standing, requests, use, proofs and history."""

from __future__ import annotations

from typing import Any

from service.auth.refusals import NotFound
from service.console.diagrams.drawing import draw
from service.console.kit.page import View, page
from service.console.kit.visit import Json, Visit
from service.console.pages.runs.requests import request_of, states_of
from service.console.pages.runs.timeline import read_timeline
from service.console.pages.runs.told import OVER, kind_of, words


@page("runs/{run_id}", section="runs")
async def show_run(visit: Visit) -> View:
    """Show a run."""
    run_id = visit.values["run_id"]
    run = await visit.read("get_automation_run", run_id=run_id)
    timeline = await read_timeline(visit, run, _position(visit))
    requests = [request_of(one) for one in run["approvals"]]
    facts: dict[str, Any] = {
        "run": run,
        "timeline": timeline,
        "paged": "before" in visit.query,
        "drawing": draw("run", timeline.passed) if timeline.passed else None,
        "waiting": [one for one in requests if one.pending],
        "decided": [one for one in requests if not one.pending],
        "over": run["status"] in OVER,
        "counted": _counted(run),
        "kind_of": kind_of,
        "words": words,
    }
    state = {
        "Phase": words(run["phase"]),
        "Status": words(run["status"] or "not over"),
        "Revision": str(run["state_revision"]),
        **states_of(requests),
    }
    follows = [run_id, *([] if run["claim_id"] is None else [run["claim_id"]])]
    title = f"Run of {run['automation_id']}"
    return View("runs/shown.html", title, facts, run["project_id"], state, follows)


def _position(visit: Visit) -> int | None:
    """The position to look before. Raises NotFound for any other text."""
    asked = visit.query.get("before")
    if asked is None:
        return None
    if not (asked.isascii() and asked.isdigit() and len(asked) < 16):  # noqa: PLR2004 - a safe integer
        raise NotFound
    return int(asked)


def _counted(run: Json) -> list[tuple[str, float, float]]:
    """The ledger of the run, its use of each limit."""
    charges, limits = run["charges"], run["limits"]
    return [
        ("Turns", charges["turns"], limits["max_turns_per_run"]),
        ("Cost in USD", charges["cost_usd"], limits["max_cost_usd_per_run"]),
        ("Run time in seconds", charges["runtime_seconds"], limits["max_runtime_seconds"]),
    ]


PAGES = [show_run]
