"""The provider's REST interface on loopback, after its published document: projects and what they hold.

It is written from the document, not from the adapter, and checks each request and each of its own answers against it.
Tests set what a project holds, and how requests fail.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid5

from service.testing.loopback import Given, Heard, LoopbackServer
from tests.support.provider.document import Asked, answer_faults, faults_of, operation_of

NAMES = UUID(int=7)
AT = "2026-11-20T10:00:00Z"
USER = {"id": 1, "email": "ops@example.com"}

Reply = tuple[int, Any] | tuple[int, Any, dict[str, str]]
Failure = int | Reply | Callable[[Asked], Reply | None]


@dataclass
class FakeProject:
    """A project of the provider: its settings, and what it holds."""

    settings: dict[str, Any]
    recordings: list[dict[str, Any]] = field(default_factory=list)
    feature_flags: list[dict[str, Any]] = field(default_factory=list)
    surveys: list[dict[str, Any]] = field(default_factory=list)
    experiments: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)

    def add_recording(self, person: str = "ann", start: str = AT, seconds: float = 61.5) -> str:
        """Add a recording; returns its id."""
        number = str(uuid5(NAMES, f"recording {len(self.recordings)}"))
        self.recordings.append(
            {
                "id": number,
                "distinct_id": person,
                "start_time": start,
                "end_time": AT,
                "recording_duration": seconds,
                "snapshot_source": "web",
                "viewed": False,
                "viewers": [],
            }
        )
        return number

    def add_flag(self, key: str, *shares: float | None, **members: Any) -> None:
        """Add a flag with one group of conditions for each share."""
        groups = [{"properties": [], "rollout_percentage": share} for share in shares]
        self.feature_flags.append(
            {
                "id": len(self.feature_flags) + 1,
                "key": key,
                "name": f"Flag {key}",
                "active": True,
                "filters": {"groups": groups, "payloads": {}},
                "created_at": AT,
                "created_by": USER,
                "updated_at": None,
                "last_modified_by": USER,
                "experiment_set": [],
                "experiment_set_metadata": [],
                "surveys": {},
                "features": {},
                "can_edit": True,
                "usage_dashboard": 1,
                "user_access_level": "editor",
                "status": "ACTIVE",
                "is_used_in_replay_settings": False,
                **members,
            }
        )

    def add_survey(self, name: str, start: str | None = None, end: str | None = None, **members: Any) -> str:
        """Add a survey; returns its id."""
        number = str(uuid5(NAMES, f"survey {name}"))
        self.surveys.append(
            {
                "id": number,
                "name": name,
                "type": "popover",
                "questions": [{"id": "q1", "type": "open", "question": "How was it?"}],
                "conditions": None,
                "created_at": AT,
                "created_by": USER,
                "start_date": start,
                "end_date": end,
                "feature_flag_keys": [],
                "linked_flag": {},
                "targeting_flag": {},
                "internal_targeting_flag": {},
                "user_access_level": "editor",
                **members,
            }
        )
        return number

    def add_experiment(self, name: str, status: str = "draft", **members: Any) -> None:
        """Add an experiment with two variants."""
        variants = [{"key": "control", "split_percent": 50}, {"key": "test", "name": "Test", "rollout_percentage": 50}]
        self.experiments.append(
            {
                "id": len(self.experiments) + 1,
                "name": name,
                "status": status,
                "feature_flag_key": f"flag-{name}",
                "feature_flag": {},
                "parameters": {"feature_flag_variants": variants},
                "start_date": None,
                "end_date": None,
                "holdout": {},
                "exposure_cohort": None,
                "saved_metrics": [],
                "created_at": AT,
                "created_by": USER,
                "updated_at": AT,
                "user_access_level": "editor",
                **members,
            }
        )

    def stock(self) -> None:
        """Add one of everything."""
        self.add_recording()
        self.add_flag("new-cart", 50)
        survey = self.add_survey("After the purchase", AT)
        properties = {"$survey_id": survey, "$survey_response_q1": "Quick and easy."}
        for number, event in enumerate(("survey shown", "survey sent")):
            one = {"event": event, "distinct_id": "ann", "at": 1_795_168_800 + number, "properties": properties}
            self.events.append({**one, "uuid": str(uuid5(NAMES, event))})
        self.add_experiment("checkout", "running", start_date=AT)


@dataclass
class FakeApi:
    """The interface's state. `fail` holds, by method and a part of the path, what to answer instead of the truth."""

    url: str = ""
    organization: str = "0190-org"
    keys: set[str] = field(default_factory=lambda: {"phx_operators-own-key"})
    projects: dict[int, FakeProject] = field(default_factory=dict)
    fail: dict[tuple[str, str], Failure] = field(default_factory=dict)
    stocked: bool = False  # whether a new project holds one of everything
    ignores_search: bool = False
    page_at_most: int = 100
    requests: list[Asked] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(4001))

    def env(self) -> dict[str, str]:
        """The settings of a service whose operator has an account here."""
        [key] = self.keys
        return {
            "SERVICE_PROVIDER_API_KEY": key,
            "SERVICE_PROVIDER_ORGANIZATION": self.organization,
            "SERVICE_PROVIDER_API_URL": self.url,
        }

    def calls(self, method: str, part: str = "") -> list[Asked]:
        """The requests of a method to paths with a part."""
        return [asked for asked in self.requests if asked.method == method and part in asked.path]

    def named(self, name: str) -> list[int]:
        """The ids of the projects of a name."""
        return [number for number, project in self.projects.items() if project.settings["name"] == name]

    def add_project(self, name: str) -> FakeProject:
        """Create a project, as a person may do in the web interface."""
        number = next(self.numbers)
        project = FakeProject({"id": number, "name": name, "api_token": f"phc_public{number}token"})
        self.projects[number] = project
        if self.stocked:
            project.stock()
        return project

    def answer(self, asked: Asked) -> Reply:
        """Answer one request. One that does not fit the document is noted, and refused."""
        with self.lock:
            self.requests.append(asked)
            if found := faults_of(asked):
                self.faults += [f"{asked.method} {asked.path}: {fault}" for fault in found]
                return 400, {"type": "validation_error", "code": "invalid_input", "detail": found[0], "attr": None}
        reply = self._failure(asked)
        if reply is not None:
            return reply
        if asked.headers.get("authorization", "").removeprefix("Bearer ") not in self.keys:
            return 401, {"type": "authentication_error", "code": "authentication_failed", "detail": "Invalid key"}
        with self.lock:
            status, body = self._truth(asked)
        if status in {200, 201}:
            self.faults += [f"our answer: {fault}" for fault in answer_faults(asked, status, body)]
        return status, body

    def rest(self, _: Any, *request: Any) -> tuple[int, Any] | None:
        """Answer what is read below a project, to whoever may. None: a query for rows, or a project not here."""
        asked = Asked(*request)
        found = re.fullmatch(r"/api/projects/(\d+)/\w+/", asked.path)
        if found is None or int(found[1]) not in self.projects or operation_of(asked.method, asked.path) is None:
            return None
        query = asked.body["query"] if asked.method == "POST" else {}
        if query.get("kind") == "HogQLQuery" and "survey" not in query["values"]:
            return None
        self.requests.append(asked)
        return self._truth(asked)

    def _failure(self, asked: Asked) -> Reply | None:
        for (method, part), failure in list(self.fail.items()):
            if method in {"*", asked.method} and part in asked.path:
                if callable(failure):
                    return failure(asked)
                return (failure, {"detail": "as the test wishes"}) if isinstance(failure, int) else failure
        return None

    def _truth(self, asked: Asked) -> tuple[int, Any]:  # noqa: PLR0911 - one return for each operation
        operation = operation_of(asked.method, asked.path)
        assert operation is not None, "it fits"
        parts = asked.path.strip("/").split("/")
        if parts[1] == "organizations" and parts[2] != self.organization:
            return 404, {"detail": "Not found."}
        match operation["operationId"]:
            case "organizations_projects_list":
                return 200, self._page(asked, list(map(_basic, self._found(asked.query.get("search")))))
            case "organizations_projects_create":
                return 201, _whole(self.add_project(asked.body["name"]).settings)
            case "organizations_projects_retrieve" | "organizations_projects_partial_update":
                project = self.projects.get(int(parts[4]))
                if project is None:
                    return 404, {"detail": "Not found."}
                project.settings |= asked.body or {}
                return 200, _whole(project.settings)
            case "query_create":
                return 200, _queried(self.projects[int(parts[2])], asked.body["query"])
            case _:
                return 200, self._page(asked, getattr(self.projects[int(parts[2])], parts[3]))

    def _found(self, search: str | None) -> list[dict[str, Any]]:
        found = [project.settings for project in self.projects.values()]
        if search is None or self.ignores_search:
            return found
        return [settings for settings in found if search.lower() in settings["name"].lower()]

    def _page(self, asked: Asked, items: list[dict[str, Any]]) -> dict[str, Any]:
        limit = min(int(asked.query.get("limit", 100)), self.page_at_most)
        offset = int(asked.query.get("offset", 0))
        more = offset + limit < len(items)
        address = f"{self.url}{asked.path}?limit={limit}&offset="
        return {
            "count": len(items),
            "next": f"{address}{offset + limit}" if more else None,
            "previous": f"{address}{max(0, offset - limit)}" if offset else None,
            "results": items[offset : offset + limit],
        }


