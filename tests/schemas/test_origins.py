"""Each member of what a runner is handed has its origin: declared beside the type, in the answer, in the schema."""

from __future__ import annotations

from typing import Annotated, Any, get_args

import msgspec
import pytest

from schemas.contracts.playbook import FunnelReviewOutput, SelfHealingOutput
from schemas.kernel.origins import Origins, Told, declared_origins, faults_of, originated, origins, told
from schemas.mcp import McpAnswer
from schemas.runs.proof import RunProof
from service.http.app import schema_documents
from service.http.declare.operations import RUNNER
from service.http.edge.routes import all_endpoints
from service.runs import shown as show_run
from statemachines.runs.events import FollowUp as FollowUpEvent
from statemachines.runs.events import FollowUpKind
from tests.support.loop.bodies import HEAD, MERGED
from tests.support.loop.contracts import READY, make
from tests.support.loop.origins import origins_in
from tests.support.loop.scene import CASE_ID, Scene

FOLLOW_UPS = get_args(FollowUpKind)
HANDED = {
    kind.__name__: kind
    for endpoint in all_endpoints()
    if endpoint.operation.who.principals & RUNNER
    for kind in endpoint.operation.responses.values()
    # A proof, also as text, shows events as they are stored, to be hashed again; who wrote one is in its envelope.
    # A message of MCP tells it in `_meta` of its result.
    if isinstance(kind, type) and kind not in {RunProof, McpAnswer, str}
}
ON_RUNS = ("Claim", "Run", "Grant", "ConsumedGrant", "RequestedApproval", "VerificationAnswer")
KINDS = ("TriggerReceipt", "CaseRecord", *ON_RUNS)
REPORTS = ("ReportSource", "RecordedReport")


@pytest.mark.parametrize("name", sorted(HANDED))
def test_every_answer_to_a_runner_tells_the_origin_of_each_member(name: str) -> None:
    assert list(faults_of(HANDED[name])) == []


def test_what_matters_most_is_among_them() -> None:
    assert HANDED.keys() >= {*KINDS, *REPORTS}


class Inner(msgspec.Struct):
    seen: str
    told: str


DECLARED = origins(server="id", below={"inner": origins(server="seen", telemetry="told")})


def test_a_member_without_an_origin_stops_the_start() -> None:
    class Whole(Told, frozen=True):
        id: str
        inner: Inner | None
        origins: Annotated[Origins, told(DECLARED)]

    class Grown(Whole, frozen=True):
        more: list[Inner]

    class Short(Told, frozen=True):
        id: str
        origins: Annotated[Origins, told(DECLARED)]

    class Plain(msgspec.Struct):
        id: str

    class Loose(msgspec.Struct):
        id: str
        origins: Annotated[Origins, told(origins(server="id"))]

    assert originated(Whole) is Whole
    assert list(faults_of(Grown)) == ["/more has no origin"]
    unknown = [f"/inner/{name} is not a member, or is one of another pointer" for name in ("seen", "told")]
    assert sorted(faults_of(Short)) == unknown
    assert list(faults_of(Plain)) == ["no origins"]
    with pytest.raises(AssertionError, match="/more has no origin"):
        originated(Grown)
    with pytest.raises(AssertionError, match="absent members are not left out"):
        originated(Loose)
    with pytest.raises(AssertionError, match="two origins"):
        origins(server="id", runner="id")


class Optional(Told, frozen=True, kw_only=True):
    id: str | msgspec.UnsetType = msgspec.UNSET
    inner: Inner | None
    origins: Annotated[Origins, told(DECLARED)]


def test_only_members_that_are_there_are_named() -> None:
    """What is null is there, and nothing below it; and what is declared stays as it is."""
    whole = Optional(id="1", inner=Inner("a", "b"), origins=DECLARED)
    assert whole.origins == DECLARED
    assert Optional(id="1", inner=None, origins=DECLARED).origins == {"/id": "server_fact"}
    assert Optional(inner=None, origins=DECLARED).origins == {}
    assert sorted(DECLARED) == ["/id", "/inner/seen", "/inner/told"]


