"""Any fields sent to any form of the console: never a fault, and without the token of a session never a change."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

import httpx2
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.service.console.consoleforms import Pairs, Sent, every_form
from tests.service.console.test_every_form import Watch, judge
from tests.service.console.test_every_form import watch as watch  # noqa: PLC0414 (a fixture is found by name)
from tests.support.fullscene import FullScene
from tests.support.intruding import OWNER, Intruder, operations

pytestmark = [pytest.mark.shares_server, pytest.mark.timeout(300)]

SETS = 3
"""Of fields for each form."""
OWN = ("_back", "_next", "_key", "_if_match", "_state", "_days", "_path.x", "_")
KINDS = ("", ":json", ":lines", "[]", ".a", ".a.b", ":", ".")
ODD = (
    "",
    " ",
    "true",
    "null",
    "0",
    "-1",
    "1e999",
    "[]",
    "{}",
    '{"a": [1]}',
    '["',
    '"x"',
    "%",
    "\x00",
    "\ud7ff",
    "../x",
)
NO_TOKENS = ("", "x", "\x00", "é")
ENDS = frozenset({"leave", "settings/delete-account", "do/delete_account", "do/delete_project", "do/end_session"})
"""Forms that end what the others are about."""
NOT_SET_UP = re.compile(r"/usage/(checkout|portal)$|do/\w+_(billing_checkout|billing_portal|provider)$")
"""Forms about payment or analytics elsewhere, which this service is not set up for. It says so with 503."""
T = TypeVar("T")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@pytest.fixture(scope="module")
def forms(full: FullScene, intruder: Intruder) -> list[Sent]:
    assert intruder.sessions
    return list(every_form(full))


def test_without_its_token_no_form_changes_anything(intruder: Intruder, forms: list[Sent], watch: Watch) -> None:
    secret = intruder.sessions[OWNER]

    def send(form: Sent, fields: Pairs, token: str | None) -> None:
        answer = intruder.post(form.place, fields if token is None else [("_csrf", token), *fields], secret)
        assert answer.status_code in {400, 403, 404}, f"{form.place}: {answer.status_code}"
        judge(answer, form.place)

    for form in forms:
        tokens = st.none() | st.sampled_from(NO_TOKENS) | TEXT.filter(lambda token: token != intruder.tokens[OWNER])
        repeatedly(form, tokens, send)
        assert watch.events_are_the_same(), f"{form.place} changed something"
    assert watch.changes() == []


def test_no_fields_make_a_form_fail(intruder: Intruder, forms: list[Sent]) -> None:
    """Some do what their fields say, so this test comes last and leaves out the forms that end what others need."""
    secret, token = intruder.sessions[OWNER], intruder.tokens[OWNER]
    answers: list[httpx2.Response] = []

    def send(form: Sent, fields: Pairs, _: None) -> None:
        answers.append(intruder.post(form.place, [("_csrf", token), *fields], secret))
        most = 503 if NOT_SET_UP.search(form.place) else 499
        assert answers[-1].status_code <= most, f"{form.place}: {answers[-1].text}"

    for form in forms:
        if form.place not in ENDS and not form.place.endswith("/delete"):
            repeatedly(form, st.none(), send)
    assert {answer.status_code for answer in answers} >= {200, 303, 400, 404}, "some are done, others are refused"


def repeatedly(form: Sent, tokens: st.SearchStrategy[T], send: Callable[[Sent, Pairs, T], None]) -> None:
    """Send a form with several sets of fields."""

    @settings(max_examples=SETS, database=None)
    @given(fields_of(form), tokens)
    def sent(fields: Pairs, token: T) -> None:
        send(form, fields, token)

    sent()


def fields_of(form: Sent) -> st.SearchStrategy[list[tuple[str, str]]]:
    """Fields of names that the form knows, of its own and of any, with right, odd and any values."""
    known = [*(name for name, _ in form.fields), *members_of(form.rule), *OWN, "x"]
    names = st.tuples(st.sampled_from(known) | TEXT, st.sampled_from(KINDS)).map("".join)
    values = st.sampled_from([*(value for _, value in form.fields), *ODD]) | TEXT
    others = st.lists(st.tuples(names.filter(lambda name: name != "_csrf"), values), max_size=8)
    last = ("_back", "again")  # Of two, the first is taken: this one costs less than the first page.
    return st.tuples(st.booleans(), others).map(lambda drawn: [*(form.fields if drawn[0] else ()), *drawn[1], last])


def members_of(operation_id: str) -> Sequence[str]:
    """The members of the body of an operation."""
    body = operations()[operation_id].body if operation_id else None
    if isinstance(body, type) and issubclass(body, msgspec.Struct):
        return [one.encode_name for one in msgspec.structs.fields(body)]
    return ()