def _basic(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        "uuid": str(uuid5(NAMES, str(settings["id"]))),
        "organization": str(NAMES),
        "completed_snippet_onboarding": False,
        "has_completed_onboarding_for": None,
        "ingested_event": False,
        "is_demo": False,
        "timezone": "UTC",
        "access_control": False,
    } | {name: settings[name] for name in ("id", "name", "api_token")}


def _whole(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        "organization": str(NAMES),
        "uuid": str(uuid5(NAMES, str(settings["id"]))),
        "created_at": AT,
        "updated_at": AT,
        "effective_membership_level": 15,
        "has_group_types": False,
        "group_types": [],
        "live_events_token": None,
        "ingested_event": False,
        "person_on_events_querying_enabled": True,
        "default_modifiers": {},
        "product_intents": [],
        "secret_api_token": "phs_never-shown-by-us",
        "secret_api_token_backup": None,
        "available_setup_task_ids": [],
        "session_recording_opt_in": False,
        "session_recording_sample_rate": None,
        "session_recording_masking_config": None,
    } | settings


def _queried(project: FakeProject, query: dict[str, Any]) -> dict[str, Any]:
    if query["kind"] == "RecordingsQuery":
        return _recordings(project, query)
    values = query.get("values") or {}
    sent = [event for event in project.events if event["properties"].get("$survey_id") == values["survey"]]
    if "count()" in query["query"]:
        rows = []
        for name in values["events"]:
            people = [event["distinct_id"] for event in sent if event["event"] == name]
            rows += [[name, len(people), len(set(people))]] if people else []
        return {"columns": ["event", "count()", "uniq(person_id)"], "results": rows}
    answered = sorted((e for e in sent if e["event"] == "survey sent"), key=lambda e: -e["at"])
    rows = [[e["uuid"], e["distinct_id"], e["at"], json.dumps(e["properties"])] for e in answered]
    return {"columns": ["uuid", "distinct_id", "timestamp", "properties"], "results": rows[:200]}


