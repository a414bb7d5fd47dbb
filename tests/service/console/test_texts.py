"""What pages compute from texts of others is bounded before it begins, and hides nothing (P25)."""

from __future__ import annotations

import time
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.console.kit.texts import (
    HERE,
    MOST_CHARACTERS,
    MOST_LINES,
    PROSE,
    Spots,
    TooMuchHere,
    budget,
    differences,
    markdown,
    spend,
)
from service.console.pages.runs import MARKED_LINES, request_of
from tests.support.worst.texts import UNITS, worst

KINDS = range(len(UNITS) + 4)
LINES = st.lists(st.sampled_from(["a", "b", "--- c", "+++ d", "@@ e", ""]), max_size=30)


@pytest.mark.parametrize("kind", KINDS)
def test_no_text_takes_long_as_markdown(kind: int) -> None:
    """A tenth of the time after which the process would be killed, whatever stands in a text of any length."""
    text = worst(kind, 100_000)
    begun = time.thread_time()
    shown = str(markdown(text))
    assert time.thread_time() - begun < 0.5
    assert text[MOST_CHARACTERS:] in unescape(shown)  # What is not rendered is shown as it is.


def test_a_page_renders_so_much_markdown_and_shows_the_rest_as_it_is() -> None:
    texts = [f"**{number}**" + "x" * (MOST_CHARACTERS - 8) for number in range(100)]
    with budget(None):
        shown = [str(markdown(text)) for text in texts]
    rendered = [one for one in shown if "<strong>" in one]
    assert len(rendered) == PROSE * len(texts) // sum(map(len, texts)) + 1  # the last one in part
    assert all(f"**{number}**" in one or f"<strong>{number}</strong>" in one for number, one in enumerate(shown))


def test_a_table_of_few_characters_makes_no_thousand_cells() -> None:
    shown = str(markdown("|a" * 100 + "|\n" + "|-" * 100 + "|\n" + "|\n" * 3000))
    assert shown.count("<td") < 1000
    assert "<table>" in str(markdown("|a|b|\n|-|-|\n|c|d|\n"))


@pytest.mark.parametrize("length", [600, 20_000])
def test_long_texts_are_no_work_of_the_event_loop(length: int) -> None:
    with budget(HERE):
        markdown("[" * 100)
        with pytest.raises(TooMuchHere):
            markdown("[" * length)
    with budget(HERE), pytest.raises(TooMuchHere):
        Spots("[" * HERE * 2)
    with budget(HERE), pytest.raises(TooMuchHere):
        differences("a\n" * (MOST_LINES - 1), "b" * HERE)
    with budget(HERE), pytest.raises(TooMuchHere):
        spend(HERE + 1)


@given(LINES, LINES)
def test_differences_are_those_of_the_texts(old: list[str], new: list[str]) -> None:
    """Taken and added lines are those of the texts, with three around them, and nothing else is told."""
    found = differences("\n".join(old), "\n".join(new))
    before, after = ("\n".join(lines).split("\n") if "\n".join(lines) else [] for lines in (old, new))
    assert found.whole
    assert bool(found.lines) == (before != after)
    assert len(before) - found.removed == len(after) - found.added
    rest = [iter(before), iter(after)]
    for one in found.lines:
        wanted = {"removed": rest[:1], "added": rest[1:], "kept": rest, "apart": []}[one.kind]
        assert all(one.text in lines for lines in wanted)  # `in` goes on from there


def test_only_so_many_lines_are_compared() -> None:
    many = "".join(f"{number}\n" for number in range(10_000))
    changed = many.replace("\n5000\n", "\nother\n")
    found = differences(many, changed)
    assert [one.text for one in found.lines if one.kind != "kept"] == ["5000", "other"]
    assert [one.text for one in found.lines][:3] == ["4997", "4998", "4999"]
    others = "".join(f"-{number}\n" for number in range(MOST_LINES + 1))
    assert differences(many, others).whole is False
    assert differences(many, others).before == many


@pytest.mark.parametrize("lines", [["x"], ["x", "y"], ["", "x", "", "y"]])
def test_no_lines_take_long_to_compare(lines: list[str]) -> None:
    first = (lines * MOST_LINES)[: MOST_LINES - 1]
    begun = time.thread_time()
    for size in (*range(150, 200, 7), len(first)):
        differences("\n".join(["<", *first[:size], ">"]), "\n".join([">", *first[1:size], *first[:1], "<"]))
    assert time.thread_time() - begun < 1


def test_a_long_name_takes_no_memory_for_each_place_in_it() -> None:
    assert Spots('{"a": [' + "1," * 1000 + "1]}").around("a[3]")
    assert Spots('{"' + "n" * 100_000 + '": [' + "1," * 1000 + "1]}").around("") == ()


def test_a_diff_that_is_to_be_approved_is_shown_whole() -> None:
    """Marked lines come first, and nothing is cut off."""
    text = "".join(f"+line {number}\n" for number in range(3 * MARKED_LINES))
    asked = {"approval_id": "a", "run_id": "r", "action": "draft_pr", "summary": "s", "evidence": {"diff": text}}
    [(_, shown)] = request_of({**asked, "status": "pending", "reason": None, "decided_by": None}, None, {}).diffs
    assert "".join(f"{line.text}\n" for line in shown) == text
    assert len(shown) == MARKED_LINES + 1
