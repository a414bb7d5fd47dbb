"""Every page of the console for everybody: the access rule of its operation decides, and others' ids are none (C-3).

The pages are those that the console declares, so a new one has to be judged here.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from service.console import site
from service.console.pages.projects import KEPT
from tests.service.console.test_hostile_requests import is_frameless
from tests.support.console import COOKIE
from tests.support.fullscene import GUEST, NO_PAGES, FullScene, Place
from tests.support.intruding import ID, PEOPLE, SIGN_IN, STRANGER, Intruder, meaning, never_issued, status_for

pytestmark = pytest.mark.shares_server

ANYBODY, NOBODY = "", "nobody"
RULES = {
    "": "list_projects",
    "again": ANYBODY,
    "cases/{case_id}": "read_case",
    "cases/{case_id}/errors": "list_case_events",
    "cases/{case_id}/errors/{event_id}": "get_case_event",
    "cases/{case_id}/errors/{event_id}/json": "get_case_event",
    "cases/{case_id}/people": "read_case",
    "device": ANYBODY,
    "how-to-verify": ANYBODY,
    "invitations/{invitation_id}": "get_invitation",
    "operator": NOBODY,
    "projects/{project_id}": "get_project_health",
    "projects/{project_id}/alerts": "list_alerts",
    "projects/{project_id}/analytics": "list_event_names",
    "projects/{project_id}/analytics/ask": "get_setup",
    "projects/{project_id}/analytics/event": "run_query_blueprint",
    "projects/{project_id}/approvals": "list_automation_approvals",
    "projects/{project_id}/arrived": "get_project_health",
    "projects/{project_id}/automation": "get_automation_contract",
    "projects/{project_id}/automation/edit": "get_automation_contract",
    "projects/{project_id}/automation/playbooks/{id}": "get_setup",
    "projects/{project_id}/cases": "list_cases",
    "projects/{project_id}/credentials": "list_credentials",
    "projects/{project_id}/ci-bindings": "list_ci_bindings",
    "projects/{project_id}/delete": "get_setup",
    "projects/{project_id}/deploys": "list_deploys",
    "projects/{project_id}/deploys/{deploy_id}": "run_query_blueprint",
    "projects/{project_id}/feedback": "list_feedback_reports",
    "projects/{project_id}/log": "list_events",
    "projects/{project_id}/logs": "list_logs",
    "projects/{project_id}/members": "list_members",
    "projects/{project_id}/notifications": "list_notifications",
    "projects/{project_id}/notifications/{id}": "list_notification_deliveries",
    "projects/{project_id}/onboarding": "get_setup",
    "projects/{project_id}/people": "list_users",
    "projects/{project_id}/people/person": "get_user_summary",
    "projects/{project_id}/public-queries": "list_public_queries",
    "projects/{project_id}/receipts": "list_automation_trigger_receipts",
    "projects/{project_id}/reports": "list_automation_runs",
    "projects/{project_id}/runs": "list_automation_runs",
    "projects/{project_id}/search": "get_setup",
    "projects/{project_id}/settings": "get_project_settings",
    "projects/{project_id}/source-maps": "list_source_maps",
    "projects/{project_id}/suppressions": "list_suppressions",
    "projects/{project_id}/usage": "get_project_health",
    "projects/{project_id}/views": "list_case_views",
    "projects/{project_id}/views/{view_id}": "get_case_view",
    "projects/{project_id}/webhooks": "list_webhooks",
    "projects/{project_id}/webhooks/{id}": "get_webhook",
    "runs/{run_id}": "get_automation_run",
    "runs/{run_id}/report": "get_automation_run",
    "sessions": "list_sessions",
    "settings": "list_keys",
    "streams": "list_stream_events",
    "streams/{stream_id}": "list_stream_events",
}
"""The operation whose access rule a page has; ANYBODY for a page of everybody who has signed in, NOBODY for
that of the operator, who is none of these people."""
MORE = ["projects/{project_id}/onboarding", "projects/{project_id}/reports"]
"""Places of the scene's own project that pages are tried at besides."""


