"""Every form of the console, sent as no page of ours sends it: by other sites, sessions, roles and tenants (C-3).

The forms are those that the console takes, so a new one has to be judged here. None of these requests changes anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import httpx2
import pytest

from tests.service.console.consoleforms import NAMES_IN_BODY, Sent, every_form, filled
from tests.service.console.test_hostile_requests import is_frameless
from tests.support.fullscene import AUDITOR, GUEST, FullScene
from tests.support.intruding import (
    IN,
    MEMBER,
    OWNER,
    SIGN_IN,
    STRANGER,
    Intruder,
    meaning,
    status_for,
)
from tests.support.tenants.footprint import Footprint, Rows, differences

pytestmark = pytest.mark.shares_server

OF_ONE_PERSON = frozenset({"accept_invitation", "end_session", "revoke_key"})
"""Operations on what belongs to a person and to no project."""
DECIDED = frozenset(
    name
    for row in (
        "alerts api_keys approvals auditors automation_contracts automation_runs case_comments cases claims",
        "ci_bindings credentials deletions grants invitations memberships onboarding people project_settings projects",
        "provider_connections",
        "publications reports sessions signal_maps source_maps subscriptions suppressions case_views webhooks",
    )
    for name in row.split()
)
"""Tables with what people decide. Background work writes to others at any time."""


@pytest.fixture(scope="module")
def forms(full: FullScene, intruder: Intruder) -> list[Sent]:
    """Every form. There are sessions to name in them by now."""
    assert intruder.sessions
    return list(every_form(full))


class Watch:
    """Sees whether requests changed anything: events by the log, and rows of the people and the projects of a scene."""

    def __init__(self, footprint: Footprint, scopes: Sequence[str]) -> None:
        self._footprint, self._scopes = footprint, scopes
        self.events = footprint.by_hand()
        self.rows = self._rows()

    def _rows(self) -> Rows:
        return {name: rows for name, rows in self._footprint.rows(self._scopes).items() if name in DECIDED}

    def events_are_the_same(self) -> bool:
        return self._footprint.by_hand() == self.events

    def changes(self) -> list[str]:
        return differences(self.rows, self._rows())


@pytest.fixture
def watch(full: FullScene) -> Iterator[Watch]:
    assert full.at.server.database_url is not None
    scopes = [full.world.project_id, full.world.other_project_id, *full.world.users.values()]
    with Footprint(full.at.server.database_url) as footprint:
        yield Watch(footprint, scopes)


def test_no_other_site_and_no_other_session_sends_a_form(intruder: Intruder, forms: list[Sent], watch: Watch) -> None:
    """With the owner's cookie, as a browser adds it to whatever another site sends."""
    secret, token, theirs = intruder.sessions[OWNER], intruder.tokens[OWNER], intruder.tokens[STRANGER]
    attacks: list[tuple[str, str, str | None, dict[str, str], int]] = [
        ("without a token", "", secret, {}, 403),
        ("with a stranger's token", theirs, secret, {}, 403),
        ("with the token of another session of the same person", intruder.another, secret, {}, 403),
        ("with a token that was cut", token[:-1], secret, {}, 403),
        ("with a stranger's session", token, intruder.sessions[STRANGER], {}, 403),
        ("of another origin", token, secret, {"origin": "https://evil.example"}, 403),
        ("of no origin", token, secret, {"origin": "null"}, 403),
        ("across sites", token, secret, {"sec-fetch-site": "cross-site"}, 403),
        ("from a subdomain", token, secret, {"sec-fetch-site": "same-site"}, 403),
        ("to another host", token, secret, {"host": "evil.example"}, 403),
        ("as text", token, secret, {"content-type": "text/plain"}, 415),
        ("without a session", token, None, {}, 303),
    ]
    for form in forms:
        for what, shown, session, headers, status in attacks:
            answer = intruder.post(form.place, filled(shown, form.fields), session, **headers)
            where = f"{form.place} {what}: {answer.status_code}"
            assert answer.status_code == status, where
            assert status != 303 or answer.headers["location"] == SIGN_IN, where
            judge(answer, where)
        tried = intruder.get(f"{form.place}?_csrf={token}", secret)
        assert tried.status_code in {200, 404}, form.place
        assert watch.events_are_the_same(), f"{form.place} changed something"
    assert watch.changes() == []


def judge(answer: httpx2.Response, where: str) -> None:
    """What the answer to every form has."""
    assert is_frameless(answer), f"{where}: {dict(answer.headers)}"
    assert answer.headers["cache-control"] == "no-store", where
    assert "set-cookie" not in answer.headers, where


def test_no_form_does_for_a_role_what_its_operation_does_not(
    full: FullScene, intruder: Intruder, forms: list[Sent], watch: Watch
) -> None:
    """Members and auditors are refused, and for outsiders the ids of others are like those that never were."""
    tried = Counter[int]()
    for form in forms:
        for who in (MEMBER, AUDITOR, STRANGER, GUEST):
            status = expected(form, who)
            if status == 200:
                continue
            fields, secret = filled(intruder.tokens[who], form.fields), intruder.sessions[who]
            answer = intruder.post(form.place, fields, secret)
            where = f"{who} at {form.place}: {answer.status_code}"
            each_apart = "several" in form.place and status == 403  # a page with a result for each case
            assert answer.status_code == (200 if each_apart else status), where
            judge(answer, where)
            assert ("0 of 1 case resolved" if each_apart else "was not carried out") in answer.text, where
            tried[status] += 1
            if status == 404:
                none = form._replace(fields=fields).nobodys()
                assert meaning(answer) == meaning(intruder.post(none.place, none.fields, secret)), where
                # The switch of projects has those of the person.
                shown = answer.text if who in {STRANGER, GUEST} else answer.text.partition("<main")[2]
                assert full.world.project_id not in shown, where
        assert watch.events_are_the_same(), f"{form.place} changed something"
    assert watch.changes() == []
    assert tried[403] > 60, "owner's and member's operations"
    assert tried[404] > 100, "operations on something"


def expected(form: Sent, who: str) -> int:
    """The status that the access rule says. 404 for what is somebody else's, where a person names it."""
    if form.rule in NAMES_IN_BODY:
        return 403 if who in IN else 404
    if form.rule in OF_ONE_PERSON:
        return 200 if (form.rule, who) == ("accept_invitation", GUEST) else 404
    return status_for(form.rule, who, own=True) if form.rule else 200
