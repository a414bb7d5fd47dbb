"""Gathering the facts that readiness is judged by: signal map, settings, events, credentials, provider (G-101).

Validate judges what one read shows. Enable looks the same rows up again under its gate, where no credential can be
revoked meanwhile; that an event was observed stays true, so it is read before and handed in.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec
import psycopg
from psycopg_pool import PoolTimeout

from projections.analytics import CONNECTIONS, ConnectionRow
from projections.cases import PROVIDER_LOOKS, ProviderLookRow
from projections.contracts import AUTOMATION_CONTRACTS, AutomationContractRow, AutomationRow
from projections.credentials import CI_BINDINGS, CiBindingsRow, CredentialRow
from projections.credentials import CREDENTIALS as CREDENTIAL_PROJECTION
from projections.onboarding import SIGNAL_MAPS, SignalMapRow
from projections.projects import PROJECT_SETTINGS, SettingsRow
from schemas.contracts import contract as wire
from schemas.contracts.playbook import Playbook, PlaybookEndpoints, PlaybookRef, RelatedOperation
from schemas.kernel.shape import shape_from
from service.analytics.connection import current_connection
from service.auth.authority import carry_out
from service.contracts.sample_sizes import ProposalBasis, Proposals
from service.eventstore.declare.commands import Intent, Lookup, OutcomeUnknown, Unit
from service.eventstore.declare.faults import StreamFault
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone, ReadNotDone
from service.history.as_of import RowSource
from service.history.audit import Report, unreported
from service.sql import load_query
from statemachines.contracts import contract, documents, stop
from statemachines.contracts.playbook import Template, template_hash, versions_of
from statemachines.contracts.stop import InstallationStop
from statemachines.credentials import binding as bindings
from statemachines.credentials.credential import CI, RUNNER
from statemachines.kernel.machine import Rejection, is_stale
from statemachines.kernel.shapes import json_schema
from statemachines.onboarding import signal_map as signal_maps
from statemachines.projects import settings

CREDENTIALS = CREDENTIAL_PROJECTION

# Of each kind and automation the credential that lives longest: it is live if any is.
_LASTING = (
    "t.project_id = %s and t.id in (select distinct on (c.kind, c.automation_id) c.id from credentials c "
    "where c.project_id = %s and c.revoked_at is null and (c.kind = %s or c.automation_id = any(%s)) "
    "order by c.kind, c.automation_id, c.expires_at desc)"
)
_OBSERVED = load_query("contracts", "observed")


class ProjectEvidence(NamedTuple):
    """Facts of a project, read before any lock."""

    project_id: str
    signal_map: SignalMapRow | None
    credentials: Sequence[CredentialRow]
    bindings: CiBindingsRow | None
    ingested: frozenset[str]  # names that this service has received
    settings: SettingsRow | None
    connection: ConnectionRow | None
    look: ProviderLookRow | None

    def facts(self, now: int) -> documents.Facts:
        """The facts at a time in epoch seconds."""
        return _judge(self, now)

    @property
    def lookups(self) -> list[Lookup]:
        """The rows that `facts_under_locks` reads."""
        found = [Lookup(CREDENTIALS, self.project_id, row.id) for row in self.credentials]
        if self.connection is not None:
            found.append(Lookup(CONNECTIONS, self.project_id, self.connection.id))
        found.append(Lookup(CI_BINDINGS, *_bindings_of(self.project_id)))
        found.append(Lookup(PROVIDER_LOOKS, self.project_id, self.project_id))
        found.append(Lookup(PROJECT_SETTINGS, *_settings_of(self.project_id)))
        return [*found, Lookup(SIGNAL_MAPS, *_map_of(self.project_id))]

    def facts_under_locks(self, unit: Unit) -> documents.Facts:
        """The facts as the rows stand inside a command."""
        rows = [unit.row(CREDENTIALS, self.project_id, row.id) for row in self.credentials]
        now_there = self._replace(
            signal_map=unit.row(SIGNAL_MAPS, *_map_of(self.project_id)),
            credentials=[row for row in rows if row is not None],
            bindings=unit.row(CI_BINDINGS, *_bindings_of(self.project_id)),
            settings=unit.row(PROJECT_SETTINGS, *_settings_of(self.project_id)),
            connection=self.connection and unit.row(CONNECTIONS, self.project_id, self.connection.id),
            look=unit.row(PROVIDER_LOOKS, self.project_id, self.project_id),
        )
        return now_there.facts(unit.now)


async def gather(
    store: EventStore, project_id: str, automations: Iterable[documents.SavedAutomation]
) -> ProjectEvidence:
    """Read the facts for the readiness of these automations."""
    chosen = list(automations)
    ids = [automation.automation_id for automation in chosen]
    names = sorted({event for automation in chosen for event in documents.events_of(automation)})
    return ProjectEvidence(
        project_id=project_id,
        signal_map=await store.get(SIGNAL_MAPS, *_map_of(project_id)),
        credentials=await store.find(CREDENTIALS, _LASTING, project_id, project_id, CI, ids),
        bindings=await store.get(CI_BINDINGS, *_bindings_of(project_id)),
        ingested=frozenset(name for (name,) in await store.fetch(_OBSERVED, names=names, project_id=project_id)),
        settings=await store.get(PROJECT_SETTINGS, *_settings_of(project_id)),
        connection=await current_connection(store, project_id),
        look=await store.get(PROVIDER_LOOKS, project_id, project_id),
    )


def _map_of(project_id: str) -> tuple[str, str]:
    return signal_maps.stream(project_id).name


def _bindings_of(project_id: str) -> tuple[str, str]:
    return bindings.stream(project_id).name


def _settings_of(project_id: str) -> tuple[str, str]:
    return settings.stream(project_id).name


def _judge(evidence: ProjectEvidence, now: int) -> documents.Facts:
    signal_map = evidence.signal_map
    receipt = None if signal_map is None else signal_map.receipt
    proven = () if receipt is None else receipt.analytics
    live = [row for row in evidence.credentials if row.active(now)]
    return documents.Facts(
        proven_by=None if signal_map is None or receipt is None else signal_map.evidence_source,
        required_evidence=None if evidence.settings is None else evidence.settings.required_evidence_source,
        provider_stale=_is_stale(evidence, now),
        approved_events=frozenset(() if signal_map is None else (m.event for m in signal_map.plan.milestones)),
        # A verified receipt counted rows of each of its events, at the provider that the service may only read.
        observed_events=evidence.ingested | {seen.event for seen in proven},
        ci_credential=any(row.kind == CI for row in live) or bool(evidence.bindings and evidence.bindings.bindings),
        runner_credentials=frozenset(
            row.automation_id for row in live if row.kind == RUNNER and row.automation_id is not None
        ),
    )


def _is_stale(evidence: ProjectEvidence, now: int) -> bool:
    """Whether the exceptions of the connected provider were read too long ago, or never since it was connected."""
    connection, look = evidence.connection, evidence.look
    if connection is None or connection.status != "connected":
        return False
    return is_stale(None if look is None else look.read_to, connection.connected_at or 0, now)


# Automation contracts: saved disabled, enabled, paused, stopped, read and shown (G-101, G-103). Save, pause and
# disable are fences of the project: when one is acknowledged, nothing that began under the former contract can
# commit any more. Enable grants authority and takes none away, so it is an ordinary command.

# What may be done to an automation contract: save it disabled, enable, pause, turn one automation off (G-101, G-103).


class Saved(NamedTuple):
    """The contract as it was saved, and whether it is the project's first."""

    row: AutomationContractRow
    first: bool


