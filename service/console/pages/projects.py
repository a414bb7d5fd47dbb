"""All projects of a person, and the overview, the usage and the end of one."""

import re
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from service.auth.refusals import NotFound
from service.console.kit.page import ALL, APPROVAL, Download, Fields, FormProblem, View, first, form, page
from service.console.kit.visit import Json, ReadRefused, Visit, together
from service.console.pages.analytics import deploys_on
from service.discovery.reads import installation
from service.http.discovery.shelf import library
from service.ids import new_id

# The wait for the first event of a new project: a page that looks again until it is there.

LOOKS = 600
"""Looks in a row by a page itself, half an hour of them. Then the person looks again."""
_LOOKED = re.compile(r"[0-9]{1,5}")


@page("projects/{project_id}/arrived", section="overview")
async def show_arrival(visit: Visit) -> View:
    """Show whether a first event came. `looked` counts the looks before."""
    project_id = visit.values["project_id"]
    health = await visit.read("get_project_health", project_id=project_id)
    found = _LOOKED.fullmatch(visit.query.get("looked", ""))
    looked = 0 if found is None else min(int(found[0]), LOOKS)
    facts = {"arrived_at": health["last_event_received_at"], "looked": looked, "looks": LOOKS}
    return View("projects/arrived.html", "The first event", facts, project_id)


# The settings of a project.


@page("projects/{project_id}/settings", section="settings")
async def show_settings(visit: Visit) -> View:
    """Show the settings in force, with a form to owners."""
    project_id = visit.values["project_id"]
    found = await visit.read("get_project_settings", project_id=project_id)
    return View("projects/settings.html", "Settings of the project", {"found": found}, project_id)


# The state of a project's automation in words, and its waiting decisions.


class ProjectOutlook(NamedTuple):
    """The state in a word with the kind of its badge, the waiting approvals, and further exceptions."""

    word: str
    kind: str
    approvals: Sequence[Json]
    exceptions: Sequence[Json]


def standing_of(control: Json | None) -> ProjectOutlook:
    """The state of the automation by its control. Unknown without."""
    if control is None:
        return ProjectOutlook("unknown", "", [], [])
    waiting = [one for one in control["exceptions"] if one["kind"] == APPROVAL]
    others = [one for one in control["exceptions"] if one["kind"] != APPROVAL]
    word, kind = _state(control["contract"])
    return ProjectOutlook(word, kind, waiting, others)


def plan_waits(onboarding: Json | None) -> bool:
    """Whether an onboarding waits for a decision of a person."""
    return bool(onboarding and (onboarding["next_action"] or {}).get("requires_human"))


def _state(contract: Json | None) -> tuple[str, str]:
    if contract is None:
        return "no contract", ""
    if contract["paused"]:
        return "stopped", "bad"
    return ("on", "good") if contract["enabled"] else ("not enabled", "wait")


# The first page: all projects of the person, with the decisions waiting in each.

A_PAGE = 20
"""Projects on a page. Two reads are made for each, and a third where a plan may wait."""
EVERY = 60
"""Seconds after which the page reads itself anew."""


class ProjectCard(NamedTuple):
    """A project of the list: the project as listed, its health, the state of its automation, and whether a plan waits.

    `health` is None where it could not be read, such as in a project that is being deleted.
    """

    project: Json
    health: Json | None
    standing: ProjectOutlook
    plan_waits: bool

    @property
    def failing(self) -> int:
        """The number of webhooks with a failed last delivery."""
        return sum(one["last_error"] is not None for one in self.health["webhooks"]) if self.health else 0


@page("")
async def show_projects(visit: Visit) -> View:
    """Show the projects, a page of them."""
    found = await visit.read("list_projects", query={"cursor": visit.query.get("cursor"), "limit": A_PAGE})
    projects: Sequence[Json] = found["projects"]
    usage, *read = await together(
        [
            visit.try_read("get_usage"),
            *(
                visit.try_read(operation, project_id=one["project_id"])
                for one in projects
                for operation in ("get_project_health", "get_automation_control")
            ),
        ]
    )
    waiting = await _plans(visit, zip(projects, read[1::2], strict=True))
    listed = [
        ProjectCard(one, health, standing_of(control), one["project_id"] in waiting)
        for one, health, control in zip(projects, read[::2], read[1::2], strict=True)
    ]
    facts: dict[str, Any] = {"found": found, "listed": listed, "usage": usage}
    return View("projects/listed.html", "Projects", facts, every=EVERY)


async def _plans(visit: Visit, projects: Iterable[tuple[Json, Json | None]]) -> set[str]:
    """The own projects whose onboarding waits for the person. Where automation is on, no plan is looked for."""
    asked = [
        project["project_id"]
        for project, control in projects
        if project["role"] == "owner" and standing_of(control).word != "on"
    ]
    found = await together(visit.try_read("get_onboarding", project_id=project_id) for project_id in asked)
    return {project_id for project_id, one in zip(asked, found, strict=True) if plan_waits(one)}


