"""The storms in their short form, P8 after each of them; `make torture` runs them at full size."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster import TestCluster
from tests.torture import bounds, deliveries, releases, schedules
from tests.torture.runs import RUNS, SHORT, Theatre

pytestmark = pytest.mark.slow


@pytest.fixture
def theatre(cluster: TestCluster, tmp_path: Path) -> Theatre:
    return Theatre(cluster, tmp_path, print)


async def test_stores_that_die_stop_and_lose_answers_keep_every_promise(theatre: Theatre):
    assert await RUNS["store"](theatre, SHORT["store"]) == []


async def test_p1_what_was_acknowledged_is_there_once_though_processes_die(theatre: Theatre):
    assert await RUNS["P1"](theatre, SHORT["P1"]) == []


async def test_p3_a_lost_answer_changes_no_answer(theatre: Theatre):
    assert await RUNS["P3"](theatre, SHORT["P3"]) == []


async def test_p4_the_fence_is_a_compare_and_set(theatre: Theatre):
    assert await RUNS["P4"](theatre, SHORT["P4"]) == []


async def test_p6_a_key_has_one_effect(theatre: Theatre):
    assert await RUNS["P6"](theatre, SHORT["P6"]) == []


async def test_p7_readers_of_the_log_miss_nothing(theatre: Theatre):
    assert await RUNS["P7"](theatre, SHORT["P7"]) == []


async def test_two_releases_run_side_by_side_up_and_down(theatre: Theatre):
    """The next one has one more migration and another version of two topics; this one refuses only what it wrote."""
    assert await releases.releases(theatre, releases.SHORT["releases"]) == []


async def test_p14_a_civil_occurrence_has_one_receipt_whatever_dies(theatre: Theatre):
    """A quarter of a year with its change of the clock; the three years of twelve zones are `make torture`'s."""
    assert await schedules.p14(theatre, schedules.SHORT["P14"]) == []


async def test_p26_memory_is_bounded_and_only_what_is_pruned_grows_with_telemetry(theatre: Theatre):
    """Fewer documents than fill the caches; `make torture` writes several times what they have room for."""
    assert await bounds.p26(theatre, bounds.SHORT["P26"]) == []


async def test_deliveries_arrive_once_and_in_order_whatever_dies(theatre: Theatre):
    """Fewer of them, and without a crash of the database, which other tests share."""
    assert await deliveries.webhooks(theatre, deliveries.SHORT["webhooks"]) == []
