"""Pull requests as CI observes them: recorded, and what nobody granted stops the automation (G-172)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import httpx2
import psycopg
import pytest

from projections.runs import PATCHES, PULL_REQUESTS
from service.history.audit import check_projection
from service.history.rebuild import rebuild
from tests.service.runs.test_races import stopped_under_charges
from tests.support.automation_world import closed
from tests.support.loop.http_scene import RIVAL, HttpScene, open_scene
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server

SHOP = "https://code.example/acme/shop"
HEAD, LATER, TREE, PATCH = "b" * 40, "d" * 40, "e" * 40, "f" * 40
NOBODYS = f"repair/run_{'0' * 26}"
ROUNDS = 8


def observe(at: HttpScene, *, who: str = "ci", key: str | None = None, **changes: Any) -> httpx2.Response:
    """Have CI see a pull request."""
    number = changes.get("pr_number", 7)
    body = {
        "repository": SHOP,
        "pr_number": number,
        "pr_url": f"{SHOP}/pull/{number}",
        "head_branch": f"repair/{at.run_id}" if at.run_id else NOBODYS,
        "base_branch": "main",
        "head_sha": HEAD,
        "state": "open",
    }
    return at.post(f"{at.project}/pull-request-observations", body | changes, who=who, key=key)


def listed(at: HttpScene, query: str = "") -> list[dict[str, Any]]:
    """The pull requests that CI has seen."""
    found = at.must(at.call("GET", f"{at.project}/pull-request-observations{query}", who="member"), 200)
    assert found["count"] == len(found["pull_requests"])
    rows: list[dict[str, Any]] = found["pull_requests"]
    return rows


def enabled(at: HttpScene) -> bool:
    """Whether the automation is on."""
    return bool(at.must(at.world.call("GET", at.world.contract), 200)["enabled"])


def topics(at: HttpScene, *kinds: str) -> list[str]:
    """The topics of the project's streams of these kinds, in the order of the log."""
    rows = at.world.run(
        lambda store: store.fetch(
            "select topic from events where project_id = %s and kind = any(%s) order by seq",
            at.world.project_id,
            list(kinds),
        )
    )
    return [topic for (topic,) in rows]


def delivered(at: HttpScene, **changes: Any) -> HttpScene:
    """A run whose grant for its own branch is consumed."""
    at.running()
    grant = at.must(at.authorize(head_branch=f"repair/{at.run_id}", **changes), 201)
    at.must(at.consume(grant["grant_id"]), 200)
    return at


def test_a_granted_one_is_recorded_before_and_after_its_proof(at: HttpScene) -> None:
    """The consumed grant decides, and CI's proof is not waited for."""
    delivered(at, tree_sha=TREE)
    told = at.must(observe(at, tree_sha=TREE), 201)
    assert told["automations_disabled"] == []
    assert told["pull_request"]["verdict"] == "granted"
    assert told["pull_request"]["run_id"] == at.run_id
    at.must(at.prove(head_branch=f"repair/{at.run_id}", tree_sha=TREE), 201)
    again = at.must(observe(at), 200)
    assert again["pull_request"] == told["pull_request"], "a repeat records nothing"
    assert at.must(observe(at, state="merged"), 201)["pull_request"]["state"] == "merged"
    assert enabled(at)
    [grant] = at.run()["grants"]
    assert grant["binding"]["tree_sha"] == TREE
    assert [one["verdict"] for one in listed(at, f"?run_id={at.run_id}")] == ["granted"]
    assert listed(at, "?verdict=ungranted") == []


def test_an_authorized_grant_that_nobody_consumed_grants_nothing(at: HttpScene) -> None:
    at.running()
    at.must(at.authorize(head_branch=f"repair/{at.run_id}"), 201)
    assert at.must(observe(at), 201)["automations_disabled"] == ["heal"]


