"""Requests to the console as somebody else makes them: other people, other tenants, other sites, no session at all."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any
from urllib.parse import urlencode

import httpx2

from scripts.permissions import PERSON, callers
from service.http.declare.endpoint import Operation
from service.http.edge.routes import all_endpoints
from tests.support.console import COOKIE
from tests.support.fullscene import AUDITOR, GUEST, STATES, FullScene

FORM = "application/x-www-form-urlencoded"
OWNER, MEMBER, STRANGER = "owner", "member", "stranger"
PEOPLE = (OWNER, MEMBER, AUDITOR, GUEST, STRANGER)
IN = frozenset({OWNER, MEMBER, AUDITOR})
"""Those who belong to the project of a scene."""
SIGN_IN = "/console/enter"
ID = re.compile(r"\b[a-z]{2,6}_[0-9a-z]{26}\b")
TOKEN = re.compile(r'name="_csrf" value="([^"]+)"')
NOW = re.compile(r' data-now="\d+"')


@cache
def operations() -> Mapping[str, Operation]:
    """All operations by their id."""
    return {one.operation.operation_id: one.operation for one in all_endpoints()}


def status_for(operation_id: str, who: str, *, own: bool) -> int:
    """What the access rule of an operation says to a person: 200, 403 or 404.

    `own`: it is about the project that owner, member and auditor belong to, else about one of the owner alone.
    """
    may = callers(operations()[operation_id])
    if PERSON in may or "anonymous" in may:
        return 200
    if who not in IN or (not own and who != OWNER):
        return 404
    return 200 if who in may else 403


def never_issued(text: str) -> str:
    """A text with other ids in it, of the same form."""

    def other(found: re.Match[str]) -> str:
        kind, _, rest = found[0].partition("_")
        return f"{kind}_{''.join(random.sample(rest, len(rest)))}"

    return ID.sub(other, text)


def meaning(answer: httpx2.Response) -> tuple[Any, ...]:
    """An answer without the ids and the tokens in it. Headers by their names, with those values that say something."""
    text = NOW.sub("", TOKEN.sub("", ID.sub("<id>", answer.text)))
    told = {name: answer.headers[name] for name in answer.headers if name not in {"date", "content-length"}}
    told["x-service-request-id"] = ""
    return answer.status_code, text, {name: ID.sub("<id>", value) for name, value in told.items()}


class Intruder:
    """The browsers of all people of a scene, over one connection."""

    def __init__(self, full: FullScene, client: httpx2.Client) -> None:
        self.full = full
        self.client = client
        self.origin = str(client.base_url).rstrip("/")
        self.sessions = {who: full.session(who) for who in PEOPLE}
        self.tokens = {who: self.token(secret) for who, secret in self.sessions.items()}
        self.another = self.token(full.session(OWNER))
        others = ("report_project_id", "report_run_id", *(f"{state}_id" for state in STATES))
        self._others = frozenset(full.ids[name] for name in others)

    def token(self, secret: str) -> str:
        """The token in the forms of a session."""
        found = TOKEN.search(self.get("again", secret).text)
        assert found
        return found[1]

    def is_own(self, text: str) -> bool:
        """Whether a place is about the project that owner, member and auditor belong to."""
        return not any(one in text for one in self._others)

    def get(self, place: str, secret: str | None, **headers: str) -> httpx2.Response:
        """Open a place with a session, or without any."""
        cookie = {} if secret is None else {"cookie": f"{COOKIE}={secret}"}
        return self.client.get(f"/console/{place}", headers={**cookie, **headers})

    def post(
        self, place: str, fields: Iterable[tuple[str, str]], secret: str | None, **headers: str
    ) -> httpx2.Response:
        """Send a form with a session, or without any, as from a page of the console unless `headers` say otherwise."""
        cookie = {} if secret is None else {"cookie": f"{COOKIE}={secret}"}
        sent = {"origin": self.origin, "content-type": FORM, **cookie, **headers}
        return self.client.post(f"/console/{place}", content=urlencode(list(fields)), headers=sent)

    def asked(self, answers: Iterable[httpx2.Response]) -> dict[str, list[tuple[str, int]]]:
        """The operations that each request asked for with their statuses, as the log of the server tells, by its id."""
        wanted = {answer.headers["x-service-request-id"] for answer in answers}
        names = {(one.method, one.path): name for name, one in operations().items()}
        found: dict[str, list[tuple[str, int]]] = {one: [] for one in wanted}
        for line in self.full.at.server.log().splitlines():
            told = json.loads(line) if line.startswith('{"event":"request"') else {}
            if told.get("request_id") in wanted and (told["method"], told["route"]) in names:
                found[told["request_id"]].append((names[told["method"], told["route"]], told["status"]))
        return found
