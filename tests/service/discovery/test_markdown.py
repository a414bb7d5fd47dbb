"""Markdown as pages: nothing of HTML from the source, anchors, and links."""

from __future__ import annotations

import pytest

from service.discovery.pages import parts, relink, title_of, to_html
from tests.support.html import HtmlPage


def test_markdown_has_no_html_of_its_own() -> None:
    html = to_html("# A\n\n<script>x</script> [b](javascript:alert(1)) `<i>`\n\n| c |\n|--:|\n| d |\n", str)
    assert "<script" not in html.body
    assert 'href="javascript' not in html.body
    assert "style=" not in html.body
    assert 'class="right"' in html.body


def test_headings_of_the_same_words_have_anchors_of_their_own() -> None:
    source = "# T\n\n## A `b`\n\n```\n# no heading\n```\n\n## A b\n\n### Plain **text**\n"
    page = HtmlPage(to_html(source, str).body)
    assert page.anchors == ["t", "a-b", "a-b-1", "plain-text"]
    assert [part.heading.anchor for part in parts(source)] == ["", *page.anchors]
    assert [heading.anchor for heading in to_html(source, str).contents] == ["a-b", "a-b-1"]


def test_links_lead_to_pages_or_become_text() -> None:
    addresses = {"how-to/a.md": "/docs/how-to/a", "reference/machines/b.md": "/docs/machines/b"}
    source = (
        "[a](a.md#x) [b](../reference/machines/b.md)\n[c\nd](../../tests/c.py) [e](#e) [f](https://f.example/a.md)\n"
    )
    fenced = "```\n[a](a.md)\n```\n"
    expected = "[a](/docs/how-to/a.md#x) [b](/docs/machines/b.md)\nc\nd [e](#e) [f](https://f.example/a.md)\n"
    assert relink(source + fenced, "how-to", addresses) == expected + fenced


def test_a_title_is_the_first_heading_outside_of_fences() -> None:
    assert title_of("```\n# no\n```\n# The `code` of it\n") == "The code of it"
    with pytest.raises(ValueError, match="without a title"):
        title_of("## Second\n")
