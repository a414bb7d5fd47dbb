"""The case row follows its stream, and shows the revision that clients know (G-050, G-121)."""

from __future__ import annotations

import pytest

from projections.cases import (
    AGENT_RUNS,
    CASE_VIEWS,
    COMMENTS,
    CaseRow,
    CaseStatsRow,
    SuppressionRule,
    fold_case,
    fold_suppression,
    trust_of,
)
from statemachines.cases import case
from statemachines.cases.agent_run import AgentRunRecorded
from statemachines.cases.comment import CommentWritten
from statemachines.cases.suppression import SuppressionCreated
from statemachines.cases.view import CaseViewChanged, CaseViewRemoved, CaseViewSaved, ViewFilter
from statemachines.kernel.machine import Recorded
from tests.projections.rows import check_middle, check_row, fold

FINGERPRINT = "ab" * 16


def rows(*events):
    """Fold events of one case; returns the row after each."""
    row, seen = None, []
    for revision, event in enumerate(events, 1):
        row = fold_case(row, Recorded("case_1", revision, event, "proj_1", 99, "dsn:proj_1"))
        seen.append(row)
    return seen


def test_a_case_opens_closes_and_comes_back():
    opened, resolved, regressed, ignored = rows(
        case.CaseOpened(FINGERPRINT, 1, 5),
        case.CaseResolved("sup_1", None, 6),
        case.CaseRegressed(7),
        case.CaseIgnored(None, "arun_1", 8),
    )
    base = {
        "project_id": "proj_1",
        "id": "case_1",
        "fingerprint": FINGERPRINT,
        "grouping_version": 1,
        "opened_at": 5,
    }
    assert opened == CaseRow(**base, revision=1, case_revision=1, status="open")
    assert resolved == CaseRow(
        **base, revision=2, case_revision=2, status="resolved", suppression_id="sup_1", resolved_at=6
    )
    assert regressed == CaseRow(**base, revision=3, case_revision=3, status="open")
    assert ignored == CaseRow(**base, revision=4, case_revision=4, status="ignored")


@pytest.mark.parametrize(
    ("event", "status", "resolved_at"),
    [
        (case.CaseOpenedIgnored(FINGERPRINT, 1, "sup_1", 5), "ignored", None),
        (case.CaseOpenedResolved(FINGERPRINT, 1, "sup_1", 5), "resolved", 5),
        (case.CaseImportedIgnored(FINGERPRINT, 1, "sup_1", 5), "ignored", None),
        (case.CaseImportedResolved(FINGERPRINT, 1, "sup_1", 5), "resolved", 5),
    ],
)
def test_a_case_may_open_under_a_rule(event, status, resolved_at):
    [row] = rows(event)
    assert row.imported is (None if isinstance(event, case.CaseOpenedIgnored | case.CaseOpenedResolved) else True)
    assert (row.status, row.case_revision, row.suppression_id, row.resolved_at) == (status, 1, "sup_1", resolved_at)


def test_a_case_that_an_import_opened_stays_one():
    opened, resolved, regressed = rows(
        case.CaseImported(FINGERPRINT, 1, 5), case.CaseResolvedByMember(6), case.CaseRegressed(7)
    )
    assert (opened.status, opened.imported, resolved.imported, regressed.imported) == ("open", True, True, True)


def test_an_overflow_case_has_a_status_of_its_own():
    opened, ignored = rows(case.CaseOverflowOpened("overflow-3600", 3600, 5), case.CaseIgnored("sup_1", None, 6))
    assert (opened.status, opened.fingerprint, opened.opened_at) == ("overflow", "overflow-3600", 5)
    assert (ignored.status, ignored.case_revision, ignored.suppression_id) == ("ignored", 2, "sup_1")


def test_what_members_do_shows_in_the_row():
    """A change of status raises the revision that clients see; nothing else does (G-121, G-145)."""
    seen = rows(
        case.CaseOpened(FINGERPRINT, 1, 5),
        case.CaseAssigned("usr_1", 6),
        case.CaseAbsorbed("case_2", 6),
        case.CaseReleased("case_2", 6),
        case.CaseResolvedByMember(7),
        case.CaseReopened(8),
        case.CaseIgnoredByMember(9),
        case.CaseMerged("case_3", 10),
        case.CaseMerged("case_4", 11),
        case.CaseSplitOff("case_4", 12),
    )
    assert [(row.revision, row.case_revision, row.status, row.resolved_at, row.merged_into) for row in seen] == [
        (1, 1, "open", None, None),
        (2, 1, "open", None, None),
        (3, 1, "open", None, None),
        (4, 1, "open", None, None),
        (5, 2, "resolved", 7, None),
        (6, 3, "open", None, None),
        (7, 4, "ignored", None, None),
        (8, 5, "merged", None, "case_3"),
        (9, 5, "merged", None, "case_4"),
        (10, 6, "open", None, None),
    ]
    assert {row.assignee for row in seen[1:]} == {"usr_1"}


