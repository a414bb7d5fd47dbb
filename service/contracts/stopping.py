"""Stopping every automation of an installation, one contract after the other (G-148).

The stop of the installation comes first and is a fence: from its commit on nobody can enable a contract, so what is
enabled then only becomes less. Each contract is then paused by the command that its members would send; one that is
busy is tried again after the others, and what could not be paused is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import psycopg
from psycopg_pool import PoolTimeout

from service.auth.system import carry_out
from service.contracts import commands
from service.eventstore.declare.commands import OutcomeUnknown
from service.eventstore.declare.faults import StreamFault
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.history.audit import Report, unreported
from service.eventstore.store import EventStore
from service.fairness.not_done import CommandNotDone, ReadNotDone
from statemachines.contracts.contract import ContractNotFound
from statemachines.contracts.stop import InstallationStop
from statemachines.kernel.machine import Rejection

ACTOR = "operator"
AT_ONCE = 4  # as many as the fence lane takes up
ROUNDS = 5
PAUSE_SECONDS = 0.5  # before what was busy is tried again

_ENABLED = load_sql("contracts", "enabled")
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
    stop = await carry_out(store, ACTOR, "pause --all", commands.stop_installation(why))
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
    return await carry_out(store, ACTOR, "resume --all", commands.resume_installation())


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
                intent = commands.pause(project_id, reason=why, paused_by=ACTOR)
                await carry_out(store, ACTOR, "pause --all", intent, project=project_id)
                paused.append(project_id)
            except ContractNotFound:
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