class Enabled(NamedTuple):
    """The contract as it stands, the receipt of the enable, and whether that had been carried out before."""

    row: AutomationContractRow
    receipt: wire.EnableReceipt
    replay: bool


def save(project_id: str, document: documents.Document, *, if_match: str | None, saved_by: str) -> Intent[Saved]:
    """Save a contract with everything off, the first or in place of the current one (R-AUT-02 to R-AUT-04).

    `saved_by` is a user id. Refused as decide_save refuses.
    """
    stream = contract.stream(project_id)

    def decide(unit: Unit) -> Saved:
        state = unit.state(stream)
        events = contract.decide_save(
            state, document, contract_id=stream.id, if_match=if_match, saved_by=saved_by, now=unit.now
        )
        unit.append(stream, events)
        return Saved(_row(unit, project_id), state.status is contract.Status.ABSENT)

    return Intent([stream], decide, fence=True, saves=True)


async def enable(store: EventStore, project_id: str, wish: contract.EnableWish, *, enabled_by: str) -> Intent[Enabled]:
    """Turn automations on, exactly as reviewed; the same wish again turns nothing on (R-AUT-05).

    `enabled_by` is a user id. Refused as decide_enable refuses, and while the installation is stopped.
    """
    stream, stopped = contract.stream(project_id), stop.stream()
    row = await store.get(AUTOMATION_CONTRACTS, project_id, stream.id)
    # Of a contract that is replaced after this read, the etag sent is stale: nothing is decided by these facts then.
    automations = [] if row is None else [automation.saved for automation in row.automations]
    evidence = await gather(store, project_id, automations)

    def decide(unit: Unit) -> Enabled:
        facts = evidence.facts_under_locks(unit)
        events = contract.decide_enable(unit.state(stream), wish, facts, enabled_by=enabled_by, now=unit.now)
        if events:
            stop.require_lifted(unit.state(stopped))
        unit.append(stream, events)
        kept = kept_receipt(unit, project_id, wish)
        assert kept is not None, "an enable that was carried out has its receipt"
        return Enabled(_row(unit, project_id), kept.receipt, replay=not events)

    return Intent([stream], decide, reads=[stopped], lookups=evidence.lookups, gates=[stop.GATE])


