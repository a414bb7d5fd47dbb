"""The facts that the texts are filled in with."""

from __future__ import annotations

import jinja2
import pytest

from schemas.discovery import DisclosureQuery
from service.discovery.manifest import LANGUAGES, render
from service.discovery.reads import Installation
from service.http.discovery import facts
from service.settingvalues import RATE_LIMITS

BASE = "https://service.example"


def test_what_is_scrubbed_is_what_the_disclosure_says() -> None:
    at = Installation(BASE, True, True, True, (), tuple(RATE_LIMITS.items()), 500, None, None)
    text = facts.privacy(at, DisclosureQuery()).body.decode()
    for name in ("`password`", "`authorization`", "`cvv`", "jwt", "card number", "private key"):
        assert name in text


def test_a_missing_fact_stops_the_rendering() -> None:
    with pytest.raises(jinja2.UndefinedError):
        render("skill.md", {})


def test_each_text_is_rendered_once() -> None:
    at = Installation(BASE, True, True, True, (), (), 500, None, None)
    assert facts.text("service.md", at) is facts.text("service.md", at)


def test_the_languages_are_those_of_the_snippets() -> None:
    """R-DISC-11 has eleven."""
    names = ["node", "browser", "python", "ruby", "go", "php", "java", "dotnet", "rust", "elixir", "curl"]
    assert [name for name, _, _ in LANGUAGES] == names
