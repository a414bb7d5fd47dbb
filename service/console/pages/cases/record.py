"""A case: its latest error, its history, and its actions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from service.console.kit.page import View, page
from service.console.kit.visit import Visit
from service.console.pages.cases.context import evidence_of
from service.console.pages.cases.history import history, name_of
from service.console.pages.runs.told import kind_of, words

Json = Mapping[str, Any]
SHOWN_PEOPLE = 10
SHOWN_DECISIONS = 10
SHOWN_RUNS = 5
SHOWN_WRITTEN = 10
MOST_HAPPENED = 200


@page("cases/{case_id}", section="cases")
async def show_case(visit: Visit) -> View:
    """Show a case in full."""
    case_id = visit.values["case_id"]
    case = await visit.read("read_case", case_id=case_id)
    project_id, latest = case["project_id"], case["latest_event"]
    event, people, events, members, keys, decisions, claim, runs, written = await asyncio.gather(
        _event(visit, case),
        visit.try_read("list_case_users", case_id=case_id),
        visit.try_read("list_stream_events", stream_id=case_id, query={"limit": MOST_HAPPENED}),
        visit.try_read("list_members", project_id=project_id, query={"limit": 200}),
        visit.try_read("list_keys"),
        visit.try_read(
            "list_automation_decisions",
            project_id=project_id,
            query={"case_id": case_id, "limit": SHOWN_DECISIONS},
        ),
        _claim(visit, case),
        visit.try_read("list_automation_runs", project_id=project_id, query={"case_id": case_id, "limit": SHOWN_RUNS}),
        visit.try_read(
            "list_feedback_reports", project_id=project_id, query={"case_id": case_id, "limit": SHOWN_WRITTEN}
        ),
    )
    names = {one["user_id"]: one["email"] for one in members["members"] if one["email"]} if members else {}
    own = names.get(visit.call.user_id, "you")
    names |= {one["id"]: own for one in keys["keys"]} if keys else {}
    facts = {
        "case": case,
        "shown": evidence_of(event) if event else None,
        "latest": latest,
        "people": people["users"][:SHOWN_PEOPLE] if people else [],
        "people_count": len(people["users"]) if people else 0,
        "happened": history(case, events["events"] if events else (), names),
        "sees_events": events is not None,
        "members": [(one["user_id"], one["email"] or one["user_id"]) for one in members["members"]] if members else [],
        "names": names,
        "assignee": name_of(case["assignee"], names) if case["assignee"] else None,
        "me": visit.call.user_id,
        "decisions": decisions["decisions"] if decisions else [],
        "claim": claim,
        "runs": runs["runs"] if runs else [],
        "more_runs": bool(runs and runs["next_cursor"]),
        "written": written["feedback_reports"] if written else [],
        "more_written": bool(written and written["next_cursor"]),
        "kind_of": kind_of,
        "words": words,
    }
    state = {
        "Status": f"merged into {case['merged_into']}" if "merged_into" in case else case["status"],
        "Revision": str(case["revision"]),
        "Assignee": facts["assignee"] or "nobody",
    }
    return View("cases/record.html", case["title"], facts, project_id, state, [case_id])


async def _event(visit: Visit, case: Json) -> Json | None:
    """The latest error with its sources. None once retention has taken it."""
    latest = case["latest_event"]
    if latest is None:
        return None
    return await visit.try_read("get_case_event", case_id=case["case_id"], event_id=latest["id"])


async def _claim(visit: Visit, case: Json) -> Json | None:
    if case["claim"] is None:
        return None
    return await visit.try_read("get_active_claim", case_id=case["case_id"])


PAGES = [show_case]
