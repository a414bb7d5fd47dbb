"""A pull request, by whichever name its host calls it, and how one is opened exactly once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from service.runner.web import BUSY, JsonAnswer, Lost, Pauses

FORBIDDEN = 403
_FINAL = (400, 409, 422)


class Draft(NamedTuple):
    """The one pull request to open."""

    branch: str
    base: str
    head_sha: str
    title: str
    body: str


class Pull(NamedTuple):
    """An existing pull request. `head_sha` is None while the host works it out."""

    number: int
    url: str
    head_sha: str | None


class HostRefused(Exception):
    """The host refused. `final`: it refused the pull request itself, and would do so again."""

    def __init__(self, answer: JsonAnswer) -> None:
        self.final = answer.status in _FINAL
        super().__init__(f"The code host answered with {answer.status}. {_said(answer)}".strip())


def _said(answer: JsonAnswer) -> str:
    """The host's own words, in short."""
    if not isinstance(answer.body, dict):
        return ""
    said = answer.body.get("message") or answer.body.get("error") or ""
    return " ".join(str(said).split())[:200]


def is_limited(answer: JsonAnswer) -> bool:
    """Whether a 403 is a limit of requests. It ends by itself."""
    return answer.status == FORBIDDEN and (
        "retry-after" in answer.headers or answer.headers.get("x-ratelimit-remaining") == "0"
    )


def open_once(
    find: Callable[[], Pull | None], post: Callable[[], JsonAnswer], taken: int, read: Callable[[dict[str, Any]], Pull]
) -> Pull:
    """Open a pull request, with a look before every attempt: an answer may be lost after it was opened.

    `taken` is the host's status for a second one of the same branch. Raises HostRefused, GaveUp.
    """
    pauses = Pauses()
    refused = False
    while True:
        found = find()
        if found is not None:
            return found
        try:
            answer = post()
        except Lost as lost:
            pauses.rest(None, str(lost))
            continue
        if answer.status == 201:  # noqa: PLR2004
            return read(answer.body)
        if answer.status in BUSY or is_limited(answer):
            pauses.rest(answer, f"The code host answered with {answer.status}")
        elif answer.status == taken and not refused:
            refused = True  # it may be one that the list did not show yet
            pauses.rest(None, "The code host says that there is a pull request, and shows none")
        else:
            raise HostRefused(answer)
