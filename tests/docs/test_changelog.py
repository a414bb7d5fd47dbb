"""CHANGELOG.md keeps the form of Keep a Changelog: dated releases, newest first, and one sentence an entry."""

from __future__ import annotations

import re
from datetime import date
from itertools import pairwise
from pathlib import Path

from service.release import VERSION

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
RELEASE = re.compile(r"^## \[(\d+)\.(\d+)\.(\d+)\] - (\d{4}-\d{2}-\d{2})$", re.MULTILINE)
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
END_WITHIN = re.compile(r"[.!?] +[A-Z`]")


def entries(text: str) -> list[str]:
    """The items of every list, each on one line."""
    return [" ".join(item.split()) for item in re.findall(r"^- (.+(?:\n  .+)*)", text, re.MULTILINE)]


def test_each_heading_has_the_form() -> None:
    """Unreleased comes first, then releases with their dates. Below them stand kinds of changes."""
    first, *others = re.findall(r"^## .+$", TEXT, re.MULTILINE)
    assert first == "## [Unreleased]"
    assert [heading for heading in others if not RELEASE.fullmatch(heading)] == []
    assert set(re.findall(r"^### (.+)$", TEXT, re.MULTILINE)) <= KINDS


def test_releases_are_dated_newest_first() -> None:
    """The oldest is 3.0.0. The version of the package is the newest, or one in development after it."""
    found = [((int(a), int(b), int(c)), date.fromisoformat(day)) for a, b, c, day in RELEASE.findall(TEXT)]
    assert found[-1][0] == (3, 0, 0)
    assert all(newer[0] > older[0] and newer[1] >= older[1] for newer, older in pairwise(found))
    numbers = tuple(map(int, VERSION.removesuffix(".dev0").split(".")))
    assert numbers > found[0][0] if VERSION.endswith(".dev0") else numbers == found[0][0]
    assert VERSION.endswith(".dev0") == bool(entries(TEXT.partition("## [Unreleased]")[2].partition("\n## ")[0]))


def test_an_entry_is_one_sentence() -> None:
    found = entries(TEXT)
    assert found
    assert [entry for entry in found if not entry.endswith(".") or END_WITHIN.search(entry)] == []


def test_a_second_sentence_is_noticed() -> None:
    assert END_WITHIN.search(entries("- One goes. Another\n  comes.\n")[0])
    assert not END_WITHIN.search(entries("- `service db` reads v3.0 files,\n  e.g. old ones.\n")[0])
