"""Schedules: the form that is accepted, and the instants at which it fires (G-100)."""

from __future__ import annotations

import hashlib
import itertools
import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from statemachines.contracts.cron import (
    Cron,
    InvalidSchedule,
    firings,
    known_zones,
    latest_firing,
    next_firing,
    parse_cron,
    zone,
)
from tests.support import few_or_many, long_after
from tests.support.firings import walked


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


@pytest.mark.parametrize(
    "text",
    [
        "0 9 * * 1",
        "59 23 31 12 *",
        "0 0 1 1 0",
        "5 */2 * * *",
        "5 8-18/2 * * 1-5",
        "0 0,6,12,18 1,15 * *",
        "0 0 * * 7",
        "0 0 */31 * *",
        "00 09 * * 01",
    ],
)
def test_accepts_the_conservative_form(text: str) -> None:
    """Numbers, '*', lists, ranges and steps are the whole language."""
    assert isinstance(parse_cron(text), Cron)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "* * * * *",  # the minute is one number
        "*/5 * * * *",
        "0,30 * * * *",
        "0-5 * * * *",
        "60 * * * *",
        "-1 * * * *",
        "0 24 * * *",
        "0 0 0 * *",
        "0 0 32 * *",
        "0 0 * 0 *",
        "0 0 * 13 *",
        "0 0 * * 8",
        "0 0 * * MON",
        "0 0 * JAN *",
        "0 0 L * *",
        "0 0 ? * *",
        "0 0 * * 1#2",
        "@daily",
        "0 0 * * * *",
        "0 0 * *",
        "0  0 * * *",
        " 0 0 * * *",
        "0 0 * * * ",
        "0 0 * * *\n",
        "0\t0 * * *",
        "0 5/2 * * *",
        "0 18-8 * * *",
        "0 */0 * * *",
        "0 */24 * * *",
        "0 */ * * *",
        "0 / * * *",
        "0 1- * * *",
        "0 -1 * * *",
        "0 1,,2 * * *",
        "0 ,1 * * *",
        "0 1-2-3 * * *",
        "0 000 * * *",
        "0 ٣ * * *",
        "0 +1 * * *",
    ],
)
def test_refuses_everything_else(text: str) -> None:
    """Names, macros, seconds, odd spacing and values out of range are no schedule."""
    with pytest.raises(InvalidSchedule):
        parse_cron(text)


@pytest.mark.parametrize("text", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 29 2 *", "0 0 */31 1 1", "0 0 */31 * 1"])
def test_refuses_a_schedule_that_may_stay_silent_for_over_a_year(text: str) -> None:
    """Dates that never or seldom exist leave more than 366 days without a firing."""
    with pytest.raises(InvalidSchedule, match="366"):
        parse_cron(text)


@pytest.mark.parametrize("text", ["0 0 28 2 *", "0 0 31 12 *", "0 0 29 2 1", "0 0 */15 * 1"])
def test_accepts_a_schedule_that_fires_at_least_yearly(text: str) -> None:
    """Once a year is enough, also when the day fields combine."""
    assert parse_cron(text)


def test_either_day_matches_only_when_both_are_restricted() -> None:
    """`13 * 5` is every 13th and every Friday; a field that begins with a star restricts nothing by itself."""
    either = parse_cron("0 0 13 * 5")
    assert either.fires_on(date(2026, 11, 13))
    assert either.fires_on(date(2026, 11, 20))
    assert not either.fires_on(date(2026, 11, 14))
    assert not parse_cron("0 0 */2 * 5").fires_on(date(2026, 11, 20))  # an even day
    assert parse_cron("0 0 */2 * 5").fires_on(date(2026, 11, 27))


def test_zone_names_are_the_iana_list() -> None:
    """Nothing but a listed name opens a zone file."""
    assert {"UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires"} <= known_zones()
    for name in ("", "europe/berlin", "Europe", "../zones", "CEST", "Europe/Berlin ", "+01:00", "localtime"):
        with pytest.raises(InvalidSchedule):
            zone(name)


def test_a_skipped_local_time_fires_at_the_next_minute_that_exists() -> None:
    """Berlin has no 02:30 on 2026-03-29: the slot is 03:00 summer time."""
    cron = parse_cron("30 2 * * *")
    assert next_firing(cron, "Europe/Berlin", at("2026-03-28T12:00Z")) == at("2026-03-29T03:00+02:00")
    assert next_firing(cron, "Europe/Berlin", at("2026-03-29T01:00Z")) == at("2026-03-30T02:30+02:00")


def test_a_skipped_time_that_meets_another_slot_is_one_slot() -> None:
    """02:00 moves to 03:00, which the same schedule names too: one firing, not two."""
    cron = parse_cron("0 2,3 * * *")
    slots = list(itertools.islice(firings(cron, "Europe/Berlin", at("2026-03-28T12:00Z")), 2))
    assert slots == [at("2026-03-29T01:00Z"), at("2026-03-30T00:00Z")]


def test_a_repeated_local_time_fires_once() -> None:
    """Berlin has 02:30 twice on 2026-10-25; the first is the slot."""
    cron = parse_cron("30 2 * * *")
    assert next_firing(cron, "Europe/Berlin", at("2026-10-24T12:00Z")) == at("2026-10-25T00:30Z")
    assert next_firing(cron, "Europe/Berlin", at("2026-10-25T00:30Z")) == at("2026-10-26T01:30Z")


def test_by_the_hour_each_real_hour_fires_once() -> None:
    """Berlin repeats 02:30 on 2026-10-25 and skips it on 2026-03-29: a schedule by the hour fires 25 and 23 times."""
    cron = parse_cron("30 * * * *")
    for day, hours in (("2026-10-25", 25), ("2026-03-29", 23), ("2026-06-01", 24)):
        start = int(datetime.fromisoformat(day).replace(tzinfo=zone("Europe/Berlin")).timestamp())
        slots = list(itertools.islice(firings(cron, "Europe/Berlin", start - 1), hours + 1))
        assert slots[:hours] == [start + 1800 + 3600 * number for number in range(hours)]
        local = datetime.fromtimestamp(slots[hours], zone("Europe/Berlin"))
        assert (local.hour, local.day) == (0, int(day[-2:]) + 1)


def test_a_day_that_a_zone_skips_fires_at_the_next_day_that_exists() -> None:
    """Apia had no 2011-12-30; its slot is the first minute of the 31st."""
    cron = parse_cron("0 9 30 * *")
    skipped = at("2011-12-31T00:00+14:00")
    assert next_firing(cron, "Pacific/Apia", at("2011-12-29T12:00-10:00")) == skipped
    assert latest_firing(cron, "Pacific/Apia", skipped) == skipped
    assert latest_firing(cron, "Pacific/Apia", skipped - 1) < skipped - 86400


ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",
    "Australia/Lord_Howe",  # shifts by half an hour
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "Pacific/Chatham",
    "America/St_Johns",
    "Pacific/Apia",
]
BY_THE_HOUR = {"UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe"}
HOURS = ["*", "2", "1,2,3", "*/3", "*/2", "0-4", "0-23", "23"]
DAYS = ["*", "1-7", "*/2", "29"]
WEEKDAYS = ["*", "0", "1-5", "7"]