def places(full: FullScene) -> Iterator[tuple[Place, str]]:
    """Every place, with the operation whose rule it has."""
    ids = full.ids
    assert RULES.keys() == {one.address for one in site._pages()} - NO_PAGES, "a page without a rule in this list"
    for place in full.places():
        yield place, RULES[place.address]
    for address in MORE:
        yield Place(address, address.format(**ids)), RULES[address]
    for name, kept in KEPT.items():
        query = "&".join([*(f"{one}={ids[one]}" for one in kept.path), *(f"{one}=1" for one in kept.query)])
        yield Place("download/{operation_id}", f"download/{name}?{query}"), name
    rows = f"download/answer.csv?blueprint=top-events&project_id={ids['project_id']}"
    yield Place("download/answer.csv", rows), "run_query_blueprint"


def expected(rule: str, who: str, *, own: bool) -> int:
    if rule == "get_invitation":
        return 200 if who == GUEST else 404
    if rule == NOBODY:
        return 404
    return status_for(rule, who, own=own) if rule else 200


def judge(answer: httpx2.Response, where: str) -> None:
    """What every answer of a page has, whoever asks."""
    assert is_frameless(answer), f"{where}: {dict(answer.headers)}"
    assert answer.headers["cache-control"] == "no-store", where
    assert "set-cookie" not in answer.headers, where


def test_a_page_answers_as_the_rule_of_its_operation_says(full: FullScene, intruder: Intruder) -> None:
    """For each role and for outsiders; and each page asks for the operation whose rule it is said to have."""
    seen = []
    for place, rule in places(full):
        own = intruder.is_own(place.place)
        for who in PEOPLE:
            answer = intruder.get(place.place, intruder.sessions[who])
            where = f"{who} at {place.place}"
            assert answer.status_code == expected(rule, who, own=own), f"{where}: {answer.status_code}"
            judge(answer, where)
            seen.append((answer, place.place, rule, who))
    asked = intruder.asked(answer for answer, *_ in seen)
    for answer, place, rule, who in seen:
        named = asked[answer.headers["x-service-request-id"]]
        reason = rule in dict(named) if answer.status_code == 200 else answer.status_code in dict(named).values()
        assert reason or rule in {ANYBODY, NOBODY}, f"{who} at {place} asked for {named}"
        for name, status in named if ID.search(place) else ():
            # A read may find nothing where the rule lets a person in, and never the other way round.
            refused = expected(name, who, own=intruder.is_own(place))
            assert refused in {200, status}, f"{who} at {place} was answered {status} by {name}"


def test_without_a_session_every_page_leads_to_the_sign_in(full: FullScene, intruder: Intruder) -> None:
    """Whatever else is presented, as a cookie or as a bearer: no other secret opens a page."""
    server, secrets = full.at.server, full.world.secrets
    shown = [secrets["owner"], secrets["ci"], secrets["heal"], secrets["dsn"], server.internal_token, server.test_token]
    presented: list[dict[str, str]] = [{}, {"authorization": f"Bearer {intruder.sessions['owner']}"}]
    presented += [{"authorization": f"Bearer {secret}"} for secret in shown]
    presented += [{"cookie": f"{COOKIE}={secret}"} for secret in shown]
    presented.append({"cookie": f"{COOKIE}={intruder.sessions['owner'].swapcase()}"})
    presented.append({"cookie": f"__Host-{COOKIE}={intruder.sessions['owner']}"})
    for place, _ in places(full):
        bare = intruder.get(place.place, None)
        for headers in presented:
            answer = intruder.get(place.place, None, **headers)
            assert answer.status_code == 303, f"{place.place} with {headers}"
            assert answer.headers["location"].partition("?")[0] == SIGN_IN
            assert meaning(answer) == meaning(bare)
            judge(answer, place.place)


def test_the_ids_of_others_are_none(full: FullScene, intruder: Intruder) -> None:
    """A stranger asks for each place, and for the same with ids that never were: one answer, and no id in it."""
    for place, rule in places(full):
        if ID.search(place.place) is None:
            continue
        for who in (STRANGER, GUEST):
            if expected(rule, who, own=True) == 200:
                continue
            secret = intruder.sessions[who]
            theirs, none = (intruder.get(one, secret) for one in (place.place, never_issued(place.place)))
            assert theirs.status_code == 404, place.place
            assert meaning(theirs) == meaning(none), place.place
            assert full.world.project_id not in theirs.text, place.place
