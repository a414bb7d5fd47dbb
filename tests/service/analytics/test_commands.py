"""Connections below their doors: a grant that is given once is neither lost nor put back (G-022)."""

from __future__ import annotations

import pytest

from projections.analytics import GRANTS, ConnectionRow, SealedGrantRow
from service.analytics import connection
from service.analytics.connection import ATTEMPTS, insist, keep_tokens
from service.auth.authority import carry_out
from service.fairness.turns import CommandNotDone
from statemachines.analytics import PENDING, Reason, Status
from tests.support.ingest import PROJECT

CONNECTION = "conn_00000001"


async def test_fresh_tokens_replace_only_what_was_read(sql, store):
    """Whoever comes second with tokens from an older generation changes nothing."""
    sql.execute("insert into provider_grants values (%s, %s, 1, 'first')", (PROJECT, CONNECTION))
    before = await store.get(GRANTS, PROJECT, CONNECTION)
    kept = SealedGrantRow(project_id=PROJECT, id=CONNECTION, generation=2, sealed="second")
    for sealed, stored in (("second", kept), ("late", None)):
        intent = keep_tokens(before, sealed)
        assert await carry_out(store, "provider", "refresh", intent, project=PROJECT) == stored
    assert await store.get(GRANTS, PROJECT, CONNECTION) == kept


@pytest.mark.parametrize("busy", range(ATTEMPTS + 1))
async def test_a_busy_moment_is_waited_out(busy):
    """Until it has been busy too often."""
    left = [CommandNotDone()] * busy

    async def attempt() -> str:
        if left:
            raise left.pop()
        return "done"

    if busy < ATTEMPTS:
        assert await insist(attempt) == "done"
    else:
        with pytest.raises(CommandNotDone):
            await insist(attempt)
    assert left == []


@pytest.mark.parametrize("status", [status for status in Status if status is not Status.ABSENT])
@pytest.mark.parametrize("reason", Reason)
def test_every_standing_says_what_to_do(status, reason):
    """And a denied one why."""
    row = ConnectionRow(
        project_id=PROJECT,
        id=CONNECTION,
        revision=1,
        status=status.value,
        host="https://provider.test",
        provider_project_id=None,
        scopes=("project:read",),
        started_at=0,
        expires_at=900,
        reason=reason.value if status is Status.DENIED else None,
    )
    shown = connection.status(row)
    assert shown.status == ("pending" if status in PENDING else status.value)
    assert shown.connection_id == CONNECTION
    assert len(shown.next_action) > 20
