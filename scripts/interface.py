"""What the schema document promises to clients, kept in tests/golden, and what would break that promise (G-013).

Within `/v1` an operation, a member and a value that were documented once stay. Requests may take more: optional
members, further values, wider bounds. Responses may show more. `broken` compares two documents and names the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from service.http.app import schema_documents

Json = dict[str, Any]
Side = Literal["request", "response"]

KEPT = Path(__file__).parents[1] / "tests" / "golden" / "interface.json"
SCHEMAS = "#/components/schemas/"

WORDS = {"title", "description", "default", "examples"}
AT_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
AT_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
AS_IT_IS = ("pattern", "format", "uniqueItems", "propertyNames", "multipleOf")


def promised() -> Json:
    """The schema document as it is now, without what is only told."""
    document = schema_documents().at("https://service.example")
    operations = {
        f"{method.upper()} {path}": _operation(operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }
    reached: Json = {}
    open_names = list(_names(operations))
    while open_names:
        name = open_names.pop()
        if name not in reached:
            reached[name] = _plain(document["components"]["schemas"][name])
            open_names += _names(reached[name])
    return {"operations": operations, "schemas": dict(sorted(reached.items()))}


def kept() -> Json:
    """The document that was promised last."""
    found: Json = json.loads(KEPT.read_text())
    return found


def write(interface: Json) -> None:
    """Keep a document, each operation and each schema on a line of its own."""
    parts = []
    for part, entries in interface.items():
        lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in sorted(entries.items()))
        parts.append(f"{json.dumps(part)}: {{\n{lines}\n}}")
    KEPT.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def broken(old: Json, new: Json) -> list[str]:
    """Name every place where the new document takes back what the old one promised."""
    return list(_Comparison(old, new).faults())


def _operation(operation: Json) -> Json:
    """The parts of an operation that bind."""
    parameters = {f"{one['in']} {one['name']}": one for one in operation.get("parameters", ())}
    shown: Json = {
        "operationId": operation["operationId"],
        "parameters": {
            name: {"required": one["required"], "schema": _plain(one["schema"])} for name, one in parameters.items()
        },
    }
    body = operation.get("requestBody")
    if body is not None:
        content = _contents(body)
        content |= dict.fromkeys(operation.get("x-also-takes", ()), content.get("application/json", {}))
        shown["body"] = {"required": body.get("required", False), "content": content}
    shown["bytes"] = operation["x-max-body-bytes"]
    shown["responses"] = {
        status: _contents(response) for status, response in operation["responses"].items() if status < "4"
    }
    return shown


def _contents(body: Json) -> Json:
    return {media: _plain(content.get("schema", {})) for media, content in body.get("content", {}).items()}


def _plain(schema: Any) -> Any:
    """A schema without its words. Members of `properties` are names, whatever they are called."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _plain(member) for name, member in value.items()} if key == "properties" else _plain(value)
        for key, value in schema.items()
        if key not in WORDS
    }


def _names(part: Any) -> Iterator[str]:
    """Names of the schemas to which a part refers."""
    if isinstance(part, dict):
        reference = part.get("$ref")
        if isinstance(reference, str):
            yield reference.removeprefix(SCHEMAS)
        for value in part.values():
            yield from _names(value)
    elif isinstance(part, list):
        for value in part:
            yield from _names(value)


