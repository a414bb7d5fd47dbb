"""README and docs tell what is true: their commands exist, and pages from the code are those of the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.pages import architecture
from scripts.pages.reference import PAGES
from service.cli import COMMANDS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PARTS = ("tutorial", "how-to", "reference", "explanation")
TEXTS = [*sorted(ROOT.glob("*.md")), *(path for part in PARTS for path in sorted((ROOT / "docs" / part).glob("*.md")))]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_says(name: str) -> None:
    """What `make generated` would write is what is there."""
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == PAGES[name]()


def test_the_picture_is_that_of_the_imports() -> None:
    page = architecture.PAGE.read_text(encoding="utf-8")
    assert architecture.drawn_anew(page) == page


@pytest.mark.parametrize("text", [text for text in TEXTS if text.stem != "CHANGELOG"], ids=lambda path: path.name)
def test_every_command_that_is_named_exists(text: Path) -> None:
    """`service NOUN` and `make TARGET` in the text are nouns and targets."""
    said = text.read_text(encoding="utf-8")
    assert set(re.findall(r"(?:`|\$ )service ([a-z]+)", said)) <= set(COMMANDS)
    targets = set(re.findall(r"(?:`|    )make ([a-z]+)", said))
    assert targets <= set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_readme_is_short() -> None:
    """A page that a newcomer reads to its end; the rest is in docs."""
    lines = README.splitlines()
    words = re.findall(r"[A-Za-z][A-Za-z'-]*", re.sub(r"^ {4}.*$|\]\([^)]*\)", "", README, flags=re.MULTILINE))
    assert len(lines) <= 150
    assert len(words) <= 900


def test_every_page_is_found_from_readme() -> None:
    """Pages of decisions and machines have lists of their own."""
    pages = {path.relative_to(ROOT).as_posix() for part in PARTS for path in (ROOT / "docs" / part).glob("*.md")}
    linked = {target for text in TEXTS for target in _targets(text)}
    assert pages - linked == set()


def _targets(text: Path) -> set[str]:
    found = re.findall(r"\]\(([^)#:]+)", text.read_text(encoding="utf-8"))
    return {Path(os.path.normpath(text.parent / target)).relative_to(ROOT).as_posix() for target in found}


HELPERS = {name: line for line, name in re.findall(r"^    \$ ((\w+)\(\) .+)$", README, re.MULTILINE)}
NAMED = re.compile(r"\$(KEY|P|DSN|SERVICE_URL)\b")


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/how-to/*.md")), ids=lambda page: page.stem)
def test_the_commands_of_a_page_need_no_other_page(page: Path) -> None:
    """Helpers and variables stand on the page, above their first use, and the helpers are those of the tour."""
    known: set[str] = set()
    for line in page.read_text(encoding="utf-8").splitlines():
        known |= {name for name, text in HELPERS.items() if line == text}
        known |= set(re.findall(r"\b(\w+)=", line)) if not line.startswith("    $ curl") else set()
        if line.startswith("    $ "):
            helpers = {name for name in HELPERS if re.search(rf"(?:^|[ (|]){name} ", line[6:])}
            assert helpers | set(NAMED.findall(line)) <= known, line


def test_every_link_leads_somewhere() -> None:
    """Relative links name files that are there."""
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_diagrams_are_those_of_the_tables(tmp_path: Path) -> None:
    """What `make generated` would write is what is there."""
    subprocess.run(
        [sys.executable, "-m", "service", "machines", "diagram", "--all", "--out", str(tmp_path)],
        check=True,
        capture_output=True,
        cwd=ROOT,
    )
    kept = {path.name: path.read_text() for path in (ROOT / "docs" / "reference" / "machines").iterdir()}
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == kept