def enabled_before(unit: Unit, project_id: str, wish: contract.EnableWish, answered: wire.EnableReceipt) -> Enabled:
    """Answer an enable that was carried out before: its receipt, and the contract as it stands now."""
    kept = kept_receipt(unit, project_id, wish)
    return Enabled(_row(unit, project_id), answered if kept is None else kept.receipt, replay=True)


def kept_receipt(unit: Unit, project_id: str, wish: contract.EnableWish) -> contract.KeptReceipt | None:
    """The receipt that the contract keeps of a wish, if it still does."""
    return contract.find_receipt(unit.state(contract.stream(project_id)), wish.command)


def pause(project_id: str, *, reason: str | None, paused_by: str) -> Intent[AutomationContractRow]:
    """Stop everything, whatever revision the contract is at (R-AUT-06). Raises ContractNotFound."""
    stream = contract.stream(project_id)

    def decide(unit: Unit) -> AutomationContractRow:
        unit.append(stream, contract.decide_pause(unit.state(stream), reason=reason, paused_by=paused_by, now=unit.now))
        return _row(unit, project_id)

    return Intent([stream], decide, fence=True)


def disable(
    project_id: str, automation_id: str, *, reason: str | None, if_match: str | None, disabled_by: str
) -> Intent[AutomationContractRow]:
    """Disable one automation at the revision that was read (R-AUT-07). Refused as decide_disable refuses."""
    stream = contract.stream(project_id)

    def decide(unit: Unit) -> AutomationContractRow:
        events = contract.decide_disable(
            unit.state(stream),
            automation_id,
            reason=reason,
            if_match=if_match,
            disabled_by=disabled_by,
            now=unit.now,
        )
        unit.append(stream, events)
        return _row(unit, project_id)

    return Intent([stream], decide, fence=True)


def record_stop(why: str) -> Intent[InstallationStop]:
    """Stop all enabling in this installation. No earlier enable commits after it (G-148)."""
    stream = stop.stream()

    def decide(unit: Unit) -> InstallationStop:
        state: InstallationStop = unit.append(stream, stop.decide_stop(unit.state(stream), why=why, now=unit.now))
        return state

    return Intent([stream], decide, fence=stop.GATE)


def record_resume() -> Intent[InstallationStop]:
    """Lift the stop of the installation, and nothing else (G-148)."""
    stream = stop.stream()

    def decide(unit: Unit) -> InstallationStop:
        state: InstallationStop = unit.append(stream, stop.decide_resume(unit.state(stream), now=unit.now))
        return state

    return Intent([stream], decide, fence=stop.GATE)


def _row(unit: Unit, project_id: str) -> AutomationContractRow:
    row = unit.row(AUTOMATION_CONTRACTS, project_id, contract.stream(project_id).id)
    assert row is not None, "a saved contract has a row"
    return row


# Stopping every automation of an installation, one contract after the other (G-148). The stop of the installation
# comes first and is a fence: from its commit on nobody can enable a contract, so what is enabled then only becomes
# less. Each contract is then paused by the command that its members would send; one that is busy is tried again after
# the others, and what could not be paused is told.

ACTOR = "operator"
AT_ONCE = 4  # as many as the fence lane takes up
ROUNDS = 5
PAUSE_SECONDS = 0.5  # before what was busy is tried again

_ENABLED = load_query("contracts", "enabled")
_BUSY = (CommandNotDone, OutcomeUnknown, ReadNotDone, PoolTimeout, psycopg.OperationalError)


class NotStopped(NamedTuple):
    """A project whose contract could not be paused, with the code of the reason."""

    project_id: str
    why: str


class StopTally(NamedTuple):
    """The result of a stop of the installation: the projects with paused contracts, and the failures."""

    stop: InstallationStop
    paused: list[str]
    not_stopped: list[NotStopped]


