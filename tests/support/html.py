"""An HTML page as a reader meets it: its headings, its anchors, its links, and what a browser would load for it."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "link", "input", "br", "hr", "img"}
HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}


class HtmlPage(HTMLParser):
    """A parsed page. Raises AssertionError where an element is not closed as it was opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.headings: list[tuple[str, str]] = []
        self.anchors: list[str] = []
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.inline: list[str] = []
        """Scripts, styles and handlers within the page."""
        self._open: list[str] = []
        self._heading: str | None = None
        self.feed(text)
        self.close()
        assert self._open == [], f"left open: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag not in VOID:
            self._open.append(tag)
        if "id" in found:
            self.anchors.append(found["id"])
        if tag == "a":
            self.links.append(found["href"])
        elif "href" in found and found.get("rel") != "alternate":
            self.loaded.append(found["href"])
        self.loaded += [found[name] for name in ("src", "srcset", "data", "poster") if name in found]
        if tag in {"script", "style", "iframe", "object", "embed"}:
            self.inline.append(tag)
        self.inline += [name for name in found if name == "style" or name.startswith("on")]
        if tag in HEADINGS:
            self._heading = ""

    def handle_endtag(self, tag: str) -> None:
        assert self._open, f"</{tag}> closes nothing"
        assert self._open.pop() == tag
        if tag in HEADINGS and self._heading is not None:
            self.headings.append((tag, self._heading.strip()))
            self._heading = None

    def handle_data(self, data: str) -> None:
        if self._heading is not None:
            self._heading += data
