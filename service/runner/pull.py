"""A pull request, by whichever name its host calls it: opened exactly once, and merged by the host alone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from service.runner.web import BUSY, JsonAnswer, Lost, Pauses

OK, CREATED, FORBIDDEN = 200, 201, 403
_FINAL = (400, 405, 406, 409, 422)
PENDING = ""
"""The conclusion of a check that has not ended."""


class Draft(NamedTuple):
    """The one pull request to open: for people as a draft, or ready for the host's own merge."""

    branch: str
    base: str
    head_sha: str
    title: str
    body: str
    ready: bool = False


class Pull(NamedTuple):
    """An existing pull request. `head_sha` is None while the host works it out.

    `merges_by` is the method by which the host merges it by itself, and None while that is off.
    """

    number: int
    url: str
    head_sha: str | None
    draft: bool
    state: Literal["open", "closed", "merged"]
    merges_by: str | None
    node: str
    told: dict[str, Any]


class HostRefused(Exception):
    """The host refused. `final`: it refused the pull request itself, and would do so again."""

    def __init__(self, said: str, *, final: bool) -> None:
        self.final = final
        super().__init__(said)

    @classmethod
    def by(cls, answer: JsonAnswer) -> HostRefused:
        """A refusal by its answer."""
        said = f"The code host answered with {answer.status}. {_said(answer)}".strip()
        return cls(said, final=answer.status in _FINAL)


def _said(answer: JsonAnswer) -> str:
    """The host's own words, in short."""
    if not isinstance(answer.body, dict):
        return ""
    return in_short(answer.body.get("message") or answer.body.get("error") or "")


def in_short(words: Any) -> str:
    """What a host says, on one line of at most 200 characters."""
    return " ".join(str(words).split())[:200]


def say(text: str) -> None:
    """Print a line. What a terminal would obey is shown as a sign."""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in " ".join(text.splitlines()))
    sys.stdout.write(f"{shown}\n")
    sys.stdout.flush()


def is_limited(answer: JsonAnswer) -> bool:
    """Whether a 403 is a limit of requests. It ends by itself."""
    return answer.status == FORBIDDEN and (
        "retry-after" in answer.headers or answer.headers.get("x-ratelimit-remaining") == "0"
    )


def is_busy(answer: JsonAnswer) -> bool:
    """Whether the host asks for another attempt later."""
    return answer.status in BUSY or is_limited(answer)


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
        if answer.status == CREATED:
            return read(answer.body)
        if is_busy(answer):
            pauses.rest(answer, f"The code host answered with {answer.status}")
        elif answer.status == taken and not refused:
            refused = True  # it may be one that the list did not show yet
            pauses.rest(None, "The code host says that there is a pull request, and shows none")
        else:
            raise HostRefused.by(answer)


def turn_on_once(find: Callable[[], Pull | None], ask: Callable[[Pull], JsonAnswer]) -> Pull:
    """Have the host merge by itself, with a look before every attempt: an answer may be lost after it was turned on.

    `find` raises HostRefused once the pull request is not the one to merge. Raises HostRefused, GaveUp.
    """
    pauses = Pauses()
    taken = False
    while True:
        found = find()
        if found is None:
            raise HostRefused("The pull request is not there any more.", final=True)
        if found.merges_by is not None or found.state == "merged":
            return found
        try:
            answer = ask(found)
        except Lost as lost:
            pauses.rest(None, str(lost))
            continue
        if is_busy(answer):
            pauses.rest(answer, f"The code host answered with {answer.status}")
        elif answer.status == OK and not taken:
            taken = True
        elif answer.status == OK:
            pauses.rest(None, "The code host says that auto-merge is on, and does not show it")
        else:
            raise HostRefused.by(answer)
