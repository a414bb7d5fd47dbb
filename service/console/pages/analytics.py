"""The events of a project, questions about them, and its deploys. A question is a link."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlencode

from schemas.analytics import RunBlueprint
from service.auth.refusals import InvalidPayload, NotFound
from service.console.kit.page import ALL, Download, FormProblem, ShownProblem, View, body_of, page
from service.console.kit.visit import Json, ReadRefused, Visit, together
from service.console.pages.telling import chosen_blueprint
from service.http.answer.errors import failure_of

# Names of events, and one event.

DAYS: Sequence[tuple[str, str]] = (
    ("1", "the last day"),
    ("7", "the last 7 days"),
    ("30", "the last 30 days"),
    ("90", "the last 90 days"),
)
USUAL_DAYS = "30"
NAMES_LISTED = 200
KEYS_LISTED = 100
VALUES_LISTED = 20
CHOSEN: Sequence[str] = (
    "event-trend",
    "ordered-funnel",
    "retention",
    "breakdown",
    "release-comparison",
    "active-users",
)
"""The questions that the page of names leads to first."""


def _days(visit: Visit) -> str:
    """The number of days asked for. The usual one for any other text."""
    asked = visit.query.get("days", "")
    return asked if asked in dict(DAYS) else USUAL_DAYS


@page("projects/{project_id}/analytics", section="analytics")
async def show_names(visit: Visit) -> View:
    """Show the names of events with their counts, most frequent first, and the questions to ask."""
    return await _listed(visit)


async def _listed(visit: Visit) -> View:
    project_id, days = visit.values["project_id"], _days(visit)
    query = {"days": days, "limit": NAMES_LISTED, "trend": "true"}
    found, catalogue = await together(
        [visit.read("list_event_names", project_id=project_id, query=query), visit.read("list_query_blueprints")]
    )
    titles = {one["blueprint_id"]: one["title"] for one in catalogue["blueprints"]}
    facts = {
        "found": found,
        "days": days,
        "all_days": DAYS,
        "questions": [(one, titles[one]) for one in CHOSEN],
        "full": found["count"] == NAMES_LISTED,
        "base_url": visit.call.services.settings.base_url,
    }
    return View("analytics/names.html", "Analytics", facts, project_id)


@page("projects/{project_id}/analytics/event", section="analytics")
async def show_event(visit: Visit) -> View:
    """Show one event, whose name is in the query: its trend, its properties, and the values of one of them."""
    project_id, name, days = visit.values["project_id"], visit.query.get("name", ""), _days(visit)
    if not name:
        return await _listed(visit)
    about = {"event": name, "days": int(days)}
    trend = await _marked(visit, await _run(visit, "event-trend", about))
    keys = None
    if "," not in name:  # where names are parted by commas, one with a comma cannot be asked for
        query = {"days": days, "limit": KEYS_LISTED, "events": name}
        keys = await visit.try_read("list_event_property_keys", project_id=project_id, query=query)
    key = visit.query.get("property", "")
    values = await _run(visit, "breakdown", {**about, "property": key, "limit": VALUES_LISTED}) if key else None
    facts = {
        "name": name,
        "days": days,
        "all_days": DAYS,
        "trend": trend,
        "keys": keys["keys"] if keys else [],
        "property": key,
        "values": values,
    }
    return View("analytics/event.html", "Event", facts, project_id)


# Questions: a form over each blueprint, whose answer has a chart, its rows, its receipt and a file of them.

ROWS_SHOWN = 200
PARAMS = "params."
ASKED_ROWS = 1000
COHORTS, LATER = 31, 14
"""Cohorts and later days in the picture of retention."""
DAY = 86_400


class BlueprintAnswer(NamedTuple):
    """The answer to a question, or the reason for none, with the status of HTTP.

    `deploys` are marked on the days of its picture.
    """

    run: Json | None
    error: ShownProblem | None
    status: int
    deploys: Sequence[Json] = ()

    @property
    def kind(self) -> str:
        """How the rows are drawn: by day, as steps, as cohorts, as values, or not at all."""
        if self.run is None or not self.run["rows"]:
            return ""
        names = [column["name"] for column in self.run["columns"]]
        if "returned_on" in names:
            return "cohorts"
        if names[0] == "day":
            return "days"
        return "values" if self.run["columns"][0]["type"] == "string" else "steps" if names[0] == "step" else ""

    @property
    def numbers(self) -> Sequence[str]:
        """The columns with counts, by name."""
        return (
            [one["name"] for one in self.run["columns"] if one["type"] == "integer" and one["name"] != "step"]
            if self.run
            else []
        )

    @property
    def drawn(self) -> Sequence[Json]:
        """The columns that are drawn by day."""
        return [one for one in self.run["columns"] if one["name"] in self.numbers] if self.run else []

    @property
    def days(self) -> Sequence[tuple[Json, Sequence[Json]]]:
        """The rows as days of a chart: what is not known has no column. None where they are drawn in another way."""
        rows = self.run["rows"] if self.run and self.kind == "days" else ()
        found = [(row, deploys_on(row["day"], self.deploys)) for row in rows]
        return [
            ({**{name: row[name] or 0 for name in self.numbers}, "date": row["day"], "deploys": len(on_it)}, on_it)
            for row, on_it in found
        ]

    @property
    def later(self) -> int:
        """How many later days the picture of retention has."""
        return LATER

    @property
    def cohorts(self) -> Sequence[tuple[int, int, Sequence[Json | None]]]:
        """The newest cohorts: their day, their size, and the rows of the days after. None of other rows."""
        found: dict[int, dict[int, Json]] = {}
        sizes: dict[int, int] = {}
        for row in self.run["rows"] if self.run and self.kind == "cohorts" else ():
            sizes[row["day"]] = row["cohort_size"]
            found.setdefault(row["day"], {})[(row["returned_on"] - row["day"]) // DAY] = row
        newest = sorted(found, reverse=True)[:COHORTS]
        return [(day, sizes[day], [found[day].get(after) for after in range(1, LATER + 1)]) for day in newest]


def deploys_on(day: int, deploys: Iterable[Json]) -> list[Json]:
    """Those of some deploys that were on a UTC day, which begins at a moment."""
    return [one for one in deploys if day <= one["recorded_at"] < day + DAY]


async def _marked(visit: Visit, answer: BlueprintAnswer) -> BlueprintAnswer:
    """An answer with the newest deploys, where its rows are drawn by day."""
    if answer.kind != "days":
        return answer
    query = {"limit": DEPLOYS_LISTED}
    found = await visit.try_read("list_deploys", project_id=visit.values["project_id"], query=query)
    return answer._replace(deploys=found["deploys"] if found else ())


@page("projects/{project_id}/analytics/ask", section="analytics")
async def show_question(visit: Visit) -> View:
    """Show the form of a blueprint, and its answer once all that it needs is given."""
    project_id = visit.values["project_id"]
    setup = await visit.read("get_setup", project_id=project_id)
    blueprint = await chosen_blueprint(visit)
    given = {name: value for name, value in visit.query.items() if name.startswith(PARAMS)}
    needs = [one.name for one in blueprint.fields if one.required]
    asks = visit.permitted(setup["project"]["role"])("run_query_blueprint")
    asked = asks and (bool(given) or not needs)
    answer = await _asked(visit, blueprint.one["blueprint_id"], given) if asked else None
    names = await visit.try_read("list_event_names", project_id=project_id, query={"limit": NAMES_LISTED})
    link = urlencode({"blueprint": blueprint.one["blueprint_id"], **given})
    facts = {
        "blueprint": blueprint,
        "answer": answer,
        "names": [one["event"] for one in names["analytics_events"]] if names else [],
        "link": link,
        "shown": ROWS_SHOWN,
        "numeric": any(column["type"] in {"integer", "number"} for column in blueprint.one["columns"]),
    }
    status = answer.status if answer else HTTPStatus.OK
    return View("analytics/ask.html", blueprint.one["title"], facts, project_id, status=status)


@page("download/answer.csv")
async def keep_rows(visit: Visit) -> View | Download:
    """The rows of an answer as a file. Raises NotFound for an unknown project, and ReadRefused."""
    project_id, blueprint_id = visit.query.get("project_id", ""), visit.query.get("blueprint", "")
    if not project_id or not blueprint_id:
        raise NotFound
    given = {name: value for name, value in visit.query.items() if name.startswith(PARAMS)}
    path = {"project_id": project_id, "blueprint_id": blueprint_id}
    body = {**_body(given), "limit": ASKED_ROWS * 10}
    said = await visit.ask("run_query_blueprint", path, body=body, headers={"accept": "text/csv"})
    if not said.ok:
        raise ReadRefused(said)
    return Download(said.raw, f"{re.sub(r'[^A-Za-z0-9_-]', '_', blueprint_id)}.csv")


async def _asked(visit: Visit, blueprint_id: str, given: Mapping[str, str]) -> BlueprintAnswer:
    """The answer to a question as the address has it."""
    try:
        body = _body(given)
    except InvalidPayload as refused:
        found = failure_of(refused)
        return BlueprintAnswer(None, FormProblem(found.status, found._asdict()).shown, found.status)
    return await _marked(visit, await _run(visit, blueprint_id, body.get("params", {})))


def _body(given: Mapping[str, str]) -> Any:
    """The body of a run. Raises InvalidPayload for a number that is none."""
    return body_of({name: [value] for name, value in given.items()}, RunBlueprint)


async def _run(visit: Visit, blueprint_id: str, params: Mapping[str, Any]) -> BlueprintAnswer:
    path = {"project_id": visit.values["project_id"], "blueprint_id": blueprint_id}
    said = await visit.ask("run_query_blueprint", path, body={"params": params, "limit": ASKED_ROWS})
    if said.ok:
        return BlueprintAnswer(said.body, None, said.status)
    if said.status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN}:
        raise ReadRefused(said)
    return BlueprintAnswer(None, FormProblem(said.status, said.error).shown, said.status)


# Deploys: a page of them, and one with what changed with it.

DEPLOYS_LISTED = 50
CASES_OF_RELEASE = 20


@page("projects/{project_id}/deploys", section="deploys")
async def show_deploys(visit: Visit) -> View:
    """Show the deploys of a project, newest first, with the credential that vouches for each."""
    project_id, asked = visit.values["project_id"], visit.query
    query = {"environment": asked.get("environment"), "cursor": asked.get("cursor"), "limit": DEPLOYS_LISTED}
    found = await visit.read("list_deploys", project_id=project_id, query=query)
    facts = {
        "found": found,
        "names": await visit.names(project_id),
        "environments": sorted({one["environment"] for one in found["deploys"]}),
        "base_url": visit.call.services.settings.base_url,
    }
    return View("analytics/deploys.html", "Deploys", facts, project_id, follows=[ALL])


@page("projects/{project_id}/deploys/{deploy_id}", section="deploys")
async def show_deploy(visit: Visit) -> View:
    """Show a deploy: what changed with it, the cases of its release, and the run that waits for it."""
    project_id, deploy_id = visit.values["project_id"], visit.values["deploy_id"]
    deploy = await visit.read("get_deploy", project_id=project_id, deploy_id=deploy_id)
    impact = await _run(visit, "deploy-impact", {"deploy_id": deploy_id})
    cases, run = await together(
        [
            visit.try_read(
                "list_cases",
                project_id=project_id,
                query={"release": deploy["version"], "status": "all", "limit": CASES_OF_RELEASE},
            ),
            _run_of(visit, deploy["automation_run_id"]),
        ]
    )
    facts = {"deploy": deploy, "impact": impact, "cases": cases, "run": run}
    return View("analytics/deploy.html", "Deploy", facts, project_id)


async def _run_of(visit: Visit, run_id: str | None) -> Json | None:
    return await visit.try_read("get_automation_run", run_id=run_id) if run_id else None


PAGES = [show_names, show_event, show_question, keep_rows, show_deploys, show_deploy]
