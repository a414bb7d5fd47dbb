"""Published shapes of renders and contracts are those that the service takes, apart from rules that have names here.

A schema says what one value may be. What several values have to agree on, and what a text means, no schema can say.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from typing import Any, get_args, get_type_hints

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from schemas.contracts.contract import ContractInput, ErrorToDraftPrVersion, WeeklyFunnelReviewVersion
from schemas.contracts.playbook import RenderRequest
from service.http.app import schema_documents
from service.http.document.schema_filters import operations, select
from service.http.edge.routes import all_endpoints, bind
from statemachines.contracts.documents import DUPLICATE, check_contract, contract_input
from statemachines.contracts.playbook import (
    LOCKED,
    PUBLISHED,
    assemble_entry,
    check_assertions,
    check_bindings,
    find_template,
    reference,
)
from statemachines.kernel.shapes import INVALID, Problem, problems
from tests.support import few_or_many
from tests.support.playbook_samples import (
    AUTO_MERGE,
    CASE,
    EXECUTIONS,
    REVIEW,
    VERSIONS,
    assertions_of,
    bindings_of,
    case_assertions,
    put,
    render_request,
)

DOCUMENT = schema_documents().at("https://service.example")
OPERATIONS = {operation["operationId"]: (path, method) for path, method, operation in operations(DOCUMENT)}
RENDER, SAVE = "render_automation_playbook", "put_automation_contract"
CONFIRMED = dict.fromkeys(("provider_auto_merge_access_confirmed", "branch_protection_required_checks_confirmed"), True)
BINDINGS = {
    **{f"{CASE} by {kind}": (CASE, kind) for kind in EXECUTIONS},
    **{f"{REVIEW} by {kind}": (REVIEW, kind) for kind in EXECUTIONS},
}


def bound(playbook: str, provider: str, *, auto_merge: bool = False) -> tuple[dict[str, Any], dict[str, bool]]:
    """Valid bindings for one kind of worker, with the assertions that they need."""
    bindings = put(bindings_of(playbook), "execution", EXECUTIONS[provider])
    bindings = put(put(bindings, "runner.provider", provider), "runner.environment", "production")
    if not auto_merge:
        return bindings, assertions_of(playbook)
    return {**bindings, "code_delivery": AUTO_MERGE}, {**case_assertions(), **CONFIRMED}


BOUND = {
    **{name: (playbook, *bound(playbook, provider)) for name, (playbook, provider) in BINDINGS.items()},
    f"{CASE} as it is": (CASE, bindings_of(CASE), assertions_of(CASE)),
    f"{CASE} with auto-merge": (CASE, *bound(CASE, "custom", auto_merge=True)),
}
REQUESTS = {
    name: {"version": VERSIONS[playbook], "bindings": bindings, "readiness_assertions": assertions}
    for name, (playbook, bindings, assertions) in BOUND.items()
}
CONTRACTS = {
    name: contract_input([assemble_entry(find_template(playbook), bindings, assertions)])
    for name, (playbook, bindings, assertions) in BOUND.items()
}


def validator(operation_id: str) -> Any:
    """The published schema of an operation's body."""
    path, method = OPERATIONS[operation_id]
    document = select(DOCUMENT, path=path, method=method)
    schema = document["paths"][path][method]["requestBody"]["content"]["application/json"]["schema"]
    return jsonschema_rs.Draft202012Validator({**schema, "components": document["components"]})


ASKED, SAVED = validator(RENDER), validator(SAVE)


def faults_of_render(body: Any) -> list[Problem]:
    """What a render refuses, with the playbook of the version in its path."""
    found = problems(RenderRequest, body, "")
    if found:
        return found
    template = find_template(REVIEW if body["version"] == VERSIONS[REVIEW] else CASE)
    if body["version"] != template.version:
        found.append(Problem("version", INVALID, ""))
    bindings, assertions = body["bindings"], body["readiness_assertions"]
    found += check_bindings(template, bindings, "bindings")
    return found + check_assertions(template, assertions, bindings, "readiness_assertions")


def faults_of_contract(body: Any) -> list[Problem]:
    """What a save refuses, and a validation names."""
    return problems(ContractInput, body, "") or check_contract(body["automations"]).errors


