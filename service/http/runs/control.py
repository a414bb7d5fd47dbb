"""Control: one consistent read of a project's automation at one server time, without side effect (G-102, R-AUT-11)."""

from __future__ import annotations

from itertools import chain

import msgspec

from projections.contracts.contract import AutomationContractRow
from projections.credentials.credential import CredentialRow
from projections.runs.ledger import LedgerRow
from schemas.credentials.credential import CredentialMetadata
from schemas.runs.control import (
    AutomationControl,
    Control,
    ControlAutomation,
    ControlBounds,
    ControlBudget,
    ControlContract,
    ControlException,
    ControlTruncation,
)
from service.eventstore.commands import Answer
from service.http.credentials.credential import metadata_of
from service.http.edge.call import Call
from service.http.edge.declaring import endpoint
from service.http.edge.operations import KEY
from service.http.runs.calls import FLOWS, project_of
from service.runs import exceptions
from service.runs.reading import NOW, RECEIPT_BUNDLE, RUN_BUNDLE, ReceiptBundle, RunBundle, contract_of
from statemachines.contracts.authority import authority_of
from statemachines.contracts.contract import Contract
from statemachines.contracts.cron import next_firing, parse_cron
from statemachines.contracts.documents import read_policy
from statemachines.credentials.credential import RUNNER
from statemachines.runs.ledger import Ledger, ledger_id, window_budgets

BOUNDS = ControlBounds()
SCANNED = 200
"""How many live runs, unfinished grants and open receipts one read looks at for exceptions, the oldest first."""

_RUNS = (
    "select r.* from automation_runs r where r.project_id = p.id and (r.live "
    "or r.phase = 'external_follow_up_required' or exists (select from grants g where g.project_id = r.project_id "
    "and g.run_id = r.id and g.status in ('consumed', 'unresolved'))) order by r.started_at, r.id"
)
_RECEIPTS = (
    "select t.* from trigger_receipts t where t.project_id = p.id and t.status = 'issued' order by t.issued_at, t.id"
)
_CREDENTIALS = (
    "select c.*, u.last_used_at from credentials c left join credential_uses u "
    "on u.project_id = c.project_id and u.id = c.id where c.project_id = p.id order by c.created_at desc, c.id desc"
)
_SNAPSHOT = f"""
select json_build_object(
    'now', {NOW},
    'contract', (select row_to_json(k) from automation_contracts k where k.project_id = p.id),
    'ledgers', (select coalesce(json_agg(row_to_json(l)), '[]') from ledgers l where l.project_id = p.id),
    'credentials', (select coalesce(json_agg(json_build_object('row', row_to_json(c), 'last_used_at', c.last_used_at)),
        '[]') from ({_CREDENTIALS} limit {BOUNDS.max_credentials + 1}) c),
    'runners', (select coalesce(json_agg(distinct c.automation_id), '[]') from credentials c where c.project_id = p.id
        and c.kind = '{RUNNER}' and c.revoked_at is null and c.expires_at > {NOW}),
    'runs', (select coalesce(json_agg({RUN_BUNDLE}), '[]') from ({_RUNS} limit {SCANNED + 1}) r),
    'receipts', (select coalesce(json_agg({RECEIPT_BUNDLE}), '[]') from ({_RECEIPTS} limit {SCANNED + 1}) t)
)::text from projects p where p.id = %s
"""  # noqa: S608 - put together from constants


class _Credential(msgspec.Struct, frozen=True):
    """A credential's row, and when it was last used."""

    row: CredentialRow
    last_used_at: int | None


class _Snapshot(msgspec.Struct, frozen=True):
    """Everything that control shows, as of one statement."""

    now: int
    contract: AutomationContractRow | None
    ledgers: list[LedgerRow]
    credentials: list[_Credential]
    runners: list[str]
    runs: list[RunBundle]
    receipts: list[ReceiptBundle]


@endpoint(
    method="GET",
    path="/v1/projects/{project_id}/automation-control",
    operation_id="get_automation_control",
    group="automation",
    summary="Read contract, budgets, credentials, exceptions and controls at one time",
    principals=KEY,
    responses={200: AutomationControl},
    mutation=False,
    closed_errors=True,
    flows=FLOWS,
)
async def read_control(call: Call[None, None]) -> Answer:
    """Show everything at one server time; there is no queue and nothing to acknowledge."""
    project_id = project_of(call)
    await call.services.authenticator.uses.flush()
    [(text,)] = await call.services.store.fetch(_SNAPSHOT, project_id)
    return Answer(200, show(project_id, msgspec.json.decode(text, type=_Snapshot)))


