"""The service as a job of CI asks it: with a credential for the job's own token, else with the stored one (G-171).

GitHub Actions makes a token whenever the job asks. GitLab gives one with the job, in SERVICE_ID_TOKEN, and a token can
be exchanged once: there a job has 15 minutes.
"""

import os
import time
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from service.runner.answers import Json
from service.runner.pull import say
from service.runner.web import Client, GaveUp, JsonAnswer, Lost

STORED = "SERVICE_CI_API_KEY"
ID_TOKEN = "SERVICE_ID_TOKEN"  # noqa: S105 - the name of a variable
_ASK_AT, _ASK_WITH = "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"
AGE = 600.0
"""Seconds after which a credential is exchanged anew, where that is possible. It lives 900."""
OK = 200


class JobSecrets(NamedTuple):
    """What CI has put into the environment of the job. Programs that it starts later do not find it there."""

    stored: str | None
    id_token: str | None
    ask_at: str | None
    ask_with: str | None

    @property
    def any(self) -> bool:
        """Whether there is anything to present."""
        return bool(self.stored or self.id_token or (self.ask_at and self.ask_with))


def take_credentials() -> JobSecrets:
    """Take the credentials out of the environment."""
    return JobSecrets(*(os.environ.pop(name, None) or None for name in (STORED, ID_TOKEN, _ASK_AT, _ASK_WITH)))


class CiService:
    """The service for one job. `project_id` is needed for an exchange alone."""

    def __init__(self, url: str, project_id: str | None, taken: JobSecrets) -> None:
        self._url, self._project_id, self._taken = url, project_id, taken
        self._anyone = Client(url, {})
        self._client: Client | None = None
        self._until = 0.0

    def ask(self, method: str, path: str, body: Json) -> JsonAnswer:
        """Send a request with the credential of the job. Raises GaveUp."""
        if self._client is None or time.monotonic() > self._until:
            self._client = self._renewed() or self._client
        if self._client is None:
            raise GaveUp(f"The service took no token of this job, and {STORED} is not set.")
        return self._client.ask(method, path, body)

    def _renewed(self) -> Client | None:
        """A client with a new credential, else with the stored one. None without both."""
        token = self._token()
        if token is not None and self._project_id:
            answer = self._anyone.ask("POST", "/v1/auth/ci/exchange", {"project_id": self._project_id, "token": token})
            if answer.status == OK:
                self._until = time.monotonic() + AGE
                return Client(self._url, {"authorization": f"Bearer {answer.body['credential']}"})
            say(f"The token of this job was not exchanged ({answer.status}).")
        self._until = float("inf") if token is None else time.monotonic() + AGE
        stored = self._taken.stored
        return None if stored is None else Client(self._url, {"authorization": f"Bearer {stored}"})

    def _token(self) -> str | None:
        """A token of this job for the service. None where CI makes none, or none any more."""
        taken = self._taken
        if taken.id_token is not None:
            self._taken = taken._replace(id_token=None)
            return taken.id_token
        if not taken.ask_at or not taken.ask_with:
            return None
        parts = urlsplit(taken.ask_at)
        github = Client(f"{parts.scheme}://{parts.netloc}", {"authorization": f"Bearer {taken.ask_with}"})
        asked = "&".join(filter(None, (parts.query, urlencode({"audience": self._url.rstrip("/")}))))
        try:
            answer = github.send("GET", f"{parts.path}?{asked}")
        except Lost as lost:
            say(f"CI gave no token: {lost}")
            return None
        value = answer.body.get("value") if isinstance(answer.body, dict) else None
        return value if isinstance(value, str) else None
