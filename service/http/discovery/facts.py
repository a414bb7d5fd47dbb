"""The facts for the texts: operations, codes, limits, blueprints and names, as the code has them.

A template names an operation by its id. An unknown id stops the rendering, and so the tests.
"""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from schemas.analytics import MAX_LIMIT
from schemas.cases.log import MAX_EXTRA_BYTES, MAX_INGEST_BYTES
from schemas.contracts.contract import MAX_AUTOMATIONS, MAX_CONTRACT_BYTES
from schemas.discovery import FLOWS, DisclosureQuery
from schemas.kernel.errors import CATALOGUE, ErrorCode
from schemas.kernel.shape import MAX_BATCH_BYTES, MAX_BATCH_ITEMS
from schemas.onboarding import MAX_PLAN_BYTES, PROOF_HEADER, PROOF_PROPERTY, PROOF_VARIABLE, ProofBlocker
from schemas.runs.approval import MAX_EVIDENCE_BYTES
from service.analytics.blueprints import asking as blueprints
from service.analytics.bounded import LONGEST_DAYS
from service.analytics.queries import QUERY_SECONDS, WAIT_SECONDS
from service.discovery.manifest import Text, render
from service.discovery.reads import Installation
from service.http.declare.bound import TEST_CLOCK_PATH, Bound
from service.http.document.responses import error_codes
from service.http.edge.routes import all_endpoints, bind
from service.onboarding.lifecycle import GUIDANCE
from service.webhooks.testing import TOPICS as WEBHOOK_EVENTS
from statemachines.contracts.playbook import PUBLISHED
from statemachines.kernel.telling import FORMS, SECRET_FRAGMENTS, STRING_FRAGMENTS
from statemachines.onboarding.lifecycle import SESSION_SECONDS
from statemachines.runs.approval import APPROVAL_SECONDS
from statemachines.runs.claim import LEASE_SECONDS
from statemachines.runs.grant import GRANT_SECONDS
from statemachines.runs.receipt import CASE_RECEIPT_SECONDS
from statemachines.runs.steps.end_run import MOST_RESTED_SECONDS, RETURN_SECONDS

LIMITS: Mapping[str, int] = {
    "approval_seconds": APPROVAL_SECONDS,
    "automations": MAX_AUTOMATIONS,
    "batch_bytes": MAX_BATCH_BYTES,
    "batch_items": MAX_BATCH_ITEMS,
    "contract_bytes": MAX_CONTRACT_BYTES,
    "evidence_bytes": MAX_EVIDENCE_BYTES,
    "extra_bytes": MAX_EXTRA_BYTES,
    "grant_seconds": GRANT_SECONDS,
    "ingest_bytes": MAX_INGEST_BYTES,
    "lease_seconds": LEASE_SECONDS,
    "plan_bytes": MAX_PLAN_BYTES,
    "query_rows": MAX_LIMIT,
    "query_seconds": int(QUERY_SECONDS),
    "query_wait_seconds": int(WAIT_SECONDS),
    "receipt_seconds": CASE_RECEIPT_SECONDS,
    "rested_seconds": MOST_RESTED_SECONDS,
    "return_seconds": RETURN_SECONDS,
    "session_seconds": SESSION_SECONDS,
    "window_days": LONGEST_DAYS,
}
"""The bounds in the texts, by their names there."""


class Described(NamedTuple):
    """One operation for the texts."""

    method: str
    path: str
    summary: str
    group: str
    flows: frozenset[str]
    extension: bool
    closed_errors: bool

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class Remedy(NamedTuple):
    """An error code with its remedy, and the operations with this code."""

    code: str
    known: ErrorCode
    operations: tuple[str, ...]


@cache
def operations() -> Mapping[str, Described]:
    """Every operation by its id, in the order of the document. The one of tests is left out."""
    return {
        one.name: Described(
            one.operation.method,
            one.operation.path,
            one.operation.summary,
            one.operation.group,
            one.operation.flows,
            one.operation.docs.extension,
            one.operation.common.closed_errors,
        )
        for one in bound()
        if one.operation.path != TEST_CLOCK_PATH
    }


