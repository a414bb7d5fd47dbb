"""Each body and each answer of the schema document has an example, which fits its schema and holds no secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from schemas.kernel.errors import CATALOGUE
from service.http.app import schema_documents
from service.http.document.described import Examples
from service.http.document.schema_filters import needed, operations

DOCUMENT = schema_documents().at("https://service.example")
BUILT = {operation["operationId"]: operation for _, _, operation in operations(DOCUMENT)}


def contents(operation: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every content of the body and of the success answers. A page about a failure shows itself."""
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        yield f"body {media}", content
    for status, response in operation["responses"].items():
        if status >= "4":
            continue
        for media, content in response.get("content", {}).items():
            yield f"{status} {media}", content


def fits(content: dict[str, Any]) -> str | None:
    """Why the example of a content does not fit its schema; None when it does."""
    components = needed(DOCUMENT["components"], content["schema"])
    validator = jsonschema_rs.Draft202012Validator({**content["schema"], "components": components})
    fault = next(validator.iter_errors(content["example"]), None)
    return None if fault is None else str(fault)[:500]


@pytest.mark.parametrize("name", BUILT)
def test_every_body_and_answer_has_an_example_that_fits(name: str) -> None:
    found = dict(contents(BUILT[name]))
    binary = {where for where in found if where.endswith("x-protobuf")}  # of which JSON beside it is the example
    assert [where for where, content in found.items() if "example" not in content and where not in binary] == []
    assert {where: fault for where, content in found.items() if where not in binary if (fault := fits(content))} == {}


@pytest.mark.parametrize("name", DOCUMENT["components"]["responses"])
def test_every_error_shows_a_code_of_its_status(name: str) -> None:
    """With the texts of the catalogue, in the envelope of its routes."""
    content = DOCUMENT["components"]["responses"][name]["content"]["application/json"]
    assert fits(content) is None
    error = content["example"]["error"]
    known = CATALOGUE[error["code"]]
    assert name.endswith(str(known.status))
    assert (error["message"], error["next_action"]) == (known.message, known.next_action)


def test_no_example_is_of_an_operation_that_is_gone() -> None:
    known = {operation["operationId"] for _, _, operation in operations(DOCUMENT)}
    assert [name for name in Examples() if name not in known] == []


def texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for key, member in value.items():
                yield key
                yield from texts(member)
        case list():
            for item in value:
                yield from texts(item)


def test_no_example_holds_a_secret_an_address_or_a_real_id() -> None:
    """Secrets are filled in, ids are counted, and addresses are those of examples."""
    examples = Examples()
    for name in examples:
        for text in texts(examples.of(name)):
            assert "127.0.0.1" not in text, name
            for found in re.finditer(
                r"(?:service_(?:sk|ci|runner|dsn_pub|dsn)|agp|whsec)_([0-9A-Za-z+/=_-]{9,})", text
            ):
                assert found[1].startswith("Example0"), name
            for found in re.finditer(r"\b[a-z]+_([0-9a-z]{26})\b", text):
                assert found[1].startswith("01k00000000000"), (name, text)