def test_events_of_others_leave_the_row_alone():
    opened = rows(case.CaseOpened(FINGERPRINT, 1, 5))[-1]
    assert fold_case(opened, Recorded("case_1", 2, object(), "proj_1", 99, "dsn:proj_1")) is opened
    assert fold_case(None, Recorded("case_1", 2, case.CaseRegressed(7), "proj_1", 99, "dsn:proj_1")) is None


@pytest.mark.parametrize(
    ("unmarked", "imported", "trust"),
    [
        (True, False, "customer_provider"),
        (True, True, "customer_provider"),
        (False, True, "imported"),
        (False, False, "synthetic"),
    ],
)
def test_trust_says_whether_every_error_carried_a_marker(unmarked, imported, trust):
    stats = CaseStatsRow(
        project_id="proj_1",
        id="case_1",
        title="t",
        message="m",
        culprit=None,
        level="error",
        environment="production",
        release=None,
        environments=["production"],
        releases=[],
        unmarked=unmarked,
        event_count=1,
        users_affected=0,
        first_seen_at=1,
        last_seen_at=1,
    )
    assert trust_of(unmarked=stats.unmarked, imported=imported) == trust


# Comments and records of agents' runs as rows (G-145, R-CASE-01).


def test_rows_show_their_streams():
    written = CommentWritten("case_1", "usr_1", "Seen.", 5)
    check_row(COMMENTS, [written], {
        "revision": 1, "case_id": "case_1", "user_id": "usr_1", "text": "Seen.", "commented_at": 5,
    })  # fmt: skip
    recorded = AgentRunRecorded("case_1", "failed", None, "https://code.example/1", 5)
    check_row(AGENT_RUNS, [recorded], {
        "revision": 1, "case_id": "case_1", "status": "failed", "summary_md": None,
        "pr_url": "https://code.example/1", "recorded_at": 5,
    })  # fmt: skip


# One row holds the rules of a project, in the order in which they were made (G-053).


def test_rules_are_kept_oldest_first():
    row = None
    for revision in (1, 2):
        event = SuppressionCreated(f"sup_{revision}", "*", "auto_ignore", "noise", None, revision)
        row = fold_suppression(row, Recorded("sups_1", revision, event, "proj_1", 5, "key:key_1"))
    assert row.revision == 2
    assert row.rules == [
        SuppressionRule(
            id=f"sup_{n}",
            fingerprint_pattern="*",
            action="auto_ignore",
            reason="noise",
            hint_text=None,
            created_at=n,
        )
        for n in (1, 2)
    ]
    assert fold_suppression(row, Recorded("sups_1", 3, object(), "proj_1", 5, "key:key_1")) is row


SAVED = CaseViewSaved("view_1", "Checkout", ViewFilter(tag="team=shop"), "usr_1", 5)
OTHER = CaseViewSaved("view_2", "All", ViewFilter(status="all"), "usr_1", 6)
CHANGED = CaseViewChanged("view_1", "Payments", ViewFilter(path="app/"), "usr_2", 7)
REMOVED = CaseViewRemoved("view_2", 8)


def test_a_row_shows_the_views_of_its_project() -> None:
    before = fold(CASE_VIEWS, [SAVED, OTHER])
    assert [(view.id, view.revision, view.name) for view in before.views] == [
        ("view_1", 1, "Checkout"), ("view_2", 1, "All"),
    ]  # fmt: skip
    [left] = fold(CASE_VIEWS, [SAVED, OTHER, CHANGED, REMOVED]).views
    assert (left.revision, left.name, left.filter) == (2, "Payments", ViewFilter(path="app/"))
    assert (left.created_by, left.created_at, left.changed_by, left.changed_at) == ("usr_1", 5, "usr_2", 7)
    check_middle(CASE_VIEWS, [SAVED, CHANGED, REMOVED])
