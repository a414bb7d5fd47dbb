"""Preparing a record: what is stored of it, and what is not (G-030, G-033, G-084)."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from schemas.analytics import AnalyticsEvent
from schemas.cases.log import LogEvent
from service.auth.refusals import InvalidPayload
from service.ingest.grouping.fingerprint import gather, group
from service.ingest.items import Adjustments, AnalyticsRow, LogRow, take_analytics, take_log
from service.ingest.scrubbing import SCRUBBED
from statemachines.cases import case
from tests.support.ingest import PROJECT, SCRUBBER, analytics_item, log_item, prepared, sender

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
        "next_action": "Nothing to do.",
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
    assert item.scrubbed == {"service_secret": 3, "name": 3}
    assert secret not in repr(item)
    event = prepared(analytics_item(secret, password=1, fine=2))
    assert (event.row.event, event.row.properties) == (SCRUBBED, {"password": SCRUBBED, "fine": 2})
    assert msgspec.json.decode(event.answer(7))["event"] == SCRUBBED
    assert event.scrubbed == {"service_secret": 1, "name": 1}


CARD = "4111111111111111"


def test_what_identifies_is_never_changed():
    """A form is no reason to change what a person, a release, an environment or an event is called (G-135)."""
    user = {"id": CARD, "token": "t", "note": CARD}
    row = prepared(
        log_item("m", release=CARD, environment=CARD, user=user, tags={"service_onboarding_proof": CARD})
    ).row
    assert (row.release, row.environment, row.user_id) == (CARD, CARD, CARD)
    assert row.user_data == {"id": CARD, "token": SCRUBBED, "note": "[scrubbed:card_number]"}
    assert row.marker_hash == hashlib.sha256(CARD.encode()).hexdigest()
    raw = msgspec.json.encode({"event": CARD, "distinct_id": CARD, "properties": {"version": CARD, "id": CARD}})
    event = prepared(take_analytics(sender(), msgspec.json.decode(raw, type=AnalyticsEvent), raw))
    assert (event.row.event, event.row.distinct_id) == (CARD, CARD)
    assert event.row.properties["id"] == "[scrubbed:card_number]"


@pytest.mark.parametrize("text", [f"card {CARD} declined", "Basic YWRhOmxvdmVsYWNl is wrong", "at https://a:b@c/"])
def test_grouping_sees_the_text_before_its_secrets_are_hidden(text):
    """So that no case splits when another form is known; what a case is called after holds no secret."""
    extra = {"exception": {"type": f"E {text}", "frames": [{"file": text, "function": "f", "in_app": True}]}}
    item = prepared(log_item(text, extra=extra))
    assert [offered.grouping for offered in item.offered] == list(group(gather(text, extra)))
    assert item.evidence is not None
    assert [kept for kept in item.evidence if isinstance(kept, str) and text in kept] == []
    assert all("[scrubbed:" in kept for kept in item.evidence[:3] if kept is not None)


def test_a_text_with_a_secret_of_ours_is_grouped_as_hidden():
    """As before: whoever rotates a key finds the error in the same case."""
    first, second = (prepared(log_item("key is service_sk_" + letter * 30)) for letter in "ab")
    assert first.offered == second.offered == prepared(log_item(SCRUBBED)).offered


def test_null_is_as_if_absent():
    item = prepared(log_item("m", level=None, user={"id": "u", "email": None}, tags={"a": None, "b": "c"}))
    assert (item.row.level, item.row.tags) == ("error", {"b": "c"})


def test_a_record_says_where_it_was_adjusted():
    raw = msgspec.json.encode({"message": "m", "level": "info"})
    event = msgspec.json.decode(raw, type=LogEvent)
    item = prepared(take_log(sender(), event, raw, Adjustments(3, ("extra.a", "tags.b"))))
    assert item.row.adjusted == ("extra.a", "tags.b")
    assert msgspec.json.decode(item.answer(7))["adjusted"] == 3


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
    *_, assignment = item.offered
    assert assignment.case_id == case.case_id(PROJECT, assignment.grouping.fingerprint)


def test_larger_bodies_weigh_more():
    assert log_item("x" * 8000).size > log_item("x").size + 8000


def test_bodies_of_many_values_weigh_more():
    """They cost more time and memory than a text of their length."""
    many = log_item(extra={"a": [0] * 4000})
    assert many.size > log_item(extra={"a": "x" * 8000}).size + 8000
