"""The text of a pull request: the error, its counts, a reason and two links, and nothing else that is active."""

from __future__ import annotations

import re
from typing import Any

import pytest
from markdown_it import MarkdownIt

from service.runner.pull import MAX_ERROR, MAX_LINES, Story, describe, plain_words
from service.runner.service_calls import Service
from tests.service.runner.conftest import Open
from tests.support import long_after
from tests.support.naughty.words import everything
from tests.support.runner.workplace import REPAIR

RUN = {"run_id": "run_1", "case_id": "case_1"}
CASE = {
    "title": "ZeroDivisionError: division by zero",
    "event_count": 1234,
    "users_affected": 1,
    "first_seen_at": 1_780_000_000,
    "last_seen_at": 1_780_003_600,
}
CHANGE: dict[str, Any] = {
    "files_changed": ["src/cart.py", "tests/test_cart.py"],
    "changed_lines": 3,
    "tests": [{"command": "make test", "passed": True}],
}
PAGES = "https://service.example/console"
LINKS = [f"{PAGES}/cases/case_1", f"{PAGES}/runs/run_1"]
KINDS = ["github", "gitlab"]


def text_of(reason: str = "", **changes: Any) -> str:
    return describe(Story(RUN, CASE | changes, reason, PAGES), CHANGE, by_host=False)


def assert_passive(text: str) -> None:
    """Two links and nothing else that a host obeys: as Markdown, and as the message of a squashed commit."""
    tokens = [token for block in MarkdownIt().parse(text) for token in (block, *(block.children or []))]
    kinds = {token.type for token in tokens}
    assert kinds <= {"paragraph_open", "inline", "text", "softbreak", "link_open", "link_close", "paragraph_close",
                     "code_block"}  # fmt: skip
    assert [token.attrs["href"] for token in tokens if token.type == "link_open"] == LINKS
    for link in LINKS:
        text = text.replace(f"]({link})", "").replace("[case case_1", "").replace("[run run_1", "")
    assert re.search(r"[@#`<>\[\]]|://|www\.|[!$%&~]\w|[a-z]-\d", text, re.IGNORECASE) is None, text
    assert all(char.isprintable() or char == "\n" for char in text)


def test_it_names_the_error_its_counts_the_reason_and_two_pages() -> None:
    """All that a reviewer asks first, on one page."""
    assert (
        text_of("An empty cart has no items.\nIts price is now zero.")
        == """\
This draft repairs [case case_1](https://service.example/console/cases/case_1), by \
[run run_1](https://service.example/console/runs/run_1). A person reviews it, and merges it.

The error, as telemetry names it:

    ZeroDivisionError: division by zero

It came 1,234 times and met 1 person, first at 2026-05-28 20:26 UTC, last at 2026-05-28 21:26 UTC.

The reason for the change, in the words of the program that made it:

    An empty cart has no items.
    Its price is now zero.

It changes 2 files and 3 lines. These passed:

    make test

Automation-Run: run_1
"""
    )


def test_an_unnamed_error_has_its_ids_alone() -> None:
    """A repository may have other readers than the service."""
    text = describe(Story(RUN, None, "It was empty.", PAGES), CHANGE, by_host=True)
    assert "telemetry" not in text
    assert "It was empty." not in text
    assert_passive(text)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("@octo/team please", "octo/team please"),
        ("Closes #12, fixes GH-12, resolves shop!3", "Closes 12, fixes GH 12, resolves shop 3"),
        ("Closes https://code.example/acme/shop/issues/4", "Closes https: //code.example/acme/shop/issues/4"),
        ("see www.evil.example", "see www evil.example"),
        ("[x](javascript:alert(1)) ![](y) <img src=x>", "x (javascript:alert(1)) ! (y) img src=x"),
        ("\uff20octo \uff03" + "12 \ufe6bteam", "octo 12 team"),
        ("a\n/merge\n\tb\u202e\u2028c\x00d", "a /merge b c d"),
        ("```\n~~~\n    @octo", "~~~ octo"),
        ("Заказ не оплачен: 100 %", "Заказ не оплачен: 100 %"),
    ],
)
def test_words_stay_words(written: str, shown: str) -> None:
    """What a host obeys is taken out, in any script; the rest can be read."""
    assert plain_words(written, 200) == shown


def test_no_text_of_telemetry_or_of_a_program_is_active() -> None:
    """Markup, mentions, references, links and words that close issues, in the title and in the reason."""
    for text in everything():
        assert_passive(text_of(f"{text}\n\n{text}\n- {text}", title=text))
        assert_passive(text_of(text * 3, title=text * 3))


def test_the_text_is_bounded() -> None:
    """Neither a title nor a reason without end makes a long pull request."""
    text = text_of("word " * 100_000 + "\nline" * 10_000, title="\ufdfa" * 100_000)
    assert len(text) < MAX_ERROR + MAX_LINES * 110 + 1500


@pytest.mark.parametrize("wrong", [None, "7", -1, True, 1 << 60, 1.5])
@pytest.mark.parametrize("member", ["event_count", "users_affected", "first_seen_at", "last_seen_at", "title"])
def test_a_member_of_another_form_is_left_out(member: str, wrong: Any) -> None:
    """An answer without a count is no reason to open nothing."""
    text = text_of(**{member: wrong})
    assert ("It came" in text) is (member == "title")
    assert_passive(text)


def test_links_carry_no_password() -> None:
    """People read them."""
    service = Service("https://me:secret@service.example:8443/under/?x=1", "credential", "proj_1")
    assert service.pages == "https://service.example:8443/under/console"


@pytest.mark.shares_server
@pytest.mark.parametrize("kind", long_after(1, KINDS))
def test_the_pull_request_of_a_runner_tells_the_error_and_its_reason(opened: Open, kind: str) -> None:
    """By the runner, from the case as it counts when the pull request is opened, after a crash as well."""
    place = opened(kind)
    place.repairs(f"{REPAIR}\nprintf 'An empty cart, says @octo,\\nhas no price.\\n' > \"$SERVICE_REASON_FILE\"")
    place.faults.mode, place.faults.only = "kill", ("/authorize",)
    assert place.start() != 0
    place.faults.mode = "none"
    place.scene.error(1)
    assert place.start() == 0, place.output
    run, [pull] = place.run(), place.host.pulls
    assert "    Payment declined for order 17\n" in str(pull.body)
    assert "It came 3 times and met 0 people, first at 20" in str(pull.body)
    assert "    An empty cart, says octo,\n    has no price.\n" in str(pull.body)
    for page in (f"cases/{run['case_id']}", f"runs/{run['run_id']}"):
        assert f"({place.service_url}/console/{page})" in str(pull.body)


@pytest.mark.shares_server
def test_the_pull_request_of_a_runner_may_leave_the_error_unnamed(opened: Open) -> None:
    """With `--description ids` no word of telemetry or of the program is in it."""
    place = opened()
    place.repairs(f'{REPAIR}\necho "Payment of 17" > "$SERVICE_REASON_FILE"')
    assert place.start("--description", "ids") == 0, place.output
    [pull] = place.host.pulls
    assert "Payment" not in str(pull.body)
