"""The words of the schema document: what each operation, parameter and member means, beside its area's shapes.

`schemas/words/<area>.md` describes an area. Where it would be long, further pages such as `cases-reading.md` describe
its shapes. `schemas/words/kernel.md` describes what all areas share. They are read while the document is built, and
cost a running process nothing until then (G-166).

A member or parameter may have its sentence in its type, and an operation in the docstring of its handler: a page says
what is longer, or holds in many places.

Lines before the first heading describe a name throughout the area. Below a heading they describe it for one operation
(its id) or one shape (its class), and paragraphs there describe the operation. A line is `- name: text`, and goes on in
lines that are indented.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import schemas

SHARED = "kernel"
"""The area whose page all others fall back to."""
TAGS = "tags"
ORDER = "areas"
"""Headings of that page: what each tag holds, and the areas in the order of the work."""
PAGES = Path(schemas.__file__).parent / "words"
_LINE = re.compile(r"- `?([^`:]+)`?: (.+)")
_HEADING = re.compile(r"## `?([^`]+?)`?")

UNITS = frozenset({"Epoch seconds, UTC."})
"""What a type says of every member that has it: any sentence about the name is better."""


class Section(NamedTuple):
    """What stands below one heading: paragraphs as one text each, and the sentences of its names."""

    paragraphs: list[str]
    names: dict[str, str]


def read_page(text: str) -> dict[str, Section]:
    """Read a page: its sections by heading. The area's own is ""."""
    sections = {"": Section([], {})}
    section, name = sections[""], ""
    after_blank = True
    for line in text.splitlines():
        if line.startswith("# ") or not line.strip():
            after_blank = True
            continue
        if heading := _HEADING.fullmatch(line):
            assert heading[1] not in sections, f"two sections of {heading[1]}"
            section, name = sections.setdefault(heading[1], Section([], {})), ""
        elif sentence := _LINE.fullmatch(line):
            name = sentence[1]
            assert name not in section.names, f"two lines of {name}: {line}"
            section.names[name] = sentence[2]
        elif line.startswith("  ") and name:
            section.names[name] += f" {line.strip()}"
        elif after_blank or not section.paragraphs:
            section.paragraphs.append(line)
        else:
            section.paragraphs[-1] += f" {line}"
        after_blank = False
    return sections


class Words:
    """All pages, and where a sentence is looked for.

    A member of a shape: at its class, then at the classes that this is made from, then in its area, then in what all
    share. A parameter: at its operation, then as a member of its query, then in the operation's area, then in what all
    share.
    """

    def __init__(self) -> None:
        texts: dict[str, str] = {}
        for page in sorted(PAGES.glob("*.md"), key=lambda page: page.stem):
            area = page.stem.partition("-")[0]
            texts[area] = f"{texts.get(area, '')}{page.read_text(encoding='utf-8')}\n"
        self.pages = {area: read_page(text) for area, text in texts.items()}
        self._at = {heading: section for page in self.pages.values() for heading, section in page.items() if heading}

    def paragraphs(self, operation_id: str) -> list[str]:
        """The paragraphs about an operation, none without a section."""
        return self._at[operation_id].paragraphs if operation_id in self._at else []

    def tag(self, name: str) -> str | None:
        """The sentence about a tag."""
        return self.pages[SHARED][TAGS].names.get(name)

    def parameter(self, operation_id: str, name: str) -> str | None:
        """The operation's own sentence about a parameter."""
        return self._named((operation_id,), "", name)

    def member(self, component: str, name: str) -> str | None:
        """The sentence about a member of a component, without what all areas share."""
        kind = self._kinds.get(component)
        if kind is None:
            return self._named((component,), "", name)
        return self._named(tuple(one.__name__ for one in kind.__mro__), _area_of(kind), name)

    def shared(self, name: str, area: str = SHARED) -> str | None:
        """The sentence about a name in an area, else in all of them."""
        return self._named((), area, name) or self._named((), SHARED, name)

    def place(self, operation_id: str, area: str) -> tuple[int, int, str]:
        """Where an operation stands in the order of the work: areas as they are listed, then as their page has it.

        Those that a page does not name come last, by their names.
        """
        headings = list(self.pages.get(area, ()))
        listed = list(self.pages[SHARED][ORDER].names)
        return (
            listed.index(area) if area in listed else len(listed),
            headings.index(operation_id) if operation_id in headings else len(headings),
            operation_id,
        )

    def _named(self, headings: tuple[str, ...], area: str, name: str) -> str | None:
        """The sentence of the first heading that has one, else of the area."""
        own = (self._at[heading].names.get(name) for heading in headings if heading in self._at)
        found = next((sentence for sentence in own if sentence is not None), None)
        return self.pages[area][""].names.get(name) if found is None and area in self.pages else found

    @cached_property
    def _kinds(self) -> Mapping[str, type[msgspec.Struct]]:
        """The shapes of all areas by the names that their components have."""
        return {kind.__name__: kind for kind in _below(msgspec.Struct) if kind.__module__.startswith("schemas.")}


def describe(words: Words, components: dict[str, Any]) -> dict[str, Any]:
    """The components with a sentence at each member, as far as there is one."""
    return {name: _described(words, name, component) for name, component in components.items()}


def _described(words: Words, component: str, schema: dict[str, Any]) -> dict[str, Any]:
    if "properties" not in schema:
        return schema
    members = {
        name: with_sentence(member, words.member(component, name), words.shared(name))
        for name, member in schema["properties"].items()
    }
    return {**schema, "properties": members}


def with_sentence(schema: dict[str, Any], own: str | None, shared: str | None) -> dict[str, Any]:
    """A schema with the best sentence about its name: its own, that of its type, or what all areas share."""
    typed = schema.get("description")
    sentence = own or (shared if typed is None or typed in UNITS else typed) or typed
    return schema if sentence is None else {**schema, "description": sentence}


def _area_of(kind: type[msgspec.Struct]) -> str:
    return kind.__module__.split(".")[1]


def _below(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)
