"""The OpenAPI 3.1.0 document, generated from the declared operations (R-DISC-13 to R-DISC-15, R-VER-01, G-019).

Components come from `msgspec.json.schema_components`, because that is what decodes the requests: what the schema says
and what the edge enforces cannot drift apart.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from litestar.handlers import BaseRouteHandler
from litestar.plugins import ReceiveRoutePlugin
from litestar.routes import ASGIRoute, BaseRoute, HTTPRoute
from msgspec import inspect

from schemas.billing import BillingNotice
from schemas.kernel.errors import ClosedErrorEnvelope, ErrorEnvelope
from schemas.kernel.published import publish, publish_request
from schemas.kernel.shape import ALTERNATIVES, BatchAccepted
from service import release
from service.auth.authority import PrincipalKind
from service.http.declare.bound import TEST_CLOCK_PATH, Bound
from service.http.document.described import DocumentSources, Examples, area_of, describe_operation
from service.http.document.responses import HEADERS, error_responses, exports
from service.http.document.schema_filters import references, select
from service.http.document.security import SECURITY_SCHEMES
from service.http.document.words import Words, describe

OPENAPI_VERSION = "3.1.0"
SCHEMA_VERSION = "2026-05-20"
TITLE = "Telemetry, case, onboarding and automation service"
HIDDEN_PATHS = frozenset({TEST_CLOCK_PATH})  # served for tests, never documented (G-120)

Json = dict[str, Any]

DESCRIPTION = (
    "Observes a software product and coordinates bounded automation around it. Callers that speak HTTP directly send "
    "a descriptive User-Agent. Mutations accept an Idempotency-Key. Every answer carries x-service-request-id. "
    "Operations marked x-extension go beyond the documented contract."
)


class SchemaDocuments(ReceiveRoutePlugin):
    """The schema documents of an application, made of the routes that Litestar registers.

    It hears of each route as Litestar's own document does, and takes the declarations from the `opt` of the handlers.
    """

    def __init__(self) -> None:
        self._routed: dict[str, Bound] = {}
        self._made: dict[str, Json] = {}  # one, for a process has one address

    def receive_route(self, route: BaseRoute) -> None:
        """Take the operations of a route, a path and its aliases alike once."""
        handlers: Sequence[BaseRouteHandler] = ()
        match route:
            case HTTPRoute():
                handlers = sorted(
                    route.route_handlers, key=lambda one: one.name or ""
                )  # Litestar has them in no order.
            case ASGIRoute():
                handlers = (route.route_handler,)
        for one in (handler.opt["bound"] for handler in handlers if "bound" in handler.opt):
            if one.operation.common.documented:
                self._routed.setdefault(one.name, one)

    @property
    def operations(self) -> Sequence[Bound]:
        """The routed operations."""
        return tuple(self._routed.values())

    def at(self, base_url: str) -> Json:
        """The whole document of an address. The first call takes a fifth of a second of processor time."""
        made = self._made.get(base_url)
        if made is None:
            made = self._made[base_url] = build_document(self.operations, base_url)
        return made


def build_document(endpoints: Iterable[Bound], base_url: str) -> Json:
    """Generate the whole document in the order of the work. `base_url` is the one server."""
    words = Words()
    shown = [bound for bound in endpoints if bound.operation.path not in HIDDEN_PATHS]
    shown.sort(key=lambda bound: words.place(bound.name, area_of(bound)))
    types = _types_of(shown)
    made = msgspec.json.schema_components(types, ref_template="#/components/schemas/{name}")
    schema_of = dict(zip(map(id, types), publish(list(made[0])), strict=True))
    components = _components(shown, schema_of, describe(words, publish(made[1])), words)
    sources = DocumentSources(words, Examples(), schema_of, components)
    paths: dict[str, Json] = {}
    for bound in shown:
        operation = bound.operation
        paths.setdefault(operation.path, {})[operation.method.lower()] = describe_operation(bound, sources)
    tags = dict.fromkeys(tag for item in paths.values() for one in item.values() for tag in one["tags"])
    document = {
        "openapi": OPENAPI_VERSION,
        "info": {
            "title": TITLE,
            "version": SCHEMA_VERSION,
            "description": DESCRIPTION,
            "contact": {"name": "Operator of this installation", "url": base_url},
            "license": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
            "x-service-version": release.VERSION,
            "x-service-commit": release.commit(),
        },
        "servers": [{"url": base_url}],
        "tags": [{"name": tag, "description": words.tag(tag)} for tag in tags],
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": error_responses(),
            "headers": HEADERS,
            "securitySchemes": dict(SECURITY_SCHEMES),
        },
    }
    # Components that nothing refers to, such as the query structs, are left out. Defaults become plain JSON.
    plain: Json = msgspec.json.decode(msgspec.json.encode(select(document)))
    return plain


def _components(shown: Sequence[Bound], schema_of: Mapping[int, Json], described: Json, words: Words) -> Json:
    """The components as requests and as people's answers have them."""
    bodies = [schema_of[id(bound.shown_body)] for bound in shown if bound.takes_body and not bound.raw_body]
    asked = {name: publish_request(described[name]) for name in _named_in(bodies, described)}
    notice = {"$ref": "#/components/schemas/BillingNotice", "description": words.shared("billing_notice")}
    sent = {name: _sent(described[name], names) for name, names in sent_members(shown).items()}
    components = described | sent | asked
    said = _said_to_people(shown, schema_of, components)
    return components | {name: _noticed(components[name], notice) for name in said}