@pytest.mark.parametrize("of", ["no run", "another head"])
def test_an_ungranted_one_stops_the_automation_and_tells_people(at: HttpScene, of: str) -> None:
    if of == "no run":
        at.prepare()
    else:
        delivered(at)
    told = at.must(observe(at, head_sha=LATER, head_branch=NOBODYS if of == "no run" else f"repair/{at.run_id}"), 201)
    assert told["automations_disabled"] == ["heal"]
    assert [one["head_sha"] for one in told["pull_request"]["ungranted_heads"]] == [LATER]
    contract = at.must(at.world.call("GET", at.world.contract), 200)
    assert [one["disabled_reason"] for one in contract["automations"]] == ["ungranted_pull_request"]
    issue = at.post(f"{at.project}/automation-triggers/issue", {"automation_id": "heal"})
    closed(issue, 409, "automation_disabled")
    control = at.must(at.call("GET", f"{at.project}/automation-control", who="owner"), 200)
    [found] = [one for one in control["exceptions"] if one["kind"] == "ungranted_pull_request"]
    assert found["automation_id"] == "heal"
    events: list[dict[str, Any]] = []
    while not events:  # it has a position soon
        path = f"{at.project}/project-events?names=pull_request.ungranted"
        events = at.must(at.call("GET", path, who="owner"), 200)["events"]
    [event] = events
    assert event["data"]["automations_disabled"] == ["heal"]
    assert event["data"]["pull_request_id"] == told["pull_request"]["pull_request_id"]
    at.enable()
    cleared = at.must(observe(at, head_sha=LATER, state="closed", head_branch=told["pull_request"]["head_branch"]), 201)
    assert cleared["pull_request"]["state"] == "closed"
    assert enabled(at), "a head is told once: cleaning up stops nothing again"
    control = at.must(at.call("GET", f"{at.project}/automation-control", who="owner"), 200)
    assert not [one for one in control["exceptions"] if one["kind"] == "ungranted_pull_request"]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ({"head_repository": "https://code.example/mallory/shop"}, "fork"),
        ({"head_branch": "feature/cart"}, "other_branch"),
        ({"repository": f"{SHOP}-docs"}, "ungranted"),
    ],
)
def test_only_the_automations_of_its_repository_stop(at: HttpScene, changes: dict[str, Any], verdict: str) -> None:
    """A fork is recorded and nothing else. One of another repository is told, and stops nothing here."""
    at.prepare()
    told = at.must(observe(at, **changes), 201)
    assert (told["pull_request"]["verdict"], told["automations_disabled"]) == (verdict, [])
    assert enabled(at)


def test_a_push_of_people_is_told_and_stops_nothing(at: HttpScene) -> None:
    delivered(at)
    at.must(observe(at), 201)
    assert at.must(observe(at, head_sha=LATER), 201)["pull_request"]["verdict"] == "changed"
    assert enabled(at)


def test_where_the_host_merges_a_later_head_stops_the_automation(server: ServerHandle) -> None:
    with open_scene(server, "auto_merge") as at:
        delivered(at)
        at.must(observe(at), 201)
        assert at.must(observe(at, head_sha=LATER), 201)["automations_disabled"] == ["heal"]


def test_only_ci_observes(at: HttpScene) -> None:
    at.prepare()
    for who in ("owner", "member", "heal"):
        closed(observe(at, who=who), 403, "principal_not_allowed")
    path = f"/v1/projects/{at.world.other_project_id}/credentials"
    made = at.post(path, {"kind": "ci_deploy", "name": "foreign"}, who="stranger")
    at.world.secrets["foreign"] = at.must(made, 200)["credential"]
    assert observe(at, who="foreign").status_code in (403, 404)
    assert at.call("GET", f"{at.project}/pull-request-observations", who="ci").status_code == 403
    assert at.call("GET", f"{at.project}/pull-request-observations", who="stranger").status_code in (403, 404)
    assert listed(at) == []
    assert topics(at, "pull") == []


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "draft"},
        {"pr_number": 0},
        {"pr_url": "http://code.example/1"},
        {"head_sha": "b" * 39},
        {"head_sha": "B" * 40},
        {"tree_sha": "main"},
        {"patch_id": ""},
        {"head_branch": ""},
        {"head_repository": None},
        {"observed_at": 1},
        {"repository": "\0"},
        {"repository": "x" * 501},
    ],
)
def test_a_bad_body_is_refused(at: HttpScene, changes: dict[str, Any]) -> None:
    at.world.mint("ci_deploy")
    closed(observe(at, **changes), 400, "invalid_payload")


def test_a_repeat_is_answered_from_its_key(at: HttpScene) -> None:
    at.prepare()
    first, again = observe(at, key="seen-1"), observe(at, key="seen-1")
    assert (first.status_code, again.status_code, again.content) == (201, 201, first.content)
    closed(observe(at, key="seen-1", state="closed"), 422, "idempotency_key_reused")


def test_sixty_a_minute_and_credential(at: HttpScene, server_factory: Any) -> None:
    server = server_factory(env={"SERVICE_RATE_LIMITS": "observations=2"})
    with open_scene(server) as limited:
        limited.world.mint("ci_deploy")
        assert [observe(limited, pr_number=number).status_code for number in (1, 2, 3)] == [201, 201, 429]


def test_of_many_observations_one_stops_the_automation(at: HttpScene) -> None:
    """Eight at once, of one pull request: one event of each kind, and everybody is told the same."""
    at.prepare()
    for number in range(1, ROUNDS + 1):
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _, n=number: observe(at, pr_number=n), range(8)))
        assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
        assert {tuple(answer.json()["automations_disabled"]) for answer in answers} == {("heal",)}
        assert not enabled(at)
        at.enable()
    seen = topics(at, "pull")
    assert seen.count("pull_request.ungranted.v1") == seen.count("pull_request.opened.v1") == ROUNDS
    assert topics(at, "ctr").count("automation_contract.last_automation_disabled.v1") == ROUNDS