def at(body: Any, path: str) -> Any:
    """The value that a fault is about."""
    for name in re.findall(r"[^.\[\]]+", path):
        body = body[int(name)] if isinstance(body, list) else body.get(name)
    return body


def says(message: str) -> Callable[[Any, Problem], bool]:
    return lambda _, fault: fault.message == message


RULES: dict[str, Callable[[Any, Problem], bool]] = {
    "a whole number has no fraction, not even .0": lambda body, fault: isinstance(at(body, fault.path), float),
    "the worker that is started is the one that works": says("Must equal runner.provider."),
    "a repository has a host, and a port that exists": says("Must name a host, and a valid port if any."),
    "a wait is not shorter than what it waits for": says("Must be at least observation_window_seconds."),
    "a schedule fires, in a time zone that exists": lambda _, fault: fault.path.endswith(
        (".schedule.cron", ".schedule.timezone")
    ),
    "auto-merge needs two more assertions": says("Must be true when code_delivery is auto_merge."),
    "a policy is the one that the bindings give": lambda _, fault: ".policy" in fault.path and fault.code == LOCKED,
    "ids of automations differ": lambda _, fault: fault.code == DUPLICATE,
}
"""What the service demands and no schema can say, each with the faults that it gives."""


def unnamed(body: Any, faults: list[Problem]) -> list[Problem]:
    """The faults of no rule above."""
    return [fault for fault in faults if not any(rule(body, fault) for rule in RULES.values())]


def agree(body: Any, schema: Any, faults: list[Problem]) -> None:
    """Fail where the schema refuses what the service takes, or takes what it refuses by no rule with a name."""
    if schema.is_valid(body):
        assert unnamed(body, faults) == []
    else:
        assert faults != [], [str(error)[:300] for error in schema.iter_errors(body)]


# ---- every valid body, and one for each rule


@pytest.mark.parametrize("name", BOUND)
def test_what_the_service_takes_fits(name: str) -> None:
    assert (faults_of_render(REQUESTS[name]), faults_of_contract(CONTRACTS[name])) == ([], [])
    ASKED.validate(REQUESTS[name])
    SAVED.validate(CONTRACTS[name])


BROKEN = {
    "a whole number has no fraction, not even .0": {"budgets.max_runs_per_day": 10.0},
    "the worker that is started is the one that works": {"runner.provider": "coding_agent_b"},
    "a repository has a host, and a port that exists": {"runner.repository": "https://code.example:99999/acme"},
    "a wait is not shorter than what it waits for": {"verification.max_wait_seconds": 60},
    "a schedule fires, in a time zone that exists": {"schedule.cron": "0 9 31 2 *", "schedule.timezone": "Mars/Base"},
    "auto-merge needs two more assertions": {"code_delivery": AUTO_MERGE},
}


@pytest.mark.parametrize("rule", BROKEN)
def test_a_rule_is_beyond_the_schema(rule: str) -> None:
    """Each rule in the list is one that a body breaks alone, and that the schema lets pass."""
    for name, value in BROKEN[rule].items():
        request = render_request(REVIEW if name.startswith("schedule") else CASE)
        if name == "code_delivery":
            request["bindings"]["code_delivery"] = value
        else:
            request = put(request, f"bindings.{name}", value)
        faults = faults_of_render(request)
        assert faults, name
        assert all(RULES[rule](request, fault) for fault in faults), faults
        ASKED.validate(request)


def test_a_rule_of_a_contract_is_beyond_the_schema() -> None:
    """What entries owe to each other and to their own bindings."""
    [entry] = CONTRACTS[f"{CASE} as it is"]["automations"]
    for rule, entries in {
        "a policy is the one that the bindings give": [put(entry, "policy.name", "Another")],
        "ids of automations differ": [entry, entry],
    }.items():
        body = contract_input(entries)
        faults = faults_of_contract(body)
        assert len(faults) == 1
        assert RULES[rule](body, faults[0]), rule
        SAVED.validate(body)
    assert BROKEN.keys() < RULES.keys()