def test_the_map_of_an_answer_names_nothing_that_is_absent() -> None:
    """Of a run that has just begun: no pull request, no proof, no deploy, no output."""
    at = Scene(make("auto_merge"), READY).begin()
    at.issue()
    for answer in (*at.must("receipts")["trigger_receipts"], at.claim(), at.start(), at.run()):
        for pointer in answer["origins"]:
            value = answer
            for name in pointer.split("/")[1:]:
                value = value[name]


def test_the_id_of_a_deploy_that_was_told_is_a_fact() -> None:
    """What a runner names may be anything; a deploy was recorded here."""
    items = [FollowUpEvent(kind=kind, grant_id=None, reference="r", settled_by=None) for kind in FOLLOW_UPS]
    shown = {item.kind: item.origins["/reference"] for item in show_run.follow_ups(items)}
    assert shown == {**dict.fromkeys(FOLLOW_UPS, "runner_output"), "inspect_deploy": "server_fact"}


def test_what_a_product_sent_is_told_apart_and_the_closed_outputs_stay_closed() -> None:
    def of(name: str, origin: str) -> set[str]:
        return {pointer for pointer, found in (declared_origins(HANDED[name]) or {}).items() if found == origin}

    assert of("TriggerReceipt", "untrusted_telemetry") == {"/case/title", "/case/level"}
    assert of("CaseRecord", "untrusted_telemetry") >= {"/title", "/message", "/tags", "/latest_event/message"}
    for name in ("Run", "Claim", "Grant", "RequestedApproval", *REPORTS):
        assert of(name, "untrusted_telemetry") == set()
    assert of("Run", "runner_output") >= {"/reason", "/pull_request/url", "/output/findings", "/output/limitations"}
    assert of("ReportSource", "provider_read") == {"/rows", "/sample_size"}
    assert of("RecordedReport", "runner_output") == {"/report"}
    assert of("Run", "provider_read") >= {"/verification/sample/count", "/deploy/sha"}
    for output in (SelfHealingOutput, FunnelReviewOutput):
        assert declared_origins(output) is None


def test_the_schema_document_shows_the_same_maps() -> None:
    schemas: dict[str, Any] = schema_documents().at("https://service.example")["components"]["schemas"]
    for name, kind in HANDED.items():
        shown = schemas[name]["properties"]["origins"]
        assert shown["x-origins"] == declared_origins(kind), name
        assert "origins" in schemas[name]["required"], name


def test_the_answers_of_a_whole_flow_tell_what_is_declared() -> None:
    """Every leaf of every answer is covered by the nearest map, once."""
    at = Scene(make("auto_merge"), READY).begin()
    at.issue()
    told_in = [*at.must("receipts")["trigger_receipts"], at.claim(), at.start()]
    told_in.append(at.act("request_approval", {"action": "draft_pr"}).body)
    at.must("decide", {"decision": "approve"}, who="owner", approval_id=told_in[-1]["approval_id"])
    told_in.append(at.authorize().body)
    told_in.append(at.consume(told_in[-1]["grant_id"]).body)
    at.prove(at.observed())
    at.prove(at.ready())
    binding = {"pr_number": 7, "head_sha": HEAD, "merge_method": "squash"}
    merge = at.act("authorize", {"binding": binding}, kind="auto_merge")
    told_in += [merge.body, at.consume(merge.body["grant_id"], "auto_merge").body]
    at.prove(at.observed("auto_merge_enabled", auto_merge_enabled=True, merge_method="squash"))
    at.prove(at.observed("merged", merge_commit_sha=MERGED))
    at.deploy(MERGED)
    at.wait(5)
    at.must("traffic", {"count": 2}, who="telemetry")
    at.wait(200)
    assert at.verify().body["verification"]["passed"]
    finished = at.run()
    assert finished["output"] is not None
    found = [origins_in(answer) for answer in [*told_in, finished]]
    assert found[0]["/case/title"] == "untrusted_telemetry"
    assert found[-1]["/output/pull_request/head_sha"] == "runner_output"
    assert found[-1]["/approvals/0/summary"] == "runner_output"
    assert finished["case_id"] == CASE_ID
