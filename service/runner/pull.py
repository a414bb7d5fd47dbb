"""A pull request, by whichever name its host calls it: opened exactly once, and merged by the host alone."""

from __future__ import annotations

import re
import sys
import textwrap
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from service.runner.answers import Json
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


# The text of a pull request. Words of telemetry and of the program for repairs are data in it: no markup, no link, no
# mention, and no word that closes an issue. A squash turns the whole text into a commit message, where nothing is code.

MAX_ERROR, MAX_REASON, MAX_LINES = 300, 600, 20
_COLUMNS, _MOST = 100, 1 << 36
_ACTIVE = re.compile(
    r"""[@#`<>\[\]]                # mentions, issues, code, markup, links
      | [!$%&~](?=[\w"])           # references of GitLab, such as !12
      | (?<=:)(?=//)|(?<=www)\.    # addresses
      | (?<=[a-z])-(?=\d)          # issues by their keys, such as GH-12
    """,
    re.IGNORECASE | re.VERBOSE,
)


class Story(NamedTuple):
    """What a pull request says beside its change: its case and its run, with their pages, and a reason.

    `case` is None where the error is to stay unnamed.
    """

    run: Json
    case: Json | None
    reason: str
    pages: str


def plain_words(text: str, most: int) -> str:
    """Return the words of a text on one line, without signs that a code host obeys, cut to `most` characters."""
    # The full-width twins of signs become the signs, before those are taken out.
    text = unicodedata.normalize("NFKC", text[: 4 * most])
    shown = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(_ACTIVE.sub(" ", shown).split())[:most].strip()


def describe(story: Story, change: Json, *, by_host: bool) -> str:
    """Write the text of a pull request."""
    merged_by = (
        "The code host merges it once its checks have passed, and nobody has to."
        if by_host
        else "A person reviews it, and merges it."
    )
    case_id, run_id = story.run["case_id"], story.run["run_id"]
    pages = f"[case {case_id}]({story.pages}/cases/{case_id}), by [run {run_id}]({story.pages}/runs/{run_id})"
    told = [f"This {'repairs' if by_host else 'draft repairs'} {pages}. {merged_by}"]
    told += [] if story.case is None else _tell_error(story.case)
    reason = [line for line in map(_one_line, story.reason.splitlines()) if line]
    if reason and story.case is not None:
        told += ["The reason for the change, in the words of the program that made it:", _quote(reason)]
    told.append(f"It changes {len(change['files_changed'])} files and {change['changed_lines']} lines. These passed:")
    told.append("\n".join(f"    {test['command']}" for test in change["tests"]))
    return "\n\n".join([*told, f"Automation-Run: {run_id}"]) + "\n"


def _one_line(text: str) -> str:
    return plain_words(text, MAX_REASON)


def _quote(lines: list[str]) -> str:
    """Lines in a block of code: a host shows them as they are."""
    wrapped = [short for line in lines for short in textwrap.wrap(line, _COLUMNS)]
    return "\n".join(f"    {line}" for line in wrapped[:MAX_LINES])


def _tell_error(case: Json) -> list[str]:
    """The error by its title and its counts. A member of another form is left out."""
    title = case.get("title")
    words = plain_words(title, MAX_ERROR) if isinstance(title, str) else ""
    told = ["The error, as telemetry names it:", _quote([words])] if words else []
    times, people = _counted(case, "event_count", "time"), _counted(case, "users_affected", "person", "people")
    first, last = _moment(case, "first_seen_at"), _moment(case, "last_seen_at")
    if times and people and first and last:
        told.append(f"It came {times} and met {people}, first at {first}, last at {last}.")
    return told


def _counted(case: Json, member: str, one: str, many: str = "") -> str | None:
    number = case.get(member)
    if type(number) is not int or not 0 <= number < _MOST:
        return None
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def _moment(case: Json, member: str) -> str | None:
    seconds = case.get(member)
    if type(seconds) is not int or not 0 <= seconds < _MOST:
        return None
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