async def stop_installation(store: EventStore, why: str, progress: Report = unreported) -> StopTally:
    """Stop every automation of the installation; `why` is kept with each event. Raises what the store raises."""
    stop = await carry_out(store, ACTOR, "pause --all", record_stop(why))
    paused: list[str] = []
    failed: dict[str, NotStopped] = {}
    for attempt in range(ROUNDS):
        found = [project_id for (project_id,) in await store.fetch(_ENABLED)]
        if not found or (attempt and all(project_id in failed for project_id in found)):
            break
        if attempt:
            await asyncio.sleep(PAUSE_SECONDS)
        await _pause_each(store, found, why, paused, failed, progress)
    left = {project_id for (project_id,) in await store.fetch(_ENABLED)}
    busy = [NotStopped(project_id, "service_unavailable") for project_id in sorted(left - failed.keys())]
    return StopTally(
        stop, sorted(set(paused) - left), [*(failed[name] for name in sorted(failed.keys() & left)), *busy]
    )


async def resume_installation(store: EventStore) -> InstallationStop:
    """Lift the stop; every contract stays paused until its owner enables it. Raises what the store raises."""
    return await carry_out(store, ACTOR, "resume --all", record_resume())


async def _pause_each(
    store: EventStore,
    projects: Sequence[str],
    why: str,
    paused: list[str],
    failed: dict[str, NotStopped],
    progress: Report,
) -> None:
    """Pause these contracts, some at a time. One that is busy is left for another round."""
    room = asyncio.Semaphore(AT_ONCE)
    done = 0

    async def one(project_id: str) -> None:
        nonlocal done
        async with room:
            try:
                intent = pause(project_id, reason=why, paused_by=ACTOR)
                await carry_out(store, ACTOR, "pause --all", intent, project=project_id)
                paused.append(project_id)
            except contract.ContractNotFound:
                pass  # Its project went meanwhile.
            except Rejection as refused:
                failed[project_id] = NotStopped(project_id, refused.code)
            except StreamFault as fault:
                failed[project_id] = NotStopped(project_id, fault.code)
            except _BUSY:
                pass
        done += 1
        progress(done, len(projects))

    await asyncio.gather(*(one(project_id) for project_id in projects))


# Reads of the automation contract: as it was saved, and what an input would still need (R-AUT-01, R-AUT-04).


class Examined(NamedTuple):
    """An input held against the server's own rendering, and what its automations still need."""

    entries: list[Any]
    checked: documents.Checked
    gaps: list[wire.AutomationGap]
    basis: ProposalBasis

    @property
    def valid(self) -> bool:
        """Whether it could be saved."""
        return not self.checked.errors


async def find_contract(rows: RowSource, project_id: str) -> AutomationContractRow:
    """Read the contract of a project. Raises ContractNotFound."""
    row = await rows.get(AUTOMATION_CONTRACTS, project_id, contract.stream(project_id).id)
    if row is None:
        raise contract.ContractNotFound(
            "The project has no automation contract.", next_action="Render a playbook and save the contract."
        )
    return row


async def examine(store: EventStore, project_id: str, entries: list[Any], checked: documents.Checked) -> Examined:
    """Find everything that an enable of checked entries would miss, beside what a save would refuse (R-AUT-01)."""
    evidence = await gather(store, project_id, checked.automations)
    now = await store.now()
    facts = evidence.facts(now)
    gaps = [
        wire.AutomationGap(automation.automation_id, gap.code, gap.message)
        for automation in checked.automations
        for gap in documents.find_gaps(automation, facts)
    ]
    gaps += [
        wire.AutomationGap(automation_id, documents.WORKFLOW, "The workflow is not the one that this playbook enables.")
        for automation_id in checked.other_workflows
    ]
    mapped = None if evidence.signal_map is None else evidence.signal_map.plan.deploy.environment
    maximum = None if evidence.settings is None else evidence.settings.maximum_error_probability
    return Examined(entries, checked, gaps, ProposalBasis(now, mapped, None if maximum is None else float(maximum)))


# The automation contract and the playbooks on the wire.

OperationIds = Mapping[tuple[str, str], str]
"""Ids of the API's operations by method and path."""

_NEXT = {
    contract.Status.DISABLED.value: "Create the runner credentials, review the contract, and have an owner enable it.",
    contract.Status.ENABLED.value: "Let your scheduler wake each runner. Pause stops everything at once.",
    contract.Status.PAUSED.value: "Everything is off until an owner reviews this contract and enables it again.",
}


