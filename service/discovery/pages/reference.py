"""The reference of one tag as Markdown, made of its part of the schema document (G-166)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from service.discovery.pages.library import Tag
from service.discovery.pages.sources import ENDING, DocPage
from service.discovery.rendering import render

Json = dict[str, Any]
Form = Callable[[Json], str]

EXTENSION = "extension"
SHOWN = 4_000
"""Most characters of an example on a page."""


class Sample(NamedTuple):
    """One body, or one answer of an operation."""

    title: str
    media: str
    form: str
    about: str
    example: str


class ApiOperation(NamedTuple):
    """One operation for the template."""

    id: str
    method: str
    path: str
    summary: str
    description: str
    extension: bool
    parameters: list[Json]
    contents: list[Sample]
    codes: list[str]


def page_of(tag: Tag, document: Json, form: Form) -> DocPage:
    """The page of a tag. `document` has the tag's operations and their components, `form` words a schema."""
    found = [
        _described(method, path, operation, form)
        for path, item in document["paths"].items()
        for method, operation in item.items()
        if operation["tags"][0] == tag.name
    ]
    facts = {
        "tag": tag,
        "schema": f"/v1/openapi.json?tag={tag.name}",
        "operations": found,
        "shapes": document["components"].get("schemas", {}),
        "form": form,
        "cell": cell,
    }
    return DocPage(tag.address, tag.title, render(f"pages/api{ENDING}", facts).body.decode())


def cell(text: str) -> str:
    """A text within one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _described(method: str, path: str, operation: Json, form: Form) -> ApiOperation:
    return ApiOperation(
        id=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        description=operation["description"],
        extension=EXTENSION in operation["tags"],
        parameters=operation["parameters"],
        contents=list(_contents(operation, form)),
        codes=operation["x-error-codes"],
    )


def _contents(operation: Json, form: Form) -> Iterator[Sample]:
    """The body in each of its types, then each success answer. Errors are named by their codes."""
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        yield _content("Body", media, content, "", form)
    for status, response in operation["responses"].items():
        about = response.get("description", "")
        for media, content in response.get("content", {}).items():
            yield _content(f"Answer {status}", media, content, about, form)
        if "content" not in response and about:
            yield Sample(f"Answer {status}", "no body", "", about, "")


def _content(title: str, media: str, content: Mapping[str, Any], about: str, form: Form) -> Sample:
    example = content.get("example")
    text = "" if example is None else example if isinstance(example, str) else json.dumps(example, indent=2)
    shown = text[:SHOWN].rstrip() + ("\n…" if len(text) > SHOWN else "")
    return Sample(title, f"`{media}`", form(content["schema"]), about, shown)
