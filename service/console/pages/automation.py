"""The automation of a project: its contract, the editor, and the playbooks."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from schemas.contracts.contract import ContractInput
from service.auth.refusals import InvalidPayload
from service.console.kit.page import Fields, FormProblem, View, body_of, first, form, page
from service.console.kit.texts import written
from service.console.kit.visit import ReadRefused, Visit
from statemachines.contracts import contract as contracts

# Contracts as documents: the input of a save, and a merge with a candidate.

Json = dict[str, Any]

POLICY_VERSION = 2
MEMBERS = ("playbook", "bindings", "readiness_assertions", "policy")
"""Of an entry, as a save takes it."""


def document_of(contract: Json | None) -> Json | None:
    """A saved contract as a save would take it."""
    if contract is None:
        return None
    return {"policy_version": POLICY_VERSION, "automations": [_entry(one) for one in contract["automations"]]}


def with_candidate(saved: Json | None, candidate: Json) -> Json:
    """The saved document with the automations of a candidate in it, each in place of the one with its id."""
    new = {_id(entry): entry for entry in candidate["automations"]}
    kept = [] if saved is None else [new.pop(_id(entry), entry) for entry in saved["automations"]]
    return {"policy_version": POLICY_VERSION, "automations": [*kept, *new.values()]}


def _entry(automation: Json) -> Json:
    return {name: automation[name] for name in MEMBERS}


def _id(entry: Json) -> Any:
    bindings = entry.get("bindings") or {}
    return bindings.get("automation_id")


# The automation of a project now: its contract, its budgets, and its exceptions.

ABSENT = "automation_contract_not_found"
MOST_DECISIONS = 20
MOST_PULL_REQUESTS = 20


@page("projects/{project_id}/automation", section="automation")
async def show_automation(visit: Visit) -> View:
    """Show the contract with its controls."""
    project_id = visit.values["project_id"]
    contract = await saved_contract(visit)
    control = await visit.read("get_automation_control", project_id=project_id)
    decisions = await visit.try_read(
        "list_automation_decisions", project_id=project_id, query={"limit": MOST_DECISIONS}
    )
    observed = await visit.try_read(
        "list_pull_request_observations", project_id=project_id, query={"limit": MOST_PULL_REQUESTS}
    )
    playbooks = await visit.read("list_automation_playbooks")
    facts = {
        "contract": contract,
        "control": control,
        "pull_requests": [] if observed is None else observed["pull_requests"],
        "decisions": [] if decisions is None else decisions["decisions"],
        "playbooks": playbooks["playbooks"],
        "validation": await validated(visit, document_of(contract)),
    }
    follows = [contracts.stream(project_id).id]
    return View("automation/contract.html", "Automation", facts, project_id, told(contract), follows)


async def saved_contract(visit: Visit) -> Json | None:
    """The contract of the project; None before the first is saved. Raises ReadRefused."""
    said = await visit.ask("get_automation_contract", {"project_id": visit.values["project_id"]})
    if said.ok:
        found: Json = said.body
        return found
    if said.error["code"] == ABSENT:
        return None
    raise ReadRefused(said)


async def validated(visit: Visit, document: Any) -> Json | None:
    """The validation of a document. None without one, and after a refusal."""
    if document is None:
        return None
    path = {"project_id": visit.values["project_id"]}
    said = await visit.ask("validate_automation_contract", path, body=document)
    return said.body if said.ok else None


def told(contract: Json | None) -> Mapping[str, str]:
    """The facts of a decision."""
    if contract is None:
        return {"Contract": "none saved"}
    on = [one["automation_id"] for one in contract["automations"] if one["enabled"]]
    return {
        "Contract hash": contract["contract_sha256"],
        "Revision": str(contract["revision"]),
        "Enabled": ", ".join(on) or "nothing",
        "Paused": "yes" if contract["paused"] else "no",
    }


# The form of a playbook: its fields after its published schema, and the bindings from the values entered.

FIRST_CHOICES: Mapping[str, Any] = {
    "execution": {"provider": "coding_agent_a"},
    "code_delivery": {"mode": "review_required"},
}
"""First values of the fields in JSON."""


class BindingField(NamedTuple):
    """A field: its name in the form, its label, its kind, its hint, and its options."""

    name: str
    label: str
    kind: str  # text, number, choice, yes_no, lines or json
    hint: str
    required: bool
    options: Sequence[tuple[str, str]] = ()
    value: str = ""


class BindingGroup(NamedTuple):
    """Fields under one title."""

    title: str
    fields: list[BindingField]


def groups_of(schema: Json) -> list[BindingGroup]:
    """The fields of a render request, in groups."""
    bindings, assertions = (schema["properties"][name] for name in ("bindings", "readiness_assertions"))
    plain = list(_fields("bindings", _only(bindings, objects=False)))
    groups = [
        BindingGroup(_label(name), list(_fields(f"bindings.{name}", one)))
        for name, one in bindings["properties"].items()
        if one.get("type") == "object"
    ]
    stated = BindingGroup("What you confirm", list(_fields("readiness_assertions", assertions)))
    return [BindingGroup("General", plain), *groups, stated]


def request_of(fields: Fields, schema: Json) -> Json:
    """The render request as entered. Raises InvalidPayload for broken JSON.

    A text of another type stays a text, for the operation to refuse.
    """
    found = body_of(fields, Json)
    if not isinstance(found, dict):
        raise InvalidPayload("The form is not well-formed.")
    for group in groups_of(schema):
        for field in group.fields:
            _convert(found, field)
    return {"bindings": {}, "readiness_assertions": {}, **found}


def _convert(found: Json, field: BindingField) -> None:
    *way, last = field.name.partition(":")[0].split(".")
    at: Any = found
    for name in way:
        at = at.get(name) if isinstance(at, dict) else None
    if not isinstance(at, dict) or not isinstance(at.get(last), str):
        return
    with suppress(msgspec.ValidationError):
        if field.kind == "number":
            at[last] = msgspec.convert(at[last], int | float, strict=False)
        elif field.kind == "yes_no":
            at[last] = msgspec.convert(at[last], bool, strict=False)


def _only(schema: Json, *, objects: bool) -> Json:
    kept = {name: one for name, one in schema["properties"].items() if (one.get("type") == "object") is objects}
    return {**schema, "properties": kept}


def _fields(path: str, schema: Json) -> Iterator[BindingField]:
    required = schema.get("required", ())
    for name, one in schema["properties"].items():
        if one.get("type") == "object":
            yield from _fields(f"{path}.{name}", one)
        else:
            yield _field(f"{path}.{name}", name, one, required=name in required)


def _field(path: str, name: str, one: Json, *, required: bool) -> BindingField:
    label, hint = _label(name), one.get("description", "")
    match one:
        case {"type": "integer" | "number"}:
            return BindingField(path, label, "number", _bounds(one) or hint, required)
        case {"type": "boolean"}:
            return BindingField(path, label, "yes_no", hint, required, (("true", "Yes"), ("false", "No")))
        case {"enum": [*choices]}:
            return BindingField(
                path, label, "choice", hint, required, [(str(choice), _label(str(choice))) for choice in choices]
            )
        case {"type": "array", "items": {"type": "string"}}:
            return BindingField(f"{path}:lines", label, "lines", "One a line.", required)
        case {"type": "string"}:
            return BindingField(path, label, "text", hint, required)
        case _:
            value = msgspec.json.format(msgspec.json.encode(FIRST_CHOICES.get(name, {}))).decode()
            return BindingField(f"{path}:json", label, "json", "In JSON.", required, (), value)


def _bounds(one: Json) -> str:
    low, high = one.get("minimum", one.get("exclusiveMinimum")), one.get("maximum")
    if low is None or high is None:
        return ""
    return f"{'From' if 'minimum' in one else 'Above'} {low:,} to {high:,}.".replace(",", "\N{NARROW NO-BREAK SPACE}")


def _label(name: str) -> str:
    return name.replace("_", " ").capitalize()


# The contract in an editor: checked, compared with the saved one, tested on past days, and saved.

DAY = 86_400


@page("projects/{project_id}/automation/edit", section="automation")
async def edit_contract(visit: Visit) -> View:
    """Show the saved contract in an editor."""
    return await editor(visit, document_of(await saved_contract(visit)))


@form("projects/{project_id}/automation/check", section="automation")
async def check_contract(visit: Visit, fields: Fields) -> View:
    """Show the faults of the text entered, and its differences. Raises FormProblem and InvalidPayload."""
    document = body_of(fields, ContractInput)
    said = await visit.ask("validate_automation_contract", _path(visit), body=document)
    if not said.ok:
        raise FormProblem(said.status, said.error)
    return await editor(visit, document, validation=said.body)


@form("projects/{project_id}/automation/backtest", section="automation")
async def test_contract(visit: Visit, fields: Fields) -> View:
    """Test the text entered on past days. Raises FormProblem and InvalidPayload."""
    document = body_of(fields, ContractInput)
    entered = first(fields, "_days")
    days: Any = int(entered) if entered.isascii() and entered.isdigit() and len(entered) <= len("90") else entered
    body = {**document, "days": days} if isinstance(document, dict) else document
    said = await visit.ask("backtest_automation_contract", _path(visit), body=body)
    if not said.ok:
        raise FormProblem(said.status, said.error)
    return await editor(visit, document, backtest=said.body)


async def editor(visit: Visit, document: Any, *, validation: Json | None = None, backtest: Json | None = None) -> View:
    """The editor with a document, and with findings about it."""
    project_id = visit.values["project_id"]
    contract = await saved_contract(visit)
    saved = document_of(contract)
    bars = [] if backtest is None else _days(backtest)
    text = written(document)
    facts = {
        "contract": contract,
        "text": text,
        "entered": visit.entered.get(":json", text) if visit.entered else "",  # only what a person enters has faults
        "saved": written(saved),
        "validation": validation,
        "backtest": backtest,
        "bars": bars,
        "most": max((max(receipts, passed) for _, receipts, passed in bars), default=0) or 1,
    }
    visit.place = f"projects/{project_id}/automation/edit"
    return View("automation/edit.html", "Automation contract", facts, project_id, told(contract))


def _days(backtest: Json) -> list[tuple[int, int, int]]:
    """Each day of the period with its receipts and the cases passed over."""
    begin, end = backtest["period_start"], backtest["period_end"]
    starts = range(begin, max(end, begin + 1), DAY)
    receipts, passed = [0] * len(starts), [0] * len(starts)
    for one in backtest["receipts"]:
        receipts[min(max((one["issued_at"] - begin) // DAY, 0), len(starts) - 1)] += 1
    for one in backtest["decisions"]:
        if one["verdict"] == "passed_over":
            passed[min(max((one["decided_at"] - begin) // DAY, 0), len(starts) - 1)] += 1
    return list(zip(starts, receipts, passed, strict=True))


def _path(visit: Visit) -> dict[str, str]:
    return {"project_id": visit.values["project_id"]}


# Playbooks: a description of each, and its form for a candidate.

PLACE = "projects/{project_id}/automation/playbooks/{id}"


@page(PLACE, section="automation")
async def show_playbook(visit: Visit) -> View:
    """Show a playbook with its form. Anybody may read a playbook, but only members see the project around it."""
    project_id = visit.values["project_id"]
    await visit.read("get_setup", project_id=project_id)
    playbook = await visit.read("get_automation_playbook", id=visit.values["id"])
    facts = {"playbook": playbook, "groups": groups_of(playbook["render_request_schema"])}
    return View("automation/playbook.html", playbook["title"], facts, project_id)


@form(PLACE, section="automation")
async def render_candidate(visit: Visit, fields: Fields) -> View:
    """Render a candidate, and show it in the contract. Raises FormProblem, InvalidPayload and ReadRefused."""
    playbook = await visit.read("get_automation_playbook", id=visit.values["id"])
    body = request_of(fields, playbook["render_request_schema"])
    path = {"project_id": visit.values["project_id"], "id": visit.values["id"]}
    said = await visit.ask("render_automation_playbook", path, body={**body, "version": playbook["version"]})
    if not said.ok:
        raise FormProblem(said.status, said.error)
    document = with_candidate(document_of(await saved_contract(visit)), said.body["contract_input"])
    return await editor(visit, document, validation=await validated(visit, document))


PAGES = [show_automation, edit_contract, show_playbook]
FORMS = [check_contract, test_contract, render_candidate]
