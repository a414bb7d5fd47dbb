"""Preparing a record: what is stored of it, and what is not (G-030, G-033, G-084)."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from service.auth.refusals import InvalidPayload
from service.ingest.items import AnalyticsRow, LogRow
from service.ingest.scrubbing import SCRUBBED
from statemachines.cases import case
from tests.support.ingest import PROJECT, SCRUBBER, analytics_item, log_item, prepared

MARKER = "sop_rt_" + "A" * 43
MARKER_HASH = hashlib.sha256(MARKER.encode()).hexdigest()


@pytest.mark.parametrize(
    ("sent", "stored"), [("warn", "warning"), ("critical", "fatal"), ("debug", "debug"), ("error", "error")]
)
def test_levels_have_one_spelling(sent, stored):
    item = prepared(log_item(level=sent))
    assert item.row.level == stored
    assert bool(item.offered) is (stored in {"error", "fatal"})
    assert msgspec.json.decode(item.answer(7)) == {
        "id": item.row.id,
        "project_id": PROJECT,
        "received_at": 7,
        "level": stored,
        "case_id": None,
        "fingerprint": None,
        "next_action": "Nothing has to be done.",
        "ok": True,
        "accepted": True,
    }


def test_what_is_left_out_has_its_default():
    item = prepared(log_item("m", environment=None, release=None, user=None, tags=None, extra=None))
    assert item.row == LogRow(PROJECT, item.row.id, "error", "m", "production", None, None, None, {}, {}, None)
    event = prepared(analytics_item())
    assert event.row == AnalyticsRow(PROJECT, event.row.id, "order_placed", "u1", {}, None)


def test_all_of_the_user_is_kept():
    user = {"id": "u1", "email": None, "plan": "pro"}
    row = prepared(log_item(user=user)).row
    assert (row.user_id, row.user_data) == ("u1", user)


def test_secrets_go_before_anything_is_stored():
    secret = "service_sk_" + "a1B2" * 10
    item = log_item(
        f"key is {secret}",
        release=secret,
        user={"id": "u1", "api_key": "x"},
        tags={"Cookie": "c", "ok": "v"},
        extra={"deep": [{"Access-Token": {"a": 1}}], "exception": {"type": secret}},
    )
    assert secret not in repr(item)
    row = prepared(item).row
    assert row.message == row.release == SCRUBBED
    assert row.user_data == {"id": "u1", "api_key": SCRUBBED}
    assert row.tags == {"Cookie": SCRUBBED, "ok": "v"}
    assert row.extra == {"deep": [{"Access-Token": SCRUBBED}], "exception": {"type": SCRUBBED}}
    assert item.scrubbed == 6
    assert secret not in repr(item)
    event = prepared(analytics_item(secret, password=1, fine=2))
    assert (event.row.event, event.row.properties) == (SCRUBBED, {"password": SCRUBBED, "fine": 2})
    assert msgspec.json.decode(event.answer(7))["event"] == SCRUBBED
    assert event.scrubbed == 2


@pytest.mark.parametrize("place", ["tags", "extra"])
def test_of_a_proof_marker_only_the_hash_is_kept(place):
    item = log_item("m", **{place: {"service_onboarding_proof": MARKER, "a": "b"}})
    assert MARKER not in repr(item)
    item.prepare(SCRUBBER)
    assert item.row.marker_hash == MARKER_HASH
    assert getattr(item.row, place) == {"service_onboarding_proof": f"sha256:{MARKER_HASH}", "a": "b"}
    assert MARKER not in repr(item)
    event = prepared(analytics_item(service_onboarding_proof=MARKER, total=1))
    assert event.row.marker_hash == MARKER_HASH
    assert MARKER not in repr(event)


@pytest.mark.parametrize("value", [None, 7, "", ["x"]])
def test_what_is_no_marker_marks_nothing(value):
    row = prepared(analytics_item(service_onboarding_proof=value)).row
    assert (row.marker_hash, row.properties) == (None, {"service_onboarding_proof": value})


def test_extra_is_bounded_as_json():
    assert log_item(extra={"a": "x" * 65_000})
    with pytest.raises(InvalidPayload) as refused:
        log_item(extra={"a": "x" * 66_000})
    assert refused.value.details["invalid_fields"][0]["field"] == "extra"


def test_an_error_is_offered_a_case_by_what_it_says():
    item, again, other = (prepared(log_item(message)) for message in ("failed 1", "failed 2", "stopped"))
    assert item.offered == again.offered != other.offered
    assert item.row.id != again.row.id
    [assignment] = item.offered
    assert assignment.case_id == case.case_id(PROJECT, assignment.grouping.fingerprint)


def test_larger_bodies_weigh_more():
    assert log_item("x" * 8000).size > log_item("x").size + 8000
