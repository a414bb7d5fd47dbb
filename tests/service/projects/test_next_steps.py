"""How far a project has come, and what is suggested for it (R-PROJ-08 to R-PROJ-11, G-024, G-062)."""

from __future__ import annotations

import itertools

import msgspec
import psycopg
import pytest

from schemas.kernel.published import documented_operations
from schemas.projects import ProjectState
from service.http.edge.routes import all_endpoints
from service.onboarding.evidence import AskedProject, ask_about
from service.projects.next_steps import (
    STEPS,
    Arrived,
    Automation,
    ProjectProgress,
    ProjectStanding,
    assess,
    next_steps,
    progress_of,
    standing_of,
    suggest,
)
from statemachines.onboarding import signal_map as signal_maps
from statemachines.onboarding.plan import AnalyticsReceipt, DeployReceipt, ErrorReceipt, Receipt
from statemachines.onboarding.proof import NEWEST_ROWS
from tests.support.plans import make_snapshot, plan_body
from tests.support.questions import Questions

NOTHING = Arrived(
    logs=False,
    analytics=False,
    deploys=False,
    cases=False,
    open_cases=False,
    connected=False,
    onboarding=False,
    unfinished=False,
    errors=False,
)


UNMAPPED = AskedProject(None, None, None)


async def read_progress(asking: Questions, project_id: str) -> ProjectProgress:
    asked = await ask_about(asking.store, asking.queries, project_id, "usr_one")
    return progress_of(await standing_of(asking.store, asked, project_id, "usr_one"))


RECEIPT = Receipt(
    "source_verified",
    1_000,
    (AnalyticsReceipt("order_paid", "server_provider", (), (), 1),),
    ErrorReceipt("declined", "server_provider", (), (), 1),
    DeployReceipt("production", make_snapshot(), 1),
)


def test_a_project_without_anything_has_come_nowhere():
    state = assess(NOTHING, UNMAPPED)
    assert {name for name, value in msgspec.to_builtins(state).items() if value} == set()


@pytest.mark.parametrize("arrived", [Arrived(*bits, False) for bits in itertools.product([False, True], repeat=8)])
def test_every_state_has_suggestions_that_fit_it(arrived):
    state = assess(arrived, UNMAPPED)
    suggestions = suggest(ProjectProgress(state, arrived, mapped=False), lambda _: True)
    ids = [suggestion.id for suggestion in suggestions]
    assert len(ids) == len(set(ids)) > 0
    assert ids == [step.id for step in STEPS if step.id in ids]
    assert ("send_first_event" in ids) == (not state.has_events)
    assert ("record_deploys" in ids) == (not state.has_deploys)
    for suggestion in suggestions:
        missing = [name for name in suggestion.requires if not getattr(state, name)]
        assert suggestion.status == ("preview" if missing else "available")
    assert state.minimum_install_complete == (arrived.logs and arrived.analytics and arrived.deploys)
    assert not state.answer_ready  # without an approved map there is no question


def test_only_what_can_be_done_here_is_named():
    """A step whose last operation is not there is left out; of the others only those operations that are (G-062)."""
    progress = ProjectProgress(assess(NOTHING, UNMAPPED), NOTHING, mapped=False)
    every = suggest(progress, lambda _: True)
    for missing in {operation for suggestion in every for operation in suggestion.uses}:
        named = suggest(progress, missing.__ne__)
        assert [suggestion.id for suggestion in named] == [
            suggestion.id for suggestion in every if suggestion.uses[-1] != missing
        ]
        assert all(missing not in suggestion.uses and suggestion.uses for suggestion in named)
    nowhere = next_steps(ProjectStanding(NOTHING, UNMAPPED), ())
    assert (nowhere.count, nowhere.suggestions, nowhere.next_steps) == (0, [], [])
    assert nowhere.next_action


