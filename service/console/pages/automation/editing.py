"""The contract in an editor: checked, compared with the saved one, tested on past days, and saved."""

from __future__ import annotations

from typing import Any

from schemas.contracts.contract import ContractInput
from service.console.kit.commands import FormProblem
from service.console.kit.fields import Fields, body_of, first
from service.console.kit.page import View, form, page
from service.console.kit.visit import Visit
from service.console.pages.automation.contract import saved_contract, told
from service.console.pages.automation.documents import document_of
from service.console.texts.differences import written

Json = dict[str, Any]
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


PAGES = [edit_contract]
FORMS = [check_contract, test_contract]