@few_or_many(20, 60)
@given(
    st.sampled_from(ZONES),
    st.builds(
        "{} {} {} * {}".format,
        st.sampled_from([0, 15, 30, 59]),
        st.sampled_from(HOURS),
        st.sampled_from(DAYS),
        st.sampled_from(WEEKDAYS),
    ),
    st.data(),
)
def test_agrees_with_walking_every_minute_around_an_offset_change(
    name: str, expression: str, data: st.DataObject
) -> None:
    """Over the three days around a change of offset, both ways find the slots of the oracle, from every minute.

    By the hour, cronsim has rules of its own where the clock changes around midnight.
    """
    assume(name in BY_THE_HOUR or not expression.split()[1].startswith("*"))
    cron, where = parse_cron(expression), zone(name)
    changes = [
        day
        for day in (datetime(2009, 1, 1, tzinfo=UTC) + timedelta(days=n) for n in range(365 * 5))
        if day.astimezone(where).utcoffset() != (day + timedelta(days=1)).astimezone(where).utcoffset()
    ] or [datetime(2010, 6, 1, tzinfo=UTC)]
    around = data.draw(st.sampled_from(changes))
    start, end = int((around - timedelta(days=1)).timestamp()), int((around + timedelta(days=2)).timestamp())
    slots = walked(cron, where, start, end)
    assert list(itertools.takewhile(lambda slot: slot < end, firings(cron, name, start - 1))) == slots
    near = st.sampled_from([*slots, *(slot - 1 for slot in slots if slot > start)]) if slots else st.nothing()
    for at_ in data.draw(st.lists(near | st.sampled_from(range(start, end, 60)), min_size=3, max_size=6)):
        before, after = [slot for slot in slots if slot <= at_], [slot for slot in slots if slot > at_]
        if before:
            assert latest_firing(cron, name, at_) == before[-1]
        if after:
            assert next_firing(cron, name, at_) == after[0]


GOLDEN = Path(__file__).parents[2] / "golden" / "schedules.json"
EXPRESSIONS = ("30 2 * * *", "30 * * * *", "0 */3 * * *", "15 1,2,3 * * *", "0 9 * * 1")


def digests(name: str, year: int, expression: str) -> dict[str, str]:
    """Number and hash of the firings of a year: on ordinary days, and on the two days around a change of the clock."""
    where = zone(name)
    start, end = (int(datetime(one, 1, 1, tzinfo=where).timestamp()) for one in (year, year + 1))
    found: dict[str, list[int]] = {"ordinary": [], "changes": []}
    for slot in itertools.takewhile(lambda slot: slot < end, firings(parse_cron(expression), name, start - 1)):
        before, after = (datetime.fromtimestamp(slot + shift, where).utcoffset() for shift in (-86_400, 86_400))
        found["ordinary" if before == after else "changes"].append(slot)
    return {
        kind: f"{len(slots)} {hashlib.sha256(repr(slots).encode()).hexdigest()[:16]}" for kind, slots in found.items()
    }


@pytest.mark.parametrize("name", long_after(3, ZONES))
def test_the_firings_of_each_zone_and_year_stay(name: str) -> None:
    """As they were recorded. Those on ordinary days are the ones of the releases before cronsim found them."""
    recorded = json.loads(GOLDEN.read_text(encoding="utf-8"))[name]
    assert len(recorded) >= 6
    for year, of_year in recorded.items():
        assert {expression: digests(name, int(year), expression) for expression in EXPRESSIONS} == of_year


def test_every_zone_answers() -> None:
    """Each listed zone can be opened and has a slot within a day or two."""
    cron = parse_cron("30 2 * * *")
    now = at("2026-11-21T00:00Z")
    for name in known_zones():
        assert 0 < next_firing(cron, name, now) - now <= 2 * 86400