def test_an_observation_races_the_consume_of_its_grant(at: HttpScene) -> None:
    """Whichever comes first: either the grant was consumed, or the automation is off and it can be no longer."""
    at.running()
    grant = at.must(at.authorize(head_branch=f"repair/{at.run_id}"), 201)
    with ThreadPoolExecutor(2) as pool:
        consumed, told = pool.submit(at.consume, grant["grant_id"]), pool.submit(observe, at)
    verdict = at.must(told.result(), 201)["pull_request"]["verdict"]
    assert (verdict, consumed.result().status_code) in {("granted", 200), ("ungranted", 409)}
    assert enabled(at) == (verdict == "granted")


def test_of_different_ones_at_once_one_stops_the_automation(at: HttpScene) -> None:
    at.prepare()
    with ThreadPoolExecutor(8) as pool:
        answers = [each.json() for each in pool.map(lambda number: observe(at, pr_number=number), range(1, 9))]
    assert sorted(answer["automations_disabled"] for answer in answers) == [[]] * 7 + [["heal"]]
    assert {answer["pull_request"]["verdict"] for answer in answers} == {"ungranted"}
    assert topics(at, "ctr").count("automation_contract.last_automation_disabled.v1") == 1


def test_nothing_of_the_automation_commits_after_the_finding(at: HttpScene) -> None:
    """Workers on its run race the observation. In the log, nothing of a runner stands behind the stop."""
    at.running(max_turns_per_run=500)
    told, acknowledged, results = stopped_under_charges(at, lambda: observe(at, head_branch=NOBODYS), workers=6)
    assert at.must(told, 201)["automations_disabled"] == ["heal"]
    assert {status for started, status in results if started > acknowledged} == {409}
    behind = """
        select count(*) from events where project_id = %s and actor_kind = 'runner' and seq > (
            select seq from events where project_id = %s and topic = %s)
    """
    asked = behind, at.world.project_id, at.world.project_id, "automation_contract.last_automation_disabled.v1"
    assert at.world.run(lambda store: store.fetch(*asked)) == [(0,)]


def test_the_rows_are_what_the_streams_say_and_a_rebuild_makes_them_again(at: HttpScene) -> None:
    at.prepare()
    for number, changes in enumerate(({"tree_sha": TREE}, {"patch_id": PATCH}, {"head_branch": "x"}), start=1):
        for state in ("open", "closed", "merged"):
            at.must(observe(at, pr_number=number, state=state, **changes), 201)
    for projection in (PULL_REQUESTS, PATCHES):
        rows = f"select to_jsonb(t) from {projection.name} t where project_id = %s order by id"
        live = at.world.run(lambda store, rows=rows: store.fetch(rows, at.world.project_id))
        assert live
        with psycopg.connect(at.world.url, autocommit=True) as connection:
            assert list(check_projection(connection, projection)) == []
        rebuild(at.world.url, projection)
        assert at.world.run(lambda store, rows=rows: store.fetch(rows, at.world.project_id)) == live


def test_pages_of_the_list_follow_one_another(at: HttpScene) -> None:
    at.world.mint("ci_deploy")
    for number in range(1, 6):
        at.must(observe(at, pr_number=number, head_branch="x"), 201)
    path, numbers, cursor = f"{at.project}/pull-request-observations?limit=2", list[int](), ""
    while cursor is not None:
        found = at.must(at.call("GET", f"{path}{cursor and f'&cursor={cursor}'}", who="owner"), 200)
        numbers += [one["pr_number"] for one in found["pull_requests"]]
        cursor = found["next_cursor"]
    assert sorted(numbers) == [1, 2, 3, 4, 5]


# One pull request for a patch.


def several(at: HttpScene, number: int) -> list[str]:
    """Begin so many runs, each for a case of its own; returns their ids."""
    at.prepare(max_runs_per_day=number, max_prs_per_day=number)
    made = []
    for index in range(number):
        word = "".join(chr(97 + int(digit)) for digit in f"{index:02}")
        at.error(2, message=f"Payment declined by {word}", fingerprint=f"bank-{word}")
        at.issue()
        at.must(at.claim(), 201)
        at.must(at.start(f"start-{index}"), 201)
        made.append(at.run_id)
    return made


