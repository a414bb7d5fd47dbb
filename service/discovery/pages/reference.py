"""The reference of the API as Markdown, made of the schema document: a page for each tag and operation (G-166)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from service.discovery.pages.library import Listed, Tag
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


def page_of_tag(tag: Tag) -> DocPage:
    """The page of a tag: its operations with their pages."""
    facts = {"tag": tag, "schema": f"/v1/openapi.json?tag={tag.name}"}
    return DocPage(tag.address, tag.title, render(f"pages/tag{ENDING}", facts).body.decode())


def page_of_operation(tag: Tag, listed: Listed, document: Json, form: Form) -> DocPage:
    """The page of an operation. `document` has it alone, with its components, and `form` words a schema."""
    [(path, item)] = document["paths"].items()
    [(method, operation)] = item.items()
    query = urlencode({"path": path, "method": method.upper()})
    facts = {
        "tag": tag,
        "schema": f"/v1/openapi.json?{query}",
        "one": _described(method, path, operation, form),
        "shapes": document["components"].get("schemas", {}),
        "form": form,
        "cell": cell,
    }
    return DocPage(listed.address, listed.summary, render(f"pages/operation{ENDING}", facts).body.decode())


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
