"""Preparing a record: what is stored of it, and what is not (G-030, G-033, G-084)."""

from __future__ import annotations

import hashlib

import msgspec
import pytest

from service.http.errors import InvalidPayload
from service.ingest.items import NULL, copy_text
from service.ingest.scrubbing import SCRUBBED
from tests.support.ingest import analytics_item, log_item

MARKER = "sop_rt_" + "A" * 43
MARKER_HASH = hashlib.sha256(MARKER.encode()).hexdigest()


def fields(item):
    """The COPY fields that a record knows already, by name."""
    columns = item.row.split("\t")[1:-1]
    names = (
        ["id", "level", "message", "environment", "release", "user_id", "user", "tags", "extra"]
        if item.is_log
        else ["id", "event", "distinct_id", "properties"]
    )
    return dict(zip(names, columns, strict=True))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (None, NULL),
        ("", ""),
        ("plain ü", "plain ü"),
        ("a\tb\nc\rd\\e", "a\\tb\\nc\\rd\\\\e"),
        ("\\N", "\\\\N"),
        ("\x0b\x1b", "\x0b\x1b"),
    ],
)
def test_text_is_escaped_for_copy(text, written):
    assert copy_text(text) == written


@pytest.mark.parametrize(
    ("sent", "stored"), [("warn", "warning"), ("critical", "fatal"), ("debug", "debug"), ("error", "error")]
)
def test_levels_have_one_spelling(sent, stored):
    item = log_item(level=sent)
    assert fields(item)["level"] == item.answer.level == stored
    assert bool(item.offered) is (stored in {"error", "fatal"})
    assert (item.answer.case_id is not None) is (stored in {"error", "fatal"})


def test_what_is_left_out_has_its_default():
    found = fields(log_item("m", environment=None, release=None, user=None, tags=None, extra=None))
    assert {name: value for name, value in found.items() if name != "id"} == {
        "level": "error",
        "message": "m",
        "environment": "production",
        "release": NULL,
        "user_id": NULL,
        "user": NULL,
        "tags": "{}",
        "extra": "{}",
    }
    assert fields(analytics_item())["properties"] == "{}"


def test_all_of_the_user_is_kept():
    found = fields(log_item(user={"id": "u1", "email": None, "plan": "pro"}))
    assert (found["user_id"], msgspec.json.decode(found["user"])) == ("u1", {"id": "u1", "email": None, "plan": "pro"})


def test_secrets_go_before_anything_is_stored():
    secret = "service_sk_" + "a1B2" * 10
    item = log_item(
        f"key is {secret}",
        release=secret,
        user={"id": "u1", "api_key": "x"},
        tags={"Cookie": "c", "ok": "v"},
        extra={"deep": [{"Access-Token": {"a": 1}}], "exception": {"type": secret}},
    )
    found = fields(item)
    assert found["message"] == found["release"] == SCRUBBED
    assert msgspec.json.decode(found["user"]) == {"id": "u1", "api_key": SCRUBBED}
    assert msgspec.json.decode(found["tags"]) == {"Cookie": SCRUBBED, "ok": "v"}
    assert msgspec.json.decode(found["extra"]) == {
        "deep": [{"Access-Token": SCRUBBED}],
        "exception": {"type": SCRUBBED},
    }
    assert item.scrubbed == 6
    assert secret not in repr(item)
    event = analytics_item(secret, password=1, fine=2)
    assert fields(event)["event"] == event.answer.event == SCRUBBED
    assert msgspec.json.decode(fields(event)["properties"]) == {"password": SCRUBBED, "fine": 2}
    assert event.scrubbed == 2


@pytest.mark.parametrize("place", ["tags", "extra"])
def test_of_a_proof_marker_only_the_hash_is_kept(place):
    item = log_item("m", **{place: {"service_onboarding_proof": MARKER, "a": "b"}})
    assert item.marked
    assert item.rest == f"\t{MARKER_HASH}\n"
    assert msgspec.json.decode(fields(item)[place]) == {"service_onboarding_proof": f"sha256:{MARKER_HASH}", "a": "b"}
    assert MARKER not in repr(item)
    event = analytics_item(service_onboarding_proof=MARKER, total=1)
    assert (event.marked, event.rest) == (True, f"{MARKER_HASH}\n")
    assert MARKER not in repr(event)


@pytest.mark.parametrize("value", [None, 7, "", ["x"]])
def test_what_is_no_marker_marks_nothing(value):
    item = analytics_item(service_onboarding_proof=value)
    assert (item.marked, item.rest) == (False, f"{NULL}\n")


def test_extra_is_bounded_as_json():
    assert log_item(extra={"a": "x" * 65_000})
    with pytest.raises(InvalidPayload) as refused:
        log_item(extra={"a": "x" * 66_000})
    assert refused.value.details["invalid_fields"][0]["field"] == "extra"


def test_case_and_fingerprint_are_told_in_the_answer():
    item, again, other = log_item("failed 1"), log_item("failed 2"), log_item("stopped")
    assert item.answer.case_id == again.answer.case_id != other.answer.case_id
    assert item.answer.fingerprint == again.answer.fingerprint
    assert item.answer.id != again.answer.id
