"""One attempt to provision: the requests between its intent and its outcome (G-165)."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from service.analytics.connecting.http import Throttled
from service.provider.operator import PROVISION_SECONDS, OperatorProvider
from statemachines.kernel.readings import Cause, ReadFailed
from statemachines.provider.team import BlockReason, FoundTeam, external_name

_REASONS: dict[Cause, BlockReason] = {
    "unconfigured": "unconfigured",
    "unauthorized": "refused",
    "refused": "refused",
    "timeout": "timeout",
    "malformed": "malformed",
    "too_much": "malformed",
}


class NoTeam(NamedTuple):
    """An attempt came to nothing. `wait` are the seconds that the provider asks for, 0 without any.

    `doubtful`: the provider may have created a team all the same.
    """

    reason: BlockReason
    doubtful: bool = False
    wait: int = 0


async def provide_team(
    operator: OperatorProvider, project_id: str, account: str, *, may_create: bool
) -> FoundTeam | NoTeam:
    """Find the project's team by its name, else create it. It takes PROVISION_SECONDS at most.

    With `may_create` false it is only looked for: a creation from before may not show yet.
    """
    name = external_name(project_id)
    until = asyncio.get_running_loop().time() + PROVISION_SECONDS
    found = await operator.find(name, account, until)
    if isinstance(found, FoundTeam):
        return found
    if isinstance(found, ReadFailed):
        return _none(found)
    if not may_create:
        return NoTeam("timeout")
    made = await operator.create(name, account, until)
    return made.outcome if isinstance(made.outcome, FoundTeam) else _none(made.outcome, doubtful=made.doubtful)


def _none(failed: ReadFailed, *, doubtful: bool = False) -> NoTeam:
    wait = failed.retry_after if isinstance(failed, Throttled) else 0
    return NoTeam(_REASONS.get(failed.cause, "unreachable"), doubtful, wait)