def shown_contract(row: AutomationContractRow) -> wire.AutomationContract:
    """The artifact as clients see it."""
    return shape_from(
        wire.AutomationContract,
        row,
        contract_id=row.id,
        revision=row.state_revision,
        enabled=any(automation.enabled for automation in row.automations),
        paused=row.paused_at is not None,
        automations=[_automation(automation) for automation in row.automations],
        next_action=_NEXT[row.status],
    )


def disabled(row: AutomationContractRow) -> wire.DisabledContract:
    """The artifact after a disable; the caller fills in the effects started before."""
    shown = shown_contract(row)
    return wire.DisabledContract(**{name: getattr(shown, name) for name in shown.__struct_fields__}, fence=_fence(row))


def _fence(row: AutomationContractRow) -> wire.FenceEvent:
    """The contract's last event. The stop holds from it on."""
    return wire.FenceEvent(stream_id=row.id, revision=row.revision)


def effects(found: Iterable[Sequence[Any]]) -> list[wire.StartedEffect]:
    """Effects that had begun, as the sweep reads them."""
    return [
        wire.StartedEffect(kind, automation_id, run_id, grant_id, status, at)
        for _, automation_id, run_id, grant_id, kind, status, at in found
    ]


def _automation(row: AutomationRow) -> wire.ContractAutomation:
    saved = row.saved
    return wire.ContractAutomation(
        # Ids of published playbooks only: nothing else is ever saved.
        playbook=msgspec.convert(
            {"id": saved.playbook_id, "version": saved.playbook_version, "template_hash": saved.template_hash},
            PlaybookRef,
        ),
        bindings=msgspec.json.decode(saved.bindings),
        readiness_assertions=msgspec.json.decode(saved.readiness_assertions),
        policy=msgspec.json.decode(saved.policy),
        automation_id=saved.automation_id,
        enabled=row.enabled,
        enabled_at=row.enabled_at,
        disabled_at=row.disabled_at,
        disabled_reason=row.disabled_reason,
        policy_sha256=saved.policy_sha256,
    )


def validation(project_id: str, examined: Examined, proposals: Proposals) -> wire.ContractValidation:
    """What a save would refuse and an enable would miss."""
    valid = examined.valid
    if valid:
        next_action = "An owner can save this input with PUT. It stays disabled until an owner enables it."
    else:
        next_action = "Correct the errors by their paths, or render the playbook again and use its entry unchanged."
    return wire.ContractValidation(
        valid=valid,
        project_id=project_id,
        errors=[wire.ContractProblem(*problem) for problem in examined.checked.errors[: wire.MAX_ERRORS]],
        readiness=wire.Readiness(ready=valid and not examined.gaps, gaps=examined.gaps),
        contract_sha256=documents.make_document(examined.entries, examined.checked).contract_sha256 if valid else None,
        proposed_sample_sizes=proposals.sizes,
        warnings=proposals.warnings,
        next_action=next_action,
    )


def enabled(result: Enabled) -> wire.EnableAnswer:
    """The receipt of an enable beside the contract as it stands."""
    shown = shown_contract(result.row)
    still = shown.etag == result.receipt.etag
    return wire.EnableAnswer(
        enable_receipt=result.receipt,
        contract=shown,
        idempotent_replay=result.replay,
        next_action=(
            "Let the scheduler wake the runner of each enabled automation."
            if still
            else "The contract has changed since this receipt. Read its present state here first."
        ),
    )


def paused(row: AutomationContractRow) -> wire.PauseAnswer:
    """The contract after a pause."""
    shown = shown_contract(row)
    assert shown.paused_at is not None, "a paused contract says since when"
    return wire.PauseAnswer(contract=shown, paused_at=shown.paused_at, fence=_fence(row), next_action=shown.next_action)


@cache
def _versions(template_id: str) -> list[str]:
    return [published.version for published in versions_of(template_id)]


def playbook(template: Template, operation_ids: OperationIds) -> Playbook:
    """Catalogue entry of one version (G-117)."""
    versions = _versions(template.id)
    return shape_from(
        Playbook,
        template,
        latest=template.version == versions[-1],
        render_request_schema=json_schema(template.request),
        run_output_schema=json_schema(template.output),
        related_operations=[
            RelatedOperation(operation_ids[method, path], method, path) for method, path in template.operations
        ],
        latest_version=versions[-1],
        available_versions=versions,
        endpoints=PlaybookEndpoints(
            detail=f"/v1/automation-playbooks/{template.id}",
            render=f"/v1/projects/{{project_id}}/automation-playbooks/{template.id}/render",
        ),
        template_hash=template_hash(template.id, template.version),
    )