@pytest.mark.parametrize("playbook", VERSIONS)
def test_the_published_version_is_bound(playbook: str) -> None:
    """By the hash that stands in every contract."""
    shape = {CASE: ErrorToDraftPrVersion, REVIEW: WeeklyFunnelReviewVersion}[playbook]
    told = {name: get_args(hint)[0] for name, hint in get_type_hints(shape).items()}
    assert told == {name: getattr(reference(find_template(playbook)), name) for name in told}
    assert {template.id for template in PUBLISHED} == VERSIONS.keys()


# ---- bodies from nowhere

JUNK = (
    *(None, True, False, 0, 1, -1, 5.0, 0.5, 10**6, 2**53 - 1, [], {}, [""], {"x": 1}),
    *("", "x", "x\n", " ", "a b", "4.0.0", "2.0.0", "x" * 201, "x" * 2001, "\u00a0", "\ufeff", "\x85", "é\u2028"),
    *("https://code.example/a", "https://u@code.example", "https://code.example?x", "0 9 * * *", "squash"),
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a JSON document has a value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*path, key))


@st.composite
def changed(draw: st.DrawFn, bodies: dict[str, Any]) -> Any:
    """A valid body with one to three changes: a value replaced, removed, added or doubled."""
    body = {"": copy.deepcopy(bodies[draw(st.sampled_from(sorted(bodies)))])}
    for _ in range(draw(st.integers(1, 3))):
        spots = [path for path in places(body) if path]
        *above, last = draw(st.sampled_from(spots))
        parent: Any = body
        for key in above:
            parent = parent[key]
        match draw(st.sampled_from(["replace", "replace", "remove", "add", "double", "elsewhere"])):
            case "remove" if above:
                del parent[last]
            case "add" if isinstance(parent[last], dict):
                parent[last][draw(st.sampled_from(["mode", "enabled", "more", "environment"]))] = "x"
            case "double" if isinstance(parent[last], list):
                parent[last] = parent[last] * 2
            case "elsewhere":
                source: Any = body
                for key in draw(st.sampled_from(spots)):
                    source = source[key]
                parent[last] = copy.deepcopy(source)
            case _:
                parent[last] = copy.deepcopy(draw(st.sampled_from(JUNK)))
    return body[""]


many = few_or_many(30, 150, deadline=None, suppress_health_check=list(HealthCheck))


@many
@given(changed(REQUESTS))
def test_changed_requests_are_judged_alike(body: Any) -> None:
    agree(body, ASKED, faults_of_render(body))


@many
@given(changed(CONTRACTS))
def test_changed_contracts_are_judged_alike(body: Any) -> None:
    agree(body, SAVED, faults_of_contract(body))


def test_the_operations_share_one_shape() -> None:
    """Validate takes what a save takes, and so does a back-test, with the days beside it."""
    paths = DOCUMENT["paths"]
    bodies = {
        name: paths[path][method]["requestBody"]["content"]["application/json"]["schema"]
        for name, (path, method) in OPERATIONS.items()
        if name in {SAVE, "validate_automation_contract", "backtest_automation_contract"}
    }
    assert bodies[SAVE] == bodies["validate_automation_contract"] == {"$ref": "#/components/schemas/ContractInput"}
    components = DOCUMENT["components"]["schemas"]
    entries = [components[bodies[name]["$ref"].rpartition("/")[2]]["properties"]["automations"] for name in bodies]
    assert [one["items"] for one in entries] == [entries[0]["items"]] * 3


def test_alternatives_have_names() -> None:
    """Generators of clients make a type of each: a reference, and never an object without a name."""
    for name in (RENDER, SAVE):
        path, method = OPERATIONS[name]
        text = str(select(DOCUMENT, path=path, method=method))
        for found in re.finditer(r"'(?:oneOf|anyOf)': \[(.*?)\]", text):
            assert "'properties'" not in found[1], found[0]


@pytest.mark.parametrize("name", [RENDER, SAVE])
def test_a_refusal_shows_the_same_shapes(name: str) -> None:
    """Whole, without references."""
    [shown] = [one.body_schema for one in bind(all_endpoints()) if one.name == name]
    whole = jsonschema_rs.Draft202012Validator(shown)
    for body in (REQUESTS if name == RENDER else CONTRACTS).values():
        whole.validate(body)
    assert not whole.is_valid({**body, "more": 1})
