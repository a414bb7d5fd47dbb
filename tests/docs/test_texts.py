"""What docs/ refers to is there: links lead somewhere, notes are listed, terms stand in order."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from service.discovery import pages

DOCS = Path(__file__).parents[2] / "docs"
DECISIONS = DOCS / "decisions"
LINK = re.compile(r"\[[^\]]+\]\(([^)#]+)(?:#[^)]*)?\)")
TERM = re.compile(r"^- \*\*(.+?)\*\*: ", re.MULTILINE)


@pytest.mark.parametrize("text", sorted(DOCS.rglob("*.md")), ids=lambda path: str(path.relative_to(DOCS)))
def test_every_link_leads_somewhere(text: Path) -> None:
    """Relative links name files that are there."""
    targets = LINK.findall(text.read_text())
    assert [target for target in targets if not (text.parent / target).exists()] == []


def test_every_page_has_its_line_in_the_lists() -> None:
    """A line of `service/discovery/texts/pages/lines.txt`, by the place of the page."""
    places = {page.address.removeprefix("/docs/") for page in pages.load() if "/machines/" not in page.address}
    assert {place for place in pages._lines() if not place.startswith("guides/")} == places


def test_every_decision_is_listed_once_by_its_title() -> None:
    """The list names each note, and calls it as the note calls itself."""
    listed = re.findall(r"^- \[(.+)\]\((.+)\)$", (DECISIONS / "README.md").read_text(), re.MULTILINE)
    notes = {path.name: path.read_text().splitlines()[0] for path in DECISIONS.glob("2*.md")}
    assert sorted(name for _, name in listed) == sorted(notes)
    assert [(title, notes[name]) for title, name in listed if notes[name] != f"# {title}"] == []


@pytest.mark.parametrize("note", sorted(DECISIONS.glob("2*.md")), ids=lambda path: path.stem)
def test_a_decision_has_a_status(note: Path) -> None:
    """It counts, or names the note that replaced it."""
    [_, _, status, *_] = note.read_text(encoding="utf-8").splitlines()
    assert re.fullmatch(r"\*\*Status\.\*\* (Accepted|Superseded by \[.+\]\(2.+\.md\))\.", status)


def test_the_terms_of_the_glossary_are_in_order() -> None:
    """Each term has one entry, found by the alphabet."""
    terms = TERM.findall((DOCS / "reference" / "glossary.md").read_text())
    assert terms == sorted(set(terms), key=str.casefold)