def authorize(at: HttpScene, run_id: str, **changes: Any) -> httpx2.Response:
    """Have a run ask for its pull request."""
    path = f"/v1/automation-runs/{run_id}"
    run = at.must(at.call("GET", path), 200)
    token = {"state_revision": run["state_revision"], "lease_epoch": run["lease_epoch"]}
    body = at.binding(head_branch=f"repair/{run_id}", **changes)
    return at.post(f"{path}/actions/draft-pr/authorize", token | body)


@pytest.mark.parametrize("ids", [{"tree_sha": TREE}, {"patch_id": PATCH}, {"tree_sha": TREE, "patch_id": PATCH}])
def test_of_eight_authorizations_of_a_patch_one_wins(at: HttpScene, ids: dict[str, str]) -> None:
    runs = several(at, 8)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(partial(authorize, at, **ids), runs))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 7
    [winner] = [answer.json()["run_id"] for answer in answers if answer.is_success]
    for answer in answers:
        if not answer.is_success:
            details = closed(answer, 409, "duplicate_patch")["details"]
            assert details == {"pr_url": None, "run_id": winner}
    assert authorize(at, winner, **ids).status_code == 200, "the same change again is the same grant"
    loser = next(run for run in runs if run != winner)
    assert authorize(at, loser, tree_sha="a" * 40, patch_id="c" * 40).status_code == 201


def test_a_twin_of_an_open_or_merged_one_is_refused_with_its_address(at: HttpScene) -> None:
    first, second = several(at, 2)
    at.run_id = first
    grant = at.must(authorize(at, first, tree_sha=TREE), 201)
    at.must(at.consume(grant["grant_id"]), 200)
    at.must(at.prove(head_branch=f"repair/{first}", tree_sha=TREE), 201)
    found = closed(authorize(at, second, tree_sha=TREE), 409, "duplicate_patch")
    assert found["details"] == {"pr_url": f"{SHOP}/pull/7", "run_id": first}
    at.must(observe(at), 201)
    at.must(observe(at, state="closed"), 201)
    assert authorize(at, second, tree_sha=TREE).status_code == 201, "one that was closed unmerged is no twin"


@pytest.mark.parametrize(("state", "status"), [("open", 409), ("merged", 409), ("closed", 201)])
def test_one_that_only_ci_saw_counts_too(at: HttpScene, state: str, status: int) -> None:
    at.running()
    seen = {"head_branch": "feature", "state": state, "patch_id": PATCH, "pr_number": 9}
    at.must(observe(at, **seen), 201)
    fork = {"pr_number": 10, "head_repository": "https://code.example/mallory/shop", "tree_sha": TREE}
    at.must(observe(at, **fork), 201)
    answer = at.authorize(patch_id=PATCH, tree_sha=TREE)
    assert answer.status_code == status, "a fork blocks nothing"
    if status == 409:
        assert closed(answer, 409, "duplicate_patch")["details"]["pr_url"] == f"{SHOP}/pull/9"
        assert closed(at.authorize(patch_id=PATCH, state_revision=99), 409, "stale_state_revision")


def test_a_proof_with_the_patch_of_another_one_is_refused(at: HttpScene) -> None:
    """What was told of an own pull request is no twin, and what people did to it is recorded anyhow."""
    delivered(at)
    own = {"head_branch": f"repair/{at.run_id}", "patch_id": PATCH}
    at.must(observe(at, patch_id="a" * 40), 201)
    at.must(observe(at, head_branch="feature", pr_number=9, patch_id=PATCH), 201)
    found = closed(at.prove(**own), 409, "duplicate_patch")
    assert found["details"] == {"pr_url": f"{SHOP}/pull/9", "run_id": None}
    at.must(observe(at, head_branch="feature", pr_number=9, patch_id=PATCH, state="closed"), 201)
    at.must(at.prove(**own), 201)
    assert at.must(at.prove(**own), 200)
    at.must(at.prove("merged", **own), 201)


def test_another_tree_than_the_granted_one_is_no_proof(at: HttpScene) -> None:
    delivered(at, tree_sha=TREE)
    found = closed(at.prove(head_branch=f"repair/{at.run_id}", tree_sha="a" * 40), 409, "pr_proof_mismatch")
    assert found["details"]["field"] == "tree_sha"


def test_a_stale_fence_and_a_rival_are_refused_before_any_twin(at: HttpScene) -> None:
    at.running()
    at.must(observe(at, head_branch="feature", pr_number=9, patch_id=PATCH), 201)
    path = f"{at.path}/actions/draft-pr/authorize"
    body = at.token() | at.binding(patch_id=PATCH)
    closed(at.post(path, body | {"state_revision": 99}), 409, "stale_state_revision")
    closed(at.post(path, body | {"lease_epoch": 99}), 409, "stale_lease_epoch")
    closed(at.post(path, body), 409, "duplicate_patch")
    assert RIVAL in at.world.secrets