def show(project_id: str, snapshot: _Snapshot) -> AutomationControl:
    """Put the answer together."""
    contract = contract_of(snapshot.contract)
    budgets = _budgets(project_id, snapshot, contract)
    found = _exceptions(project_id, snapshot, contract, budgets)
    credentials = [
        CredentialMetadata(**metadata_of(item.row, item.last_used_at, snapshot.now)) for item in snapshot.credentials
    ]
    scanned_all = len(snapshot.runs) <= SCANNED and len(snapshot.receipts) <= SCANNED
    return AutomationControl(
        project_id=project_id,
        server_time=snapshot.now,
        contract=None if snapshot.contract is None else _contract(snapshot.contract, snapshot.now),
        budgets=budgets,
        credentials=credentials[: BOUNDS.max_credentials],
        exceptions=found[: BOUNDS.max_exceptions],
        recent_reports=[],
        controls=_controls(project_id),
        bounds=BOUNDS,
        truncation=ControlTruncation(
            credentials=len(credentials) > BOUNDS.max_credentials,
            exceptions=len(found) > BOUNDS.max_exceptions or not scanned_all,
            recent_reports=False,
        ),
        next_action="Look at each exception; pause stops everything at once." if found else "Nothing needs a look now.",
    )


def _contract(row: AutomationContractRow, now: int) -> ControlContract:
    automations = []
    for automation in row.automations:
        policy = read_policy(automation.saved.policy)
        schedule = authority_of(contract_of(row), automation.saved.automation_id).policy
        trigger = None if schedule is None else schedule.schedule_trigger
        automations.append(
            ControlAutomation(
                automation_id=automation.saved.automation_id,
                name=policy.name,
                playbook_id=automation.saved.playbook_id,
                enabled=automation.enabled,
                next_scheduled_for=None
                if trigger is None
                else next_firing(parse_cron(trigger.cron), trigger.timezone, now),
            )
        )
    return ControlContract(
        contract_id=row.id,
        revision=row.state_revision,
        etag=row.etag,
        enabled=any(automation.enabled for automation in row.automations),
        paused=row.paused_at is not None,
        automations=automations,
    )


def _budgets(project_id: str, snapshot: _Snapshot, contract: Contract) -> list[ControlBudget]:
    ledgers = {row.id: row.ledger for row in snapshot.ledgers}
    budgets = []
    for automation in contract.automations:
        automation_id = automation.saved.automation_id
        authority = authority_of(contract, automation_id)
        assert authority.policy is not None, "an automation of the contract has a policy"
        ledger = ledgers.get(ledger_id(project_id, automation_id), Ledger())
        for budget in window_budgets(ledger, authority.policy.limits, authority.generation, snapshot.now):
            budgets.append(ControlBudget(automation_id=automation_id, **budget._asdict()))  # noqa: PERF401
    return budgets


def _exceptions(
    project_id: str, snapshot: _Snapshot, contract: Contract, budgets: list[ControlBudget]
) -> list[ControlException]:
    """Everything that needs a look, the newest first."""
    rows = [] if snapshot.contract is None else snapshot.contract.automations
    enabled = {row.saved.automation_id: row.enabled_at or 0 for row in rows if row.enabled}
    found = chain(
        *(exceptions.of_run(bundle, contract) for bundle in snapshot.runs[:SCANNED]),
        *(exceptions.of_receipt(bundle, contract) for bundle in snapshot.receipts[:SCANNED]),
        exceptions.of_budgets(budgets),
        exceptions.of_credentials(enabled, frozenset(snapshot.runners), project_id),
    )
    return sorted(found, key=lambda item: (-item.since, item.kind, item.automation_id, item.run_id or ""))


def _controls(project_id: str) -> list[Control]:
    """What only reduces authority; templated members stay in braces."""
    contract = f"/v1/projects/{project_id}/automation-contract"
    return [
        Control("pause", "POST", f"{contract}/pause", False, False),
        Control("disable_automation", "PATCH", contract + "/automations/{automation_id}", True, False),
        Control("cancel_run", "POST", "/v1/automation-runs/{run_id}/cancel", False, True),
        Control("release_claim", "POST", "/v1/cases/{case_id}/claims/{claim_id}/release", False, False),
        Control("revoke_credential", "POST", "/v1/project-credentials/{credential_id}/revoke", False, False),
    ]


ENDPOINTS = [read_control]