def test_what_is_for_owners_alone_is_not_named_to_a_member():
    """A member whose next steps are all an owner's is told so, and not that nothing has to be done."""
    everywhere = frozenset(operation for step in STEPS for operation in step.uses)
    for_owner = next_steps(ProjectStanding(NOTHING, UNMAPPED), everywhere, everywhere)
    for_member = next_steps(ProjectStanding(NOTHING, UNMAPPED, owner=False), everywhere, everywhere)
    assert for_owner.count > 0
    assert (for_member.count, for_member.suggestions) == (0, [])
    assert "owner" in for_member.next_action
    done = next_steps(ProjectStanding(NOTHING, UNMAPPED, owner=False), ())
    assert "owner" not in done.next_action


@pytest.mark.parametrize("bits", list(itertools.product([False, True], repeat=4)))
def test_automation_is_saved_then_enabled_then_kept_manned(bits):
    """Nothing can be enabled while an operator has stopped the installation, and only what is on needs a runner."""
    automation = Automation(*bits)
    progress = ProjectProgress(assess(NOTHING, UNMAPPED), NOTHING, mapped=False, automation=automation)
    ids = {suggestion.id for suggestion in suggest(progress, lambda _: True)}
    assert ("automate_case_fixes" in ids) == (not automation.saved)
    assert ("enable_automation" in ids) == (automation.saved and not automation.enabled and not automation.stopped)
    assert ("replace_runner_credential" in ids) == automation.unmanned


def test_suggestions_name_documented_operations_and_members_of_the_state():
    """Or extensions of the document, which are built."""
    documented = {f"{operation.method} {operation.path}" for operation in documented_operations()}
    extensions = {f"{e.operation.method} {e.operation.path}" for e in all_endpoints() if e.operation.docs.extension}
    for step in STEPS:
        assert set(step.uses) <= documented | extensions, step.id
        assert set(step.requires) <= set(ProjectState.__struct_fields__), step.id


async def test_what_came_lately_is_held_against_the_approved_map(accounts, database_url):
    """Events and properties are read from the newest rows of each event; a receipt settles all of it."""
    project_id, asking = "proj_one", Questions(database_url, accounts)
    with asking.connection, psycopg.connect(database_url, autocommit=True) as connection:

        def arrive(event: str, at: int, **properties: object) -> None:
            connection.execute(
                "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties) "
                "values (%s, %s, gen_random_uuid()::text, %s, 'u', %s::jsonb)",
                (project_id, at, event, msgspec.json.encode(properties).decode()),
            )

        plan = msgspec.json.encode(plan_body()).decode()
        connection.execute(
            "insert into signal_maps (project_id, id, revision, plan, plan_sha256, recorded_at) "
            "values (%s, %s, 1, %s::jsonb, %s, 5)",
            (project_id, signal_maps.stream(project_id).id, plan, "0" * 64),
        )
        needed = {m["event"]: m["properties"] for m in plan_body()["milestones"]}
        progress = await read_progress(asking, project_id)
        assert progress.mapped
        assert progress.state.signal_types == ["analytics", "errors", "deploys"]
        assert progress.state.pending_real_data_count == len(needed) + 1
        assert progress.state.readiness_gaps_count == len(needed) + 1  # the error is missing too
        for event in needed:
            arrive(event, 10)
        progress = await read_progress(asking, project_id)
        assert progress.state.pending_real_data_count == 0
        assert progress.state.blocked_answer_contract_count == len(needed) + 1
        assert progress.state.readiness_gaps_count == sum(map(len, needed.values())) + 1
        for event, names in needed.items():
            for name in names:
                arrive(event, 11, **{name: 1, "more": 2})
        progress = await read_progress(asking, project_id)
        assert progress.state.blocked_answer_contract_count == 0
        assert progress.state.readiness_gaps_count == 1
        assert not progress.state.answer_ready
        for event in needed:  # what only older rows had is gone
            for at in range(20, 20 + NEWEST_ROWS):
                arrive(event, at)
        assert (await read_progress(asking, project_id)).state.blocked_answer_contract_count == len(needed) + 1
        receipt = msgspec.json.encode(RECEIPT).decode()
        connection.execute("update signal_maps set receipt = %s::jsonb", (receipt,))
    state = (await read_progress(asking, project_id)).state
    assert all((state.install_verified, state.minimum_install_complete, state.readiness_complete, state.answer_ready))
    assert (state.readiness_gaps_count, state.blocked_answer_contract_count, state.pending_real_data_count) == (0, 0, 0)