class _Comparison:
    """Two documents, walked side by side. A pair of schemas is compared once a side, however deep it stands."""

    def __init__(self, old: Json, new: Json) -> None:
        self.old = old
        self.new = new
        self.met: dict[tuple[str, str, Side], list[str]] = {}

    def faults(self) -> Iterator[str]:
        for name, old in self.old["operations"].items():
            new = self.new["operations"].get(name)
            if new is None:
                yield f"{name} is gone"
            else:
                yield from self._operation(name, old, new)

    def _operation(self, name: str, old: Json, new: Json) -> Iterator[str]:
        if old["operationId"] != new["operationId"]:
            yield f"{name} has another operation id"
        for parameter in old["parameters"].keys() - new["parameters"].keys():
            yield f"{name} {parameter} is gone"
        for parameter, there in new["parameters"].items():
            before = old["parameters"].get(parameter)
            if there["required"] and not (before and before["required"]):
                yield f"{name} {parameter} is required now"
            if before and "responses" in old:  # what was not built took no value
                yield from self._schema(f"{name} {parameter}", before["schema"], there["schema"], "request")
        if "responses" not in old:
            return
        if "responses" not in new:
            yield f"{name} is not built any more"
            return
        if new["bytes"] < old["bytes"]:
            yield f"{name} takes fewer bytes"
        yield from self._body(name, old.get("body"), new.get("body"))
        for status, contents in old["responses"].items():
            if status not in new["responses"]:
                yield f"{name} {status} is gone"
            else:
                yield from self._contents(f"{name} {status}", contents, new["responses"][status], "response")

    def _body(self, name: str, old: Json | None, new: Json | None) -> Iterator[str]:
        if new is not None and new["required"] and not (old and old["required"]):
            yield f"{name} body is required now"
        if old is not None:
            yield from self._contents(f"{name} body", old["content"], new["content"] if new else {}, "request")

    def _contents(self, where: str, old: Json, new: Json, side: Side) -> Iterator[str]:
        for media, schema in old.items():
            if media not in new:
                yield f"{where} {media} is gone"
            else:
                yield from self._schema(where, schema, new[media], side)

    def _schema(self, where: str, old: Json, new: Json, side: Side) -> Iterator[str]:
        pair = (json.dumps(old), json.dumps(new), side)
        if pair not in self.met:
            self.met[pair] = []  # where schemas lead back to themselves, the outer comparison names the fault
            self.met[pair] = list(self._alternatives(where, old, new, side))
        yield from self.met[pair]

    def _alternatives(self, where: str, old: Json, new: Json, side: Side) -> Iterator[str]:
        olds, news = _branches(old, self.old), _branches(new, self.new)
        if side == "response" and _nullable(news) and not _nullable(olds) and olds != [{}]:
            yield f"{where} may be null now"
        for branch in olds:
            if side == "response" and branch.get("type") == "null":
                continue  # what is never null any more troubles nobody
            found = [list(self._branch(where, branch, other, side)) for other in news]
            if not all(found):
                continue
            yield from min(found, key=len)  # the likeliest partner says what is wrong

    def _branch(self, where: str, old: Json, new: Json, side: Side) -> Iterator[str]:
        if new.get("type", old.get("type") if side == "request" else None) != old.get("type"):
            yield f"{where} has another type"
            return
        values, now = _values(old), _values(new)
        if values is not None and now is not None and not all(value in now for value in values):
            yield f"{where} has fewer values"
        if side == "request":
            yield from _narrowed(where, old, new)
        if "items" in old:
            yield from self._schema(f"{where}[]", old["items"], new.get("items", {}), side)
        if isinstance(old.get("additionalProperties"), dict) and isinstance(new.get("additionalProperties"), dict):
            yield from self._schema(f"{where}.*", old["additionalProperties"], new["additionalProperties"], side)
        yield from self._members(where, old, new, side)

    def _members(self, where: str, old: Json, new: Json, side: Side) -> Iterator[str]:
        before, now = old.get("properties", {}), new.get("properties", {})
        required, requires = set(old.get("required", ())), set(new.get("required", ()))
        if side == "request":
            yield from (f"{where}.{name} is required now" for name in sorted(requires - required))
        else:
            yield from (f"{where}.{name} may be absent now" for name in sorted(required - requires))
        for name, member in before.items():
            if name not in now:
                yield f"{where}.{name} is gone"
            else:
                yield from self._schema(f"{where}.{name}", member, now[name], side)


def _branches(schema: Json, document: Json) -> list[Json]:
    """The alternatives of a schema, with references followed."""
    if "$ref" in schema:
        return _branches(document["schemas"][schema["$ref"].removeprefix(SCHEMAS)], document)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return [branch for option in schema[word] for branch in _branches(option, document)]
    if isinstance(schema.get("type"), list):
        return [{**schema, "type": kind} for kind in schema["type"]]
    return [schema]


def _nullable(branches: list[Json]) -> bool:
    return any(branch.get("type") == "null" for branch in branches)


def _values(schema: Json) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _narrowed(where: str, old: Json, new: Json) -> Iterator[str]:
    """What a request took and would take no longer."""
    for bound in AT_LEAST:
        if bound in new and not (bound in old and new[bound] <= old[bound]):
            yield f"{where} has a tighter {bound}"
    for bound in AT_MOST:
        if bound in new and not (bound in old and new[bound] >= old[bound]):
            yield f"{where} has a tighter {bound}"
    for word in AS_IT_IS:
        if word in new and new[word] != old.get(word):
            yield f"{where} has another {word}"
    if _values(new) is not None and _values(old) is None:
        yield f"{where} has fewer values"
    if new.get("additionalProperties") is False and old.get("additionalProperties") is not False:
        yield f"{where} refuses further members"