def _recordings(project: FakeProject, query: dict[str, Any]) -> dict[str, Any]:
    """Those of a query. The default window is that of the document, three days: callers name their own."""
    assert query["date_from"] == "-90d"
    wanted = query.get("distinct_ids")
    found = [one for one in project.recordings if wanted is None or one["distinct_id"] in wanted]
    found.sort(key=lambda one: one["start_time"], reverse=query["order_direction"] == "DESC")
    offset, limit = query.get("offset") or 0, query["limit"]
    return {"has_next": offset + limit < len(found), "results": found[offset : offset + limit]}


@contextmanager
def running_api(*, stocked: bool = False) -> Iterator[FakeApi]:
    """Run the interface on loopback for a block. At its end every request has to have fitted the document."""
    api = FakeApi(stocked=stocked)

    def respond(heard: Heard) -> Given:
        body = json.loads(heard.body) if heard.body else None
        status, value, *more = api.answer(Asked(heard.method, heard.path, heard.parameters, body, heard.headers))
        if isinstance(value, bytes):
            return Given(status, value, {"content-type": "application/json", **dict(*more)})
        return Given.of(status, value, *more)

    server = LoopbackServer(respond)
    api.url = server.url
    try:
        yield api
    finally:
        server.close()
    assert api.faults == []