@cache
def bound() -> Sequence[Bound]:
    """Every endpoint, ready for a look at its declaration."""
    return bind(all_endpoints())


def groups() -> Mapping[str, list[Described]]:
    """The operations of the documented groups, by group."""
    found: dict[str, list[Described]] = {}
    for one in operations().values():
        found.setdefault(one.group, []).append(one)
    return dict(sorted(found.items()))


def of_flow(flow: str, *, closed: bool) -> list[str]:
    """Ids of the operations of a flow whose errors have the closed, or the standard, envelope (G-018)."""
    return [name for name, one in operations().items() if flow in one.flows and one.closed_errors is closed]


def refusals(flow: str, status: int | None = None) -> list[Remedy]:
    """The codes of the operations of a flow, by status and code. `status` picks one status."""
    found = _listed({one.name: error_codes(one) for one in bound() if flow in one.operation.flows})
    return [one for one in found if status in {None, one.known.status}]


def refusals_of(*ids: str) -> list[Remedy]:
    """The codes of these operations, by status and code."""
    return _listed({one.name: error_codes(one) for one in bound() if one.name in ids})


def _listed(codes_of: Mapping[str, Sequence[str]]) -> list[Remedy]:
    named: dict[str, list[str]] = {}
    for name, codes in codes_of.items():
        for code in codes:
            named.setdefault(code, []).append(name)
    codes = sorted(named, key=lambda code: (CATALOGUE[code].status, code))
    return [Remedy(code, CATALOGUE[code], tuple(named[code])) for code in codes]


def form(schema: Mapping[str, Any]) -> str:
    """The form of a value in words: its type or values, and its bounds. A shape is named, and linked by its name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if values:
        return " or ".join(f"`{value}`" for value in values)
    if "anyOf" in schema:
        return " or ".join(form(branch) for branch in schema["anyOf"])
    if schema.get("type") == "array":
        counts = [
            f"{word} {schema[key]}"
            for key, word in (("minItems", "at least"), ("maxItems", "at most"))
            if key in schema
        ]
        return " ".join(["list of", form(schema["items"]), *counts])
    bounds = [f"{word} {schema[key]}" for key, word in _BOUNDS if key in schema]
    members = schema.get("additionalProperties")
    kind = f"map of {form(members)}" if members and members is not True else str(schema.get("type", "any value"))
    return ", ".join([kind, *bounds])


_BOUNDS = (
    ("minimum", "at least"),
    ("maximum", "at most"),
    ("minLength", "length at least"),
    ("maxLength", "length at most"),
)


@lru_cache(maxsize=32)
def privacy(at: Installation, query: DisclosureQuery) -> Text:
    """The text of a privacy disclosure."""
    fragments = sorted({*SECRET_FRAGMENTS, *STRING_FRAGMENTS})
    kinds = sorted({form.kind for form in FORMS})
    return render("privacy.md", {"at": at, "query": query, "fragments": fragments, "kinds": kinds})


@lru_cache(maxsize=64)
def text(name: str, at: Installation) -> Text:
    """A text of this installation, rendered once."""
    return render(name, facts(at))


def facts(at: Installation) -> dict[str, Any]:
    """All facts of a template."""
    return {
        "at": at,
        "base": at.base_url,
        "op": operations().__getitem__,
        "groups": groups(),
        "flows": FLOWS,
        "limits": LIMITS,
        "codes": CATALOGUE,
        "of_flow": of_flow,
        "refusals": refusals,
        "refusals_of": refusals_of,
        "form": form,
        "blueprints": blueprints.catalog().blueprints,
        "guidance": {status.value: found for status, found in GUIDANCE.items()},
        "blockers": [blocker.value for blocker in ProofBlocker],
        "proof": {"property": PROOF_PROPERTY, "variable": PROOF_VARIABLE, "header": PROOF_HEADER},
        "playbooks": PUBLISHED,
        "webhook_events": sorted(WEBHOOK_EVENTS),
    }
