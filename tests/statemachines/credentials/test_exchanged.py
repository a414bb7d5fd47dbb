"""Exchanged credentials: the one edge, the one use of a token, and the own write (G-171)."""

from __future__ import annotations

from statemachines.credentials import exchanged
from statemachines.credentials.binding import Binding, Presented, Workflow
from statemachines.credentials.exchanged import CiCredentialExchanged, Exchanged, Status, TokenUsed
from statemachines.kernel.machine import CiRun, Event
from tests.statemachines.tables import History, check_released, check_table

RAN = Workflow("https://ci.example", "740001", "65001", "refs/heads/main", ".github/workflows/deploy.yml", "production")
BINDING = Binding("cib_1", "shop", RAN, "usr_1", 5)
SHOWN = Presented("jti-1", "acme/shop", "9001", RAN)
RUN = CiRun("cib_1", RAN.issuer, "acme/shop", "refs/heads/main", ".github/workflows/deploy.yml", "production", "9001")
EVENT = CiCredentialExchanged(RUN, ["deploys:write"], "service_ci_aaaaa", 10, 910)


def exchange(state: Exchanged, prefix: str = "service_ci_aaaaa") -> list[Event]:
    return exchanged.decide_exchange(state, BINDING, SHOWN, scopes=["deploys:write"], prefix=prefix, now=10)


def test_an_exchange_moves_along_the_edge_only() -> None:
    check_table(exchanged.MACHINE, [(EVENT.TOPIC, Status.ABSENT, Status.EXCHANGED)], {EVENT.TOPIC: EVENT})


def test_stored_events_stay_readable() -> None:
    run = CiRun("binding_id_1", "issuer_1", "repository_1", "ref_1", "workflow_1", "environment_1", "run_id_1")
    check_released(
        exchanged.MACHINE, [CiCredentialExchanged(run, ["scope_1"], "prefix_1", 1_800_000_000, 1_800_000_000)]
    )


def test_a_token_is_exchanged_once() -> None:
    """A command that was in doubt runs again, and knows its own exchange by the secret."""
    history = History(exchanged.MACHINE)
    assert history.carry_out(exchange) == [EVENT]
    history.refuses(lambda state: exchange(state, "service_ci_bbbbb"), TokenUsed)
    history.check()


def test_a_token_has_one_stream_in_a_project() -> None:
    first = exchanged.stream("proj_1", "https://ci.example", "jti-1")
    assert first == exchanged.stream("proj_1", "https://ci.example", "jti-1")
    others = [
        exchanged.stream("proj_2", "https://ci.example", "jti-1"),
        exchanged.stream("proj_1", "https://ci.example", "jti-2"),
        exchanged.stream("proj_1", "https://other.example", "jti-1"),
    ]
    assert len({first.id, *(other.id for other in others)}) == 4