# The overview of a project: its telemetry, its waiting decisions, and its next steps.

DAYS_OF_OVERVIEW = 30
STEPS: Mapping[str, str] = {
    "send_first_event": "credentials",
    "record_deploys": "deploys",
    "connect_provider": "onboarding",
    "start_onboarding": "onboarding",
    "finish_onboarding": "onboarding",
    "verify_install": "onboarding",
    "close_readiness_gaps": "onboarding",
    "review_open_cases": "cases",
    "ask_a_question": "analytics",
    "automate_case_fixes": "automation",
    "enable_automation": "automation",
    "replace_runner_credential": "credentials",
}
"""The section in which a person takes a suggested step."""
NEWEST_CASES = 6
NEWEST_DEPLOYS = 20


@page("projects/{project_id}", section="overview")
async def show_project(visit: Visit) -> View:
    """Show a project."""
    project_id = visit.values["project_id"]
    health = await visit.read("get_project_health", project_id=project_id, query={"days": DAYS_OF_OVERVIEW})
    control, steps, cases, deploys, onboarding = await together(
        [
            visit.control(project_id),
            *(
                visit.try_read(operation, project_id=project_id, query=query)
                for operation, query in (
                    ("get_next_steps", {}),
                    ("list_cases", {"status": "open", "limit": NEWEST_CASES}),
                    ("list_deploys", {"limit": NEWEST_DEPLOYS}),
                    ("get_onboarding", {}),
                )
            ),
        ]
    )
    found: Sequence[Json] = deploys["deploys"] if deploys else []
    facts = {
        "health": health,
        "control": control,
        "standing": standing_of(control),
        "steps": [(one, STEPS.get(one["id"], "")) for one in steps["suggestions"]] if steps else [],
        "new": health["last_event_received_at"] is None,
        "cases": cases,
        "days": [(day, deploys_on(day["date"], found)) for day in health["by_day"]],
        "deploys": found,
        "plan_waits": plan_waits(onboarding),
    }
    return View("projects/overview.html", "Overview", facts, project_id, follows=[ALL])


# A search through a project: its cases, a person, its events, and the documentation.

WAYS: Mapping[str, str] = {"case": "cases", "run": "runs"}
"""The pages of things by the beginning of their ids."""
_ID = re.compile(r"(case|run)_[A-Za-z0-9_]{1,100}")
FOUND = 10
MOST_NAMES = 1000


@page("projects/{project_id}/search")
async def show_search(visit: Visit) -> View:
    """Show what a project has for a text: cases, the person of this id, names of events, and pages of the docs."""
    project_id, asked = visit.values["project_id"], visit.query.get("q", "").strip()[:200]
    await visit.read("get_setup", project_id=project_id)
    cases, person, names = await together(_searched(visit, project_id, asked)) if asked else (None, None, None)
    at, found = installation(visit.call.services.settings), _ID.fullmatch(asked)
    facts = {
        "asked": asked,
        "place": f"{WAYS[found[1]]}/{asked}" if found else "",
        "cases": cases["cases"] if cases else [],
        "person": person if person and "person" in person else None,
        "events": _holding(names["analytics_events"] if names else (), asked),
        "docs": await visit.call.work_apart(lambda: library(at).hits(asked)[:FOUND]) if asked else [],
    }
    return View("projects/search.html", "Search", facts, project_id)


def _searched(visit: Visit, project_id: str, asked: str) -> list[Coroutine[Any, Any, Json | None]]:
    """The reads of a search: of cases, of a person, and of names."""
    words = {"text": asked, "status": "all", "order": "last_seen", "limit": FOUND}
    return [
        visit.try_read("list_cases", project_id=project_id, query=words),
        _person(visit, project_id, asked),
        visit.try_read("list_event_names", project_id=project_id, query={"limit": MOST_NAMES}),
    ]


async def _person(visit: Visit, project_id: str, distinct_id: str) -> Json | None:
    """The summary of a person. None for a text that cannot be an id."""
    try:
        return await visit.try_read("get_user_summary", project_id=project_id, distinct_id=distinct_id)
    except NotFound:  # no path of the API can hold such an id
        return None


def _holding(names: Sequence[Json], asked: str) -> list[Json]:
    """The events whose name holds a text."""
    return [one for one in names if asked.casefold() in one["event"].casefold()][:FOUND]


# The deletion of a project: its extent, a confirmation by its name, and its progress.

ADDRESS = "projects/{project_id}/delete"


