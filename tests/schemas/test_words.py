"""Every operation, parameter and member of the schema document is described, and no line describes what is gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from service.http.app import schema_documents
from service.http.document.described import area_of
from service.http.document.schema_filters import operations
from service.http.document.words import ORDER, PAGES, SHARED, TAGS, UNITS, Words, read_page
from service.http.edge.routes import all_endpoints, bind

ROOM = Path(__file__).parents[2] / "schemas"
DOCUMENT = schema_documents().at("https://service.example")
WORDS = Words()
BOUND = {bound.name: bound for bound in bind(all_endpoints())}
MIN_WORDS = 8
HERE = "write it beside its declaration, or into schemas/words/<area>.md"


def shapes() -> dict[str, type[msgspec.Struct]]:
    """Every shape of the room by its name."""

    def below(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
        for one in kind.__subclasses__():
            yield one
            yield from below(one)

    return {kind.__name__: kind for kind in below(msgspec.Struct) if kind.__module__.startswith("schemas.")}


SHAPES = shapes()


def names_of(kind: type[msgspec.Struct]) -> set[str]:
    """The members of a shape as they are called on the wire, and the one that tells it from others."""
    tag = kind.__struct_config__.tag_field
    return {*kind.__struct_encode_fields__, *([tag] if tag else [])}


def parameters_of(operation: dict[str, Any]) -> set[str]:
    return {parameter["name"] for parameter in operation["parameters"]}


DESCRIBED = {operation["operationId"]: operation for _, _, operation in operations(DOCUMENT)}


def members() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for component, schema in DOCUMENT["components"]["schemas"].items():
        for name, member in schema.get("properties", {}).items():
            yield component, name, member


def test_every_operation_is_described() -> None:
    """On its page or by its docstring, beside the sentence that follows from its declaration; so are its parameters."""
    silent = {name for name in DESCRIBED if not WORDS.paragraphs(name)}
    assert sorted(name for name in silent if len((BOUND[name].handler.__doc__ or "").split()) < MIN_WORDS) == [], HERE
    assert all(operation["description"].rstrip().endswith(".") for operation in DESCRIBED.values())
    missing = [
        (name, parameter["name"])
        for name in sorted(DESCRIBED)
        for parameter in DESCRIBED[name]["parameters"]
        if not parameter.get("description")
    ]
    assert missing == [], HERE


def test_every_member_is_described() -> None:
    """By more than the unit of its type."""
    missing = [
        f"{component}.{name}" for component, name, member in members() if member.get("description", "") in {"", *UNITS}
    ]
    assert missing == [], HERE


def test_every_tag_is_described_and_every_area_has_its_place() -> None:
    assert [tag["name"] for tag in DOCUMENT["tags"] if not tag.get("description")] == []
    used = {area_of(bound) for bound in BOUND.values() if area_of(bound) != "edge"}
    assert used <= set(WORDS.pages[SHARED][ORDER].names)


def test_no_line_describes_what_is_gone() -> None:
    """Each heading is an operation or a shape, and each name is a member or parameter of what it stands below."""
    stale = []
    in_area: dict[str, set[str]] = {}
    for kind in SHAPES.values():
        in_area.setdefault(kind.__module__.split(".")[1], set()).update(names_of(kind))
    for name, bound in BOUND.items():
        if name in DESCRIBED:
            in_area.setdefault(area_of(bound), set()).update(parameters_of(DESCRIBED[name]))
    everywhere = {"billing_notice", *(name for names in in_area.values() for name in names)}
    for area, page in WORDS.pages.items():
        for heading, section in page.items():
            if heading == "":
                known = everywhere if area == SHARED else in_area.get(area, set())
            elif heading in DESCRIBED:
                known = parameters_of(DESCRIBED[heading])
            elif heading in SHAPES:
                known = names_of(SHAPES[heading])
            elif area == SHARED and heading in {TAGS, ORDER}:
                continue
            else:
                stale.append((area, heading))
                continue
            stale += [(f"{area}/{heading}", name) for name in section.names.keys() - known]
    assert stale == []


def test_no_line_says_what_is_said_already() -> None:
    """A sentence of an operation or shape differs from the one that it would have without."""
    twice = []
    for area, page in WORDS.pages.items():
        for heading, section in page.items():
            above = {} if heading == "" else page[""].names
            shared = WORDS.pages[SHARED][""].names if (area, heading) != (SHARED, "") else {}
            twice += [
                (area, heading, name)
                for name, sentence in section.names.items()
                if sentence == above.get(name, shared.get(name))
            ]
    assert twice == []


@pytest.mark.parametrize("page", sorted(PAGES.glob("*.md")), ids=lambda page: page.stem)
def test_a_page_reads_well(page: Path) -> None:
    """Short lines, whole sentences, no ids of rules; and a page that fits in the head."""
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert lines[0].startswith("# ")
    assert len(lines) < 400
    assert [line for line in lines if len(line) > 120] == []
    assert re.findall(r"\b(?:R-[A-Z]+-|G-)\d+", text) == []
    for heading, section in read_page(text).items():
        for sentence in (*section.paragraphs, *section.names.values()):
            assert re.match(r"[A-Z0-9`]", sentence), (heading, sentence)
            assert sentence.endswith("."), (heading, sentence)


def test_pages_are_read_as_they_are_written() -> None:
    """Lines go on indented, paragraphs go on until a blank line, and a name is described once."""
    page = read_page("# Area\n\n- a: One\n  two.\n\n## `op`\n\nFirst\nline.\n\nSecond.\n\n- b: Three.\n")
    assert page[""].names == {"a": "One two."}
    assert page["op"].paragraphs == ["First line.", "Second."]
    assert page["op"].names == {"b": "Three."}
    with pytest.raises(AssertionError, match="two lines of a"):
        read_page("- a: One.\n- a: Two.\n")
    with pytest.raises(AssertionError, match="two sections of op"):
        read_page("## op\n\n## op\n")
