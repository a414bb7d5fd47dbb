"""The parts of the schema document that a client asks for (R-DISC-14, R-DISC-15)."""

from collections.abc import Iterator
from typing import Any

from schemas.discovery import FLOWS
from service.auth.refusals import InvalidPayload, refusal

Json = dict[str, Any]


def check_filters(document: Json, tag: str | None, path: str | None, method: str | None) -> None:
    """Refuse what selects nothing. Raises InvalidPayload for an unknown tag or half of a pair.

    Raises `operation_not_found` for a path and method that no operation has.
    """
    tags = {known["name"] for known in document["tags"]}
    invalid = []
    if tag is not None and tag not in tags:
        invalid.append(("tag", f"must be one of {', '.join(sorted(tags))}"))
    if (path is None) != (method is None):
        invalid.append(("path" if path is None else "method", "must be given together with the other of the two"))
    if invalid:
        raise InvalidPayload("A parameter is not acceptable.", invalid=invalid)
    if path is not None and _find(document, path, method) is None:
        raise refusal("operation_not_found")


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    """Path, method and description of each operation."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def select(
    document: Json,
    *,
    flow: str | None = None,
    tag: str | None = None,
    path: str | None = None,
    method: str | None = None,
    include_components: bool = True,
) -> Json:
    """The document with the operations that all filters keep, and the components that these refer to."""
    paths: dict[str, Json] = {}
    named = None if path is None else _find(document, path, method)
    for p, m, operation in operations(document):
        wanted = flow is None or flow in operation.get("x-flows", ())
        wanted = wanted and (tag is None or tag in operation["tags"])
        if wanted and (path is None or named == (p, m)):
            paths.setdefault(p, {})[m] = operation
    kept = {name for item in paths.values() for operation in item.values() for name in operation["tags"]}
    selected = {
        **document,
        "tags": [known for known in document["tags"] if known["name"] in kept],
        "paths": paths,
        "components": _components(document["components"], paths),
    }
    if not include_components:
        del selected["components"]
    return selected


def _find(document: Json, path: str, method: str | None) -> tuple[str, str] | None:
    """The path and method of the operation that a pair names; None when there is none.

    The path may have parameters of other names, or values in their place. The case of the method and a final slash do
    not matter. Of several the one with the most fixed segments counts, as it does for a request.
    """
    asked = path.rstrip("/").split("/")
    found = [(_fixed(asked, p), p, m) for p, m, _ in operations(document) if m == (method or "").lower()]
    best = max(found, default=(-1, "", ""))
    return None if best[0] < 0 else best[1:]


def _fixed(asked: list[str], known_path: str) -> int:
    """How many segments of a known path are asked for by their very text; -1 when the path is another one."""
    known = known_path.rstrip("/").split("/")
    if len(known) != len(asked):
        return -1
    same = [one == other for one, other in zip(asked, known, strict=True)]
    others = [one and other[:1] == "{" for one, other, equal in zip(asked, known, same, strict=True) if not equal]
    return sum(same) if all(others) else -1


def _components(components: Json, paths: Json) -> Json:
    """The components for some paths, and every security scheme in use."""
    found = needed(components, paths)
    schemes = {
        name for _, _, operation in operations({"paths": paths}) for one in operation["security"] for name in one
    }
    if schemes:
        found["securitySchemes"] = {name: components["securitySchemes"][name] for name in sorted(schemes)}
    return dict(sorted(found.items()))


def needed(components: Json, part: Any) -> Json:
    """The components behind the references of a part of the document, by section and name."""
    found: dict[str, Json] = {}
    pending = list(references(part))
    while pending:
        _, _, section, name = pending.pop().split("/", 3)
        if name in found.setdefault(section, {}):
            continue
        component = components[section][name]
        found[section][name] = component
        pending += references(component)
    return {section: dict(sorted(named.items())) for section, named in found.items()}


def references(part: Any) -> Iterator[str]:
    """Every reference in a part of the document."""
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "$ref" and isinstance(value, str):
                yield value
            else:
                yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def index_of(document: Json) -> Json:
    """The small index: flows, tags and operations in place of the paths."""
    listed = [
        {
            "method": method.upper(),
            "path": path,
            "operation_id": operation["operationId"],
            "summary": operation["summary"],
            "tags": operation["tags"],
            "flows": operation.get("x-flows", []),
        }
        for path, method, operation in operations(document)
    ]
    return {
        "openapi": document["openapi"],
        "info": document["info"],
        "servers": document["servers"],
        "flows": list(FLOWS),
        "tags": [known["name"] for known in document["tags"]],
        "operations": listed,
    }