@page(ADDRESS, section="overview")
async def show_deletion(visit: Visit) -> View:
    """Show the extent of a deletion, and ask for the name of the project."""
    project_id = visit.values["project_id"]
    setup = await visit.read("get_setup", project_id=project_id)
    facts = {"name": setup["project"]["name"]}
    return View("projects/delete.html", "Delete this project", facts, project_id)


@form(ADDRESS)
async def delete_project(visit: Visit, fields: Fields) -> View:
    """Begin a deletion, or show its progress. The same request does both. Raises FormProblem."""
    project_id, key = visit.values["project_id"], first(fields, "_key") or new_id("req")
    if first(fields, "begun") != "yes":
        setup = await visit.read("get_setup", project_id=project_id)
        if first(fields, "name").strip() != setup["project"]["name"].strip():
            raise FormProblem.of_field("name", "is not the name of this project")
    said = await visit.ask("delete_project", {"project_id": project_id}, body={}, headers={"idempotency-key": key})
    if not said.ok:
        raise FormProblem(said.status, said.error)
    facts = {"found": said.body, "key": key, "project_id": project_id}
    return View("projects/deleted.html", "Deletion of a project", facts)


# The usage of the person's account against its plan, and the ways to pay.

DAYS_OF_USAGE = 60
HTTP = ("https://", "http://")


@page("projects/{project_id}/usage", section="usage")
async def show_usage(visit: Visit) -> View:
    """Show the usage of the account, with the part of the project."""
    project_id = visit.values["project_id"]
    health = await visit.read("get_project_health", project_id=project_id)
    history, billing = await together(
        [visit.try_read("get_usage_history", query={"days": DAYS_OF_USAGE}), visit.try_read("get_billing_status")]
    )
    days = [(day, ()) for day in history["snapshots"]] if history else []
    facts = {"month": health["usage_this_month"], "billing": billing, "days": days}
    return View("billing/usage.html", "Usage and billing", facts, project_id)


@form("projects/{project_id}/usage/checkout")
async def check_out(visit: Visit, fields: Fields) -> View:
    """Ask for the address of the payment page. Raises FormProblem."""
    return await _led(visit, fields, "start_billing_checkout", {"plan": first(fields, "plan")}, "checkout_url")


@form("projects/{project_id}/usage/portal")
async def open_portal(visit: Visit, fields: Fields) -> View:
    """Ask for the address of the payment provider's portal. Raises FormProblem."""
    return await _led(visit, fields, "open_billing_portal", {}, "url")


async def _led(visit: Visit, fields: Fields, operation: str, body: Mapping[str, Any], member: str) -> View:
    headers = {"idempotency-key": first(fields, "_key")} if first(fields, "_key") else {}
    said = await visit.ask(operation, {}, body=body, headers=headers)
    if not said.ok:
        raise FormProblem(said.status, said.error)
    address = said.body[member]
    facts = {"address": address, "safe": address.startswith(HTTP), "next_action": said.body["next_action"]}
    return View("billing/leave.html", "Go on at the payment provider", facts, visit.values["project_id"])


# Files to keep: answers of a few reads, as the interface gives them.


class KeptRead(NamedTuple):
    """The values in path and query of an operation, and the name of its file with these in it."""

    path: Sequence[str]
    query: Sequence[str]
    name: str


KEPT: Mapping[str, KeptRead] = {
    "get_automation_run_proof": KeptRead(["run_id"], [], "{run_id}.proof.json"),
    "get_automation_run_tlog_proof": KeptRead(["run_id"], [], "{run_id}.tlog-proof"),
    "get_case_event": KeptRead(["case_id", "event_id"], [], "{event_id}.json"),
    "get_log_checkpoint": KeptRead([], [], "checkpoint.txt"),
    "get_inclusion_proof": KeptRead([], ["position", "size"], "inclusion-{position}-{size}.json"),
}
"""The reads that may be kept, and no other."""


@page("download/{operation_id}")
async def keep(visit: Visit) -> View | Download:
    """Answer a read as a file. Raises NotFound for any other operation, and ReadRefused."""
    operation_id = visit.values["operation_id"]
    kept = KEPT.get(operation_id)
    if kept is None or any(not visit.query.get(name) for name in kept.path):
        raise NotFound
    path = {name: visit.query[name] for name in kept.path}
    query = {name: visit.query.get(name, "") for name in kept.query}
    said = await visit.ask(operation_id, path, query=query)
    if not said.ok:
        raise ReadRefused(said)
    plain = {name: re.sub(r"[^A-Za-z0-9_-]", "_", value) for name, value in {**path, **query}.items()}
    return Download(said.raw, kept.name.format(**plain))


PAGES = [show_arrival, show_settings, show_projects, show_project, show_search, show_deletion, show_usage, keep]
FORMS = [delete_project, check_out, open_portal]
