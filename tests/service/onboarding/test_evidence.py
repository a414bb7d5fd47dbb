"""The evidence for a verify, from telemetry, deploys and credentials (G-085)."""

from __future__ import annotations

import msgspec
import pytest

from service.onboarding.evidence import find_proof
from statemachines.onboarding.proof import Findings, ProofSession
from tests.support.plans import make_plan, make_snapshot
from tests.support.telemetry import END, OURS, PROJECT, START, Telemetry
from tests.support.telemetry import telemetry as telemetry  # noqa: PLC0414 (a fixture is found by name)

SESSION = ProofSession("ps_1", make_snapshot("d" * 40), OURS, "c" * 64, START, END)


async def judge(telemetry: Telemetry) -> Findings:
    return await find_proof(telemetry.store, telemetry.analytics, PROJECT, make_plan(), SESSION, START + 10)


@pytest.mark.parametrize(
    ("table", "part", "blocker"),
    [
        ("analytics_events", "analytics", "analytics_read_failed"),
        ("log_events", "safe_error", "safe_error_read_failed"),
        ("deploys", "deploy", "deploy_read_failed"),
        ("credentials", "deploy", "deploy_read_failed"),
    ],
)
async def test_a_table_that_cannot_be_read_blocks_its_part(
    telemetry: Telemetry, table: str, part: str, blocker: str
) -> None:
    """A read that fails is named, the other parts are judged as they are, and nothing is proven (R-ONB-34)."""
    before = msgspec.to_builtins((await judge(telemetry)).remaining)
    telemetry.connection.execute(f"alter table {table} rename to {table}_away")
    findings = await judge(telemetry)
    assert not findings.complete
    after = msgspec.to_builtins(findings.remaining)
    assert after[part]["blockers"] == (blocker,)
    assert {name: after[name] for name in after if name != part} == {n: before[n] for n in before if n != part}


async def test_a_complete_exercise_is_found(telemetry: Telemetry) -> None:
    """Rows, deploy and markers together: what the pure matching calls complete."""
    telemetry.event("order_created", START, OURS, order_kind="x")
    telemetry.event("order_paid", START, OURS, amount=1, currency="eur")
    telemetry.error("payment_declined", START, OURS, tags={"decline_code": "1"})
    telemetry.connection.execute(
        "insert into deploys values (%s, 'dep_1', 1, '1', 'production', %s, null, 'ci', true, 'cred_1', %s, 'ps_1', "
        "null, %s)",
        (PROJECT, "d" * 40, "c" * 64, START),
    )
    findings = await judge(telemetry)
    assert findings.complete, findings.remaining
    assert (findings.deploy_count, len(findings.analytics)) == (1, 2)
