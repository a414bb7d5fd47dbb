"""Cases, their people, rules, source maps and logs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from service.auth.refusals import InvalidPayload, NotFound
from service.console.kit.page import ALL, Fields, FormProblem, View, first, form, page
from service.console.kit.visit import Said, Visit, local
from service.console.pages import errors
from service.console.pages.runs import kind_of, words
from service.ids import new_id

# The cases of a project: filtered, in pages, and several of them acted on at once.

LISTED = 25
SEEN: Mapping[str, tuple[str, int]] = {
    "hour": ("in the last hour", 3_600),
    "day": ("in the last 24 hours", 86_400),
    "week": ("in the last 7 days", 7 * 86_400),
    "month": ("in the last 30 days", 30 * 86_400),
}
STATUSES: Sequence[tuple[str, str]] = (
    ("open", "Open"),
    ("resolved", "Resolved"),
    ("ignored", "Ignored"),
    ("all", "All"),
)
ORIGINS: Sequence[tuple[str, str]] = (
    ("customer_provider", "Your product"),
    ("imported", "Imports"),
    ("synthetic", "Onboarding proofs"),
)
ORDERS: Sequence[tuple[str, str, str]] = (
    ("newest", "Newest", "newest first"),
    ("last_seen", "Last seen", "last error first"),
    ("errors", "Errors", "most errors first"),
    ("people", "People", "most people first"),
)
"""The orders: the value, the name in the filters, and in words above the table."""
TOLD = ("environment", "release", "text", "trust", "since", "tag", "path", "person")
ASKED = ("status", "cursor", "order", *TOLD)
FILTERS = (*TOLD, "seen")


@page("projects/{project_id}/cases", section="cases")
async def show_cases(visit: Visit) -> View:
    """Show the cases of a project in the order asked for, newest first by default."""
    project_id = visit.values["project_id"]
    chosen = await _chosen_view(visit, project_id)
    asked = visit.query if chosen is None else await _filter_of(visit, chosen)
    query = {name: asked.get(name) for name in ASKED}
    if asked.get("seen") in SEEN:
        query["since"] = str(await visit.call.services.store.now() - SEEN[asked["seen"]][1])
    found = await visit.read(
        "list_cases", project_id=project_id, query={**query, "limit": asked.get("limit") or LISTED, "trend": "true"}
    )
    shown = found["cases"]
    facts = {
        "found": found,
        "statuses": STATUSES,
        "origins_of": ORIGINS,
        "orders": ORDERS,
        "order": asked.get("order") or "newest",
        "seen": [(name, label) for name, (label, _) in SEEN.items()],
        "environments": sorted({case["environment"] for case in shown}),
        "releases": sorted({case["release"] for case in shown if case["release"]}),
        "filtered": any(asked.get(name) for name in FILTERS) or asked.get("status", "open") != "open",
        "members": await members_of(visit, project_id),
        "me": visit.call.user_id,
        "asked": asked,
        "chosen": chosen,
        "kept": urlencode({name: asked[name] for name in ("status", "order", *FILTERS) if asked.get(name)}),
    }
    return View("cases/listed.html", chosen["name"] if chosen else "Cases", facts, project_id, follows=[ALL])


async def _chosen_view(visit: Visit, project_id: str) -> Mapping[str, Any] | None:
    """The saved view that the address names."""
    view_id = visit.query.get("view")
    return await visit.read("get_case_view", project_id=project_id, view_id=view_id) if view_id else None


async def _filter_of(visit: Visit, chosen: Mapping[str, Any]) -> Mapping[str, str]:
    """The filter of a view, as an address would name it."""
    wanted = {name: str(value) for name, value in chosen["filter"].items() if value is not None}
    paged = {name: visit.query[name] for name in ("cursor", "limit") if name in visit.query}
    if within := wanted.pop("seen_within", None):
        wanted |= {"since": str(await visit.call.services.store.now() - int(within))}
        wanted["seen"] = next((name for name, (_, seconds) in SEEN.items() if seconds == int(within)), "")
    return {**wanted, **paged}


async def members_of(visit: Visit, project_id: str) -> list[tuple[str, str]]:
    """The members to assign cases to, as far as the person may see them."""
    found = await visit.try_read("list_members", project_id=project_id, query={"limit": 200})
    return [(one["user_id"], one["email"] or one["user_id"]) for one in found["members"]] if found else []


# The history of a case, newest first: its events, its comments, and the decisions of automation.

Json = Mapping[str, Any]
MICROSECONDS = 1_000_000
_TOLD: Mapping[str, str] = {
    "case.opened.v1": "Opened by its first error",
    "case.opened_ignored.v1": "Opened as ignored by a suppression rule",
    "case.opened_resolved.v1": "Opened as resolved by a suppression rule",
    "case.overflow_opened.v1": "Opened to count new errors beyond the limit",
    "case.regressed.v1": "Opened again by an error of a later release",
    "case.ignored.v1": "Ignored",
    "case.resolved.v1": "Resolved",
    "case.resolved_by_member.v1": "Resolved",
    "case.ignored_by_member.v1": "Ignored",
    "case.reopened.v1": "Reopened",
    "case.overflow_reopened.v1": "Reopened",
    "case.assigned.v1": "Assigned",
    "case.merged.v1": "Merged into another case",
    "case.split_off.v1": "Split off another case",
    "case.absorbed.v1": "Took in another case",
    "case.released.v1": "Gave up a merged case",
}
_NAMED = ("into_case_id", "from_case_id", "case_id")
_ACTORS: Mapping[str, str] = {
    "system": "the service",
    "dsn": "an error",
    "key": "a member",
    "session": "a member",
    "runner": "a runner",
    "ci": "CI",
}


class Happening(NamedTuple):
    """An entry `at` a time (epoch seconds), with its actor. `case_id` and `run_id` lead to other pages."""

    at: int
    what: str
    who: str
    said: str = ""
    case_id: str = ""
    run_id: str = ""
    mono: str = ""


def history(case: Json, events: Iterable[Json], names: Mapping[str, str]) -> list[Happening]:
    """All entries of a case. `names` are those of users and keys."""
    happened = [_event(event, names) for event in events]
    happened += [
        Happening(note["created_at"], "Commented", name_of(note["user_id"], names), said=note["text"])
        for note in case["comments"]
    ]
    happened += [
        Happening(run["created_at"], f"Agent run recorded: {run['status'].replace('_', ' ')}", "")
        for run in case["agent_runs"]
    ]
    return sorted(happened, key=lambda one: one.at, reverse=True)


def name_of(user_id: str, names: Mapping[str, str]) -> str:
    """The address of a member, a name for the service itself; the id of anybody else."""
    return names.get(user_id) or _ACTORS.get(user_id, user_id)


def _event(event: Json, names: Mapping[str, str]) -> Happening:
    payload: Json = event["payload"] or {}
    what = _TOLD.get(event["topic"], event["topic"])
    if "user_id" in payload:
        user_id = payload["user_id"]
        what = f"Assigned to {name_of(user_id, names)}" if user_id else "Assigned to nobody"
    elif payload.get("suppression_id") and event["topic"] in {"case.ignored.v1", "case.resolved.v1"}:
        what += " by a suppression rule"
    elif payload.get("run_id"):
        what += " by a run"
    return Happening(
        event["recorded_at"] // MICROSECONDS,
        what,
        _actor(event, names),
        case_id=next((payload[name] for name in _NAMED if payload.get(name)), ""),
        run_id=payload.get("run_id") or "",
        mono=payload.get("suppression_id") or "",
    )


def _actor(event: Json, names: Mapping[str, str]) -> str:
    kind, actor_id = event["actor_kind"], event["actor_id"]
    return names.get(actor_id) or _ACTORS.get(kind) or f"{kind} {actor_id}"


# A case: its latest error, its history, and its actions.

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
    names, read = await asyncio.gather(
        visit.names(project_id),
        asyncio.gather(
            _event_about(visit, case),
            visit.try_read("list_case_users", case_id=case_id),
            visit.try_read("list_stream_events", stream_id=case_id, query={"limit": MOST_HAPPENED}),
            visit.try_read("list_members", project_id=project_id, query={"limit": 200}),
            visit.try_read(
                "list_automation_decisions",
                project_id=project_id,
                query={"case_id": case_id, "limit": SHOWN_DECISIONS},
            ),
            _claim(visit, case),
            visit.try_read(
                "list_automation_runs", project_id=project_id, query={"case_id": case_id, "limit": SHOWN_RUNS}
            ),
            visit.try_read(
                "list_feedback_reports", project_id=project_id, query={"case_id": case_id, "limit": SHOWN_WRITTEN}
            ),
            errors.common_of(visit, case_id, errors.BESIDE_CASE),
        ),
    )
    event, people, events, members, decisions, claim, runs, written, common = read
    facts = {
        "case": case,
        "shown": errors.evidence_of(event) if event else None,
        "latest": latest,
        "common": common,
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


async def _event_about(visit: Visit, case: Json) -> Json | None:
    """The latest error with its sources. None once retention has taken it."""
    latest = case["latest_event"]
    if latest is None:
        return None
    return await visit.try_read("get_case_event", case_id=case["case_id"], event_id=latest["id"])


async def _claim(visit: Visit, case: Json) -> Json | None:
    if case["claim"] is None:
        return None
    return await visit.try_read("get_active_claim", case_id=case["case_id"])


# Several cases acted on at once: one operation and one result for each.

MOST = 50
DEEDS: Mapping[str, tuple[str, str]] = {
    "resolve": ("resolve_case", "resolved"),
    "ignore": ("ignore_case", "ignored"),
    "reopen": ("reopen_case", "reopened"),
    "assign": ("assign_case", "assigned"),
}
"""The actions on several cases: the operation, and the word for it afterwards."""


class ChosenCase(NamedTuple):
    """A chosen case, as the person saw it."""

    case_id: str
    revision: int

    @classmethod
    def read(cls, text: str) -> ChosenCase:
        """Take a choice apart, as the list wrote it. Raises InvalidPayload."""
        case_id, _, revision = text.partition(" ")
        if not case_id or not revision.isascii() or not revision.isdigit() or len(revision) > len(str(2**53)):
            raise InvalidPayload("A chosen case is not acceptable.", invalid=[("chosen", "is not a case of the list")])
        return cls(case_id, int(revision))


class DeedResult(NamedTuple):
    """The result for one case."""

    case_id: str
    done: bool
    message: str
    next_action: str


@form("projects/{project_id}/cases/several")
async def act_on_several(visit: Visit, fields: Fields) -> View:
    """Act on each chosen case at the revision seen. A refused one holds up none of the others.

    Raises InvalidPayload, and ReadRefused for a project that the person does not see.
    """
    project_id = visit.values["project_id"]
    await visit.read("get_setup", project_id=project_id)
    deed = first(fields, "deed")
    chosen = [ChosenCase.read(text) for text in dict.fromkeys(fields.get("chosen", ()))]
    _check(deed, chosen)
    operation_id, word = DEEDS[deed]
    key = first(fields, "_key")
    results = []
    for one in chosen:
        body: dict[str, Any] = {"case_revision": one.revision}
        if deed == "assign":
            body["user_id"] = first(fields, "user_id") or None
        said = await visit.ask(
            operation_id, {"case_id": one.case_id}, body=body, headers={"idempotency-key": f"{key}-{one.case_id}"}
        )
        results.append(_result(one, said, word))
    facts = {
        "results": results,
        "done_count": sum(one.done for one in results),
        "word": word,
        "after": local(first(fields, "_next")),
    }
    return View("cases/several.html", "Results for the chosen cases", facts, project_id)


def _check(deed: str, chosen: list[ChosenCase]) -> None:
    """Refuse an unknown action. Raises InvalidPayload."""
    if deed not in DEEDS:
        raise InvalidPayload("Nothing of this kind can be done to cases.", invalid=[("deed", "is unknown")])
    if not chosen:
        raise InvalidPayload("No case was chosen.", invalid=[("chosen", "must name a case at least")])
    if len(chosen) > MOST:
        raise InvalidPayload("Too many cases at once.", invalid=[("chosen", f"must be at most {MOST}")])


def _result(one: ChosenCase, said: Said, word: str) -> DeedResult:
    if said.ok:
        return DeedResult(one.case_id, done=True, message=word.capitalize(), next_action="")
    error = said.error
    return DeedResult(one.case_id, done=False, message=error["message"], next_action=error.get("next_action", ""))


# Suppression rules, with a preview of what a pattern would have met.

ACTIONS: Sequence[tuple[str, str]] = (
    ("auto_ignore", "Ignore matching cases"),
    ("auto_resolve", "Resolve matching cases"),
    ("prompt_hint", "Show a hint on matching cases"),
)


@page("projects/{project_id}/suppressions", section="suppressions")
async def show_suppressions(visit: Visit) -> View:
    """Show the rules of a project, and with a pattern what it would have met before anything is saved."""
    project_id, pattern = visit.values["project_id"], visit.query.get("pattern", "")
    found = await visit.read("list_suppressions", project_id=project_id)
    preview, refused = None, ""
    if pattern:
        said = await visit.ask("preview_suppression", {"project_id": project_id}, body={"fingerprint_pattern": pattern})
        preview, refused = (said.body, "") if said.ok else (None, said.error["message"])
    facts = {
        "found": found,
        "pattern": pattern,
        "preview": preview,
        "refused": refused,
        "actions": ACTIONS,
        "chosen": visit.query.get("action", ""),
    }
    return View("cases/suppressions.html", "Suppressions", facts, project_id)


# The source maps that a project keeps, and how to upload them.

SOURCE_MAPS_A_PAGE = 50


@page("projects/{project_id}/source-maps", section="source-maps")
async def show_source_maps(visit: Visit) -> View:
    """Show the files of a project, newest first."""
    project_id, asked = visit.values["project_id"], visit.query
    query = {"release": asked.get("release"), "cursor": asked.get("cursor"), "limit": SOURCE_MAPS_A_PAGE}
    found = await visit.read("list_source_maps", project_id=project_id, query=query)
    base = str(visit.call.services.settings.base_url)
    return View("cases/source-maps.html", "Source maps", {"found": found, "base": base}, project_id)


# The people whom errors of a project affected, what is known of one, and the deletion of a person.

DAYS: Sequence[tuple[str, str]] = (
    ("1", "the last day"),
    ("7", "the last 7 days"),
    ("30", "the last 30 days"),
    ("90", "the last 90 days"),
)

ABOUTS: Sequence[tuple[str, str]] = (("all", "All of it"), ("none", "Without a case"))
WRITTEN = 25


@page("projects/{project_id}/people", section="people")
async def show_people(visit: Visit) -> View:
    """Show the people affected, most errors first."""
    return await _people(visit)


async def _people(visit: Visit) -> View:
    project_id = visit.values["project_id"]
    query = {"days": visit.query.get("days"), "limit": 100}
    found = await visit.read("list_users", project_id=project_id, query=query)
    return View("cases/affected.html", "People", {"found": found, "days": DAYS}, project_id)


@page("projects/{project_id}/feedback", section="people")
async def show_feedback(visit: Visit) -> View:
    """Show texts of people, newest first: all, those without a case, or those of one."""
    project_id, about = visit.values["project_id"], visit.query.get("about", "all")
    query = {"case_id": visit.query.get("case_id"), "cursor": visit.query.get("cursor"), "limit": WRITTEN}
    if about == "none":
        query["without_case"] = "true"
    found = await visit.read("list_feedback_reports", project_id=project_id, query=query)
    facts = {"found": found, "abouts": ABOUTS, "about": about, "case_id": visit.query.get("case_id", "")}
    return View("cases/feedback.html", "What people wrote", facts, project_id)


@page("projects/{project_id}/people/person", section="people")
async def show_person(visit: Visit) -> View:
    """Show one person, whose id is in the query: it may hold any character."""
    project_id, distinct_id = visit.values["project_id"], visit.query.get("id", "")
    if not distinct_id:
        return await _people(visit)
    try:
        found = await visit.read("get_user_summary", project_id=project_id, distinct_id=distinct_id)
    except NotFound:  # no path of the API can hold such an id
        return View("cases/unnamed-person.html", "Person", {"distinct_id": distinct_id}, project_id)
    recordings = [(one, _outside(one["web_ui_url"])) for one in found["recent_recordings"]]
    facts = {"found": found, "recordings": recordings, "at_provider": _outside(found.get("web_ui_url", ""))}
    return View("cases/person.html", "Person", facts, project_id)


@form("projects/{project_id}/people/delete")
async def delete_person(visit: Visit, fields: Fields) -> View:
    """Begin the deletion of a person, or show its progress. The same request does both. Raises FormProblem."""
    project_id, key = visit.values["project_id"], first(fields, "_key") or new_id("req")
    distinct_id = first(fields, "id")
    if first(fields, "begun") != "yes" and first(fields, "confirm").strip() != distinct_id.strip():
        raise FormProblem.of_field("confirm", "is not the id of this person")
    path = {"project_id": project_id, "distinct_id": distinct_id}
    said = await visit.ask("delete_user", path, body={}, headers={"idempotency-key": key})
    if not said.ok:
        raise FormProblem(said.status, said.error)
    facts = {"found": said.body, "key": key, "distinct_id": distinct_id}
    return View("cases/person-deleted.html", "Deletion of a person", facts, project_id)


def _outside(address: str) -> str:
    """An address to link to: one of the web, else none."""
    return address if address.startswith(("https://", "http://")) else ""


# The stored records below error of a project: filtered, in pages, newest first.

PAGE = 25
MOST_FRAMES = 50
"""Frames of a record on the page, those of each cause besides."""
LEVELS = ("warning", "info", "debug")
LOG_FILTERS = ("level", "q", "user", "release", "trace")
GIVEN = "given"
"""The choice of times for those in `from` and `to`, as links to the page have them."""


class ShownLog(NamedTuple):
    """A record with its short facts, its stack as text, its person and its trace. Empty texts for none."""

    log: Json
    facts: Sequence[tuple[str, str]]
    stack: str
    person: str
    trace: str


@page("projects/{project_id}/logs", section="logs")
async def show_logs(visit: Visit) -> View:
    """Show the records below error of a project, a page of them."""
    project_id, asked = visit.values["project_id"], visit.query
    when, times = asked.get("when", GIVEN), dict[str, str]()
    if when in SEEN:
        query = {"from": str(await visit.call.services.store.now() - SEEN[when][1])}
    else:
        query = times = {name: asked[name] for name in ("from", "to") if when == GIVEN and asked.get(name)}
    query = {**query, **{name: asked.get(name, "") for name in (*LOG_FILTERS, "cursor")}, "limit": str(PAGE)}
    found = await visit.read("list_logs", project_id=project_id, query=query)
    facts = {
        "found": found,
        "logs": [_shown(log) for log in found["logs"]],
        "levels": LEVELS,
        "seen": [(name, label) for name, (label, _) in SEEN.items()],
        "when": when,
        "times": {name: int(value) for name, value in times.items()},
        "filtered": bool(times) or when in SEEN or any(asked.get(name) for name in LOG_FILTERS),
        "ends_early": found["next_cursor"] is not None and found["count"] < PAGE,
    }
    return View("cases/logs.html", "Logs", facts, project_id)


def _shown(log: Json) -> ShownLog:
    return ShownLog(log, errors.facts_of(log), _stack(log), errors.person_of(log), errors.trace_of(log))


def _stack(log: Json) -> str:
    """The exceptions of a record with their frames, as they were sent."""
    sent = log["exception"]
    if sent is None:
        return ""
    all_sent = [sent, *(sent.get("causes") or ())]
    return errors.as_text([errors.sent_cause({**one, "frames": one["frames"][:MOST_FRAMES]}) for one in all_sent])


PAGES = [show_cases, show_case, show_suppressions, show_source_maps, show_people, show_feedback, show_person, show_logs]
FORMS = [act_on_several, delete_person]