def _sent(component: Json, names: Sequence[str]) -> Json:
    """A component with these members required. A default would make one look optional."""
    members = {
        name: {key: value for key, value in schema.items() if key != "default"} if name in names else schema
        for name, schema in component["properties"].items()
    }
    return {**component, "properties": members, "required": list(names)}


def sent_members(shown: Sequence[Bound]) -> dict[str, list[str]]:
    """The members of every answer of a kind, by the name of its component.

    Defaults are sent. Only an unset member is left out, and a default in a struct with `omit_defaults`.
    """
    found: dict[str, list[str]] = {}
    pending = list(inspect.multi_type_info(_answers_of(shown)))
    while pending:
        kind = pending.pop()
        match kind:
            case inspect.StructType():
                if kind.cls.__name__ not in found:
                    found[kind.cls.__name__] = [] if kind.cls.__struct_config__.omit_defaults else _always(kind)
                    pending += [one.type for one in kind.fields]
            case inspect.UnionType():
                pending += kind.types
            case inspect.TupleType():
                pending += kind.item_types
            case inspect.DictType():
                pending.append(kind.value_type)
            case inspect.Metadata():
                pending.append(kind.type)
            case _ if hasattr(kind, "item_type"):
                pending.append(kind.item_type)
    return {name: names for name, names in found.items() if names}


def _always(kind: inspect.StructType) -> list[str]:
    tag = [kind.tag_field] if kind.tag_field is not None else []
    unset = msgspec.NODEFAULT
    return [
        *tag,
        *(
            one.encode_name
            for one in kind.fields
            if one.required or one.default is not unset or one.default_factory is not unset
        ),
    ]


def _answers_of(shown: Sequence[Bound]) -> list[Any]:
    """Every type of an answer, of a refusal, and of the notice beside an answer."""
    types: list[Any] = [ErrorEnvelope, ClosedErrorEnvelope, BillingNotice, BatchAccepted]
    for bound in shown:
        types += bound.operation.docs.refuses.values()
        types += [body for body in bound.operation.responses.values() if body is not None]
    types += ALTERNATIVES
    return list({id(found): found for found in types}.values())


def _named_in(parts: Any, components: Json) -> set[str]:
    """Names of the components that parts refer to, directly or through others."""
    found: set[str] = set()
    pending = list(references(parts))
    while pending:
        name = pending.pop().rpartition("/")[2]
        if name not in found:
            found.add(name)
            pending += references(components[name])
    return found


def _said_to_people(shown: Sequence[Bound], schema_of: Mapping[int, Json], components: Json) -> set[str]:
    """Names of the components that answer people, and so may have a notice beside them (R-BILL-11).

    Of an answer in several shapes, each. A larger shape of such an object promises all of the object.
    """
    answers = [(bound.operation, body) for bound in shown for body in bound.operation.responses.values()]
    said = [body for one, body in answers if PrincipalKind.KEY in one.who.principals and not one.docs.sealed]
    kinds = tuple(body for body in said if isinstance(body, type))
    said += [body for _, body in answers if isinstance(body, type) and issubclass(body, kinds)]
    found: set[str] = set()
    pending = [schema_of[id(body)] for body in said if body is not None]
    while pending:
        schema = pending.pop()
        pending += [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
        name = schema.get("$ref", "").rpartition("/")[2]
        if name and name not in found:
            found.add(name)
            pending.append(components[name])
    return found


def _noticed(component: Json, notice: Json) -> Json:
    """A component of an answer, with the notice that it may have."""
    if "properties" not in component:
        return component
    return {**component, "properties": {**component["properties"], "billing_notice": notice}}


def _types_of(shown: Sequence[Bound]) -> list[Any]:
    """Every type that has a schema, each once: errors, bodies, answers and parameters."""
    types: list[Any] = [ErrorEnvelope, ClosedErrorEnvelope, BillingNotice]
    for bound in shown:
        operation = bound.operation
        types += [bound.body_type] if bound.takes_body else []
        types += [operation.body.shown_body] if operation.body.shown_body is not None else []
        types += operation.docs.refuses.values()
        types += [body for body in operation.responses.values() if body is not None]
        types += [operation.query] if operation.query is not None else []
    types += ALTERNATIVES
    types += [BatchAccepted] * any(bound.operation.body.forms for bound in shown)
    types += [shape for bound in shown for _, export in exports(bound.operation) for shape in export[1:]]
    return list({id(found): found for found in types}.values())
