"""`GET /v1/errors` lists the texts that clients get: the one of a code, and for the codes of runs every one of them."""

from __future__ import annotations

from collections import defaultdict

from schemas.kernel.errors import CATALOGUE, RUN_ERRORS
from scripts import refusals


def sent() -> list[refusals.Sent]:
    return [one for one in refusals.sent() if one.code in CATALOGUE]


def test_a_fixed_text_is_that_of_the_catalogue() -> None:
    messages: dict[str, set[str | None]] = defaultdict(set)
    for one in sent():
        messages[one.code].add(one.message)
    fixed = {code: found.pop() for code, found in messages.items() if len(found) == 1}
    fixed = {code: message for code, message in fixed.items() if message is not None}
    assert len(fixed) > 30
    assert {code: CATALOGUE[code].message for code in fixed} == fixed


def test_the_codes_of_runs_list_every_text_that_is_sent_and_no_other() -> None:
    """Message and next action as they go together; where no next action is given, the catalogue's own follows."""
    expected: dict[str, set[tuple[str | None, str]]] = defaultdict(set)
    known = refusals.of_runs()
    for one in sent():
        if one.code in known:
            expected[one.code].add((one.message, one.next_action or CATALOGUE[one.code].next_action))
    assert len(expected) > 30
    listed = {code: {(text.message, text.next_action) for text in CATALOGUE[code].texts} for code in expected}
    assert listed == expected


def test_the_file_is_as_it_is_generated() -> None:
    """Each in its order: `make generated` writes them."""
    listed = {code: [(text.message, text.next_action) for text in error.texts] for code, error in RUN_ERRORS.items()}
    assert listed == refusals.texts()


def test_the_first_text_is_the_one_shown_and_none_is_listed_twice() -> None:
    for code, known in CATALOGUE.items():
        assert (known.texts[0].message, known.texts[0].next_action) == (known.message, known.next_action), code
        assert len(set(known.texts)) == len(known.texts), code
