"""Deploys below their doors: what is recorded, what is kept beside it, and the pages that show it (G-005, G-052)."""

from __future__ import annotations

from service import deploys
from service.auth.authority import carry_out
from service.deploys import Report
from service.eventstore.connect.facts import DAY
from service.eventstore.read.reader import END
from tests.support.ingest import OTHER, OWNER, PROJECT

REPORT = Report("1.2.3", "production", "a" * 40, "main", "Ship it", 2, "cred_1", "b" * 64)
BY_DSN = REPORT._replace(environment="staging", message=None, scrubbed=0, credential_id=None)


async def record(store, report, project_id=PROJECT):
    intent = await deploys.record(store, project_id, report, OWNER)
    return (await carry_out(store, "test", "record a deploy", intent, project=project_id)).row


async def test_a_deploy_is_recorded_with_its_facts(sql, store):
    """The row is what was told; the message and what the account pays for stand beside it."""
    row = await record(store, REPORT)
    assert (row.version, row.environment, row.sha, row.branch) == REPORT[:4]
    assert (row.source, row.trusted, row.credential_id) == ("ci", True, "cred_1")
    assert (row.proof_marker_hash, row.proof_session_id, row.onboarding_proof) == ("b" * 64, None, False)
    notes = sql.execute("select id, message from deploy_notes").fetchall()
    usage = sql.execute("select id, account_id, day, scrubbed from usage_deploys").fetchall()
    assert notes == [(row.id, "Ship it")]
    assert usage == [(row.id, OWNER, row.recorded_at - row.recorded_at % DAY, 2)]


async def test_only_a_credential_makes_it_trusted(sql, store):
    """Whatever marker or commit comes along with a DSN; and an absent message leaves no note."""
    row = await record(store, BY_DSN)
    assert (row.source, row.trusted, row.credential_id, row.automation_run_id) == ("dsn", False, None, None)
    assert sql.execute("select from deploy_notes").fetchall() == []
    shown = deploys.accepted(row, None, None)
    assert (shown.trusted, shown.onboarding_proof_matched, shown.onboarding_proof_reason) == (False, False, None)
    assert "CI credential" in shown.next_action


async def test_pages_are_of_one_project_and_go_on_where_they_ended(sql, store):
    """Newest first, each deploy once, of one environment when asked for."""
    made = [await record(store, report) for report in (REPORT, BY_DSN, REPORT)]
    await record(store, REPORT, OTHER)
    expected = sorted(made, key=lambda row: (row.recorded_at, row.id), reverse=True)
    whole = await deploys.newest(store, PROJECT, None, END, 10)
    assert [noted.row for noted in whole] == expected
    first = await deploys.newest(store, PROJECT, None, END, 2)
    rest = await deploys.newest(store, PROJECT, None, first[-1].place, 2)
    assert [*first, *rest] == whole
    [staging] = await deploys.newest(store, PROJECT, "staging", END, 10)
    assert (staging.row, staging.message) == (made[1], None)
    listed = deploys.listed(PROJECT, whole, None)
    assert [(record.id, record.message) for record in listed.deploys] == [(n.row.id, n.message) for n in whole]
    assert listed.count == 3
