"""Token buckets: exact on a clock of the test's own, bounded in memory, by principal or by address (G-012)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.auth.authority import ANONYMOUS, PrincipalKind
from service.http.answer.errors import RateLimited
from service.http.edge.limits import BY_ADDRESS, BY_KIND, RateLimiter, take_token
from service.settingvalues import CI_BINDING, FEEDBACK, OBSERVATIONS, RATE_LIMITS, rate_limits
from tests.service.http.edge.fakes import CI, DSN, OWNER, RUNNER
from tests.service.http.edge.toy_api import serving
from tests.support.accounts import sign_in
from tests.support.server import ServerFactory


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def taken(limiter: RateLimiter, *name: str) -> int:
    """How many tokens a bucket gives until it refuses."""
    count = 0
    try:
        while True:
            limiter.take(*name)
            count += 1
    except RateLimited:
        return count


@pytest.mark.parametrize(("name", "limit"), RATE_LIMITS.items())
def test_each_class_has_its_limit(name: str, limit: int) -> None:
    """A fresh bucket holds a minute's worth, and fills at the same rate."""
    clock = Clock()
    limiter = RateLimiter(clock=clock)
    assert taken(limiter, name, "a") == limit
    clock.now += 30
    assert taken(limiter, name, "a") == limit // 2
    clock.now += 6000
    assert taken(limiter, name, "a") == limit


def test_the_documented_limits() -> None:
    """600, 300, 60000, 12000, 60, 60, 60, 600, 10, 30, 30, 60, 600 a minute."""
    assert list(RATE_LIMITS.values()) == [600, 300, 60_000, 12_000, 60, 60, 60, 600, 10, 30, 30, 60, 600]
    charged = {*BY_ADDRESS, *BY_KIND.values(), FEEDBACK, OBSERVATIONS, CI_BINDING}
    assert set(RATE_LIMITS) == charged, "every limit is charged somewhere"


@given(st.lists(st.floats(0, 90), max_size=60))
def test_never_more_than_the_limit_in_a_minute_beyond_the_burst(pauses: list[float]) -> None:
    """However requests are spaced, a window of t seconds passes at most the burst plus t times the rate."""
    clock = Clock()
    limiter = RateLimiter({"key": 10}, clock=clock)
    passed = []
    for pause in pauses:
        clock.now += pause
        try:
            limiter.take("key", "a")
            passed.append(clock.now)
        except RateLimited as refused:
            wait = int(refused.headers["retry-after"])
            assert wait >= 1
            clock.now += wait
            limiter.take("key", "a")
            passed.append(clock.now)
    for first, start in enumerate(passed):
        for last in range(first, len(passed)):
            assert last - first + 1 <= 10 + (passed[last] - start) * 10 / 60 + 1e-6


def test_headers_count_down() -> None:
    """Limit, what is left, and the seconds until the bucket is full."""
    limiter = RateLimiter({"key": 60}, clock=Clock())
    assert limiter.take("key", "a") == {"ratelimit-limit": "60", "ratelimit-remaining": "59", "ratelimit-reset": "1"}
    assert limiter.take("key", "a")["ratelimit-remaining"] == "58"
    assert limiter.take("key", "b")["ratelimit-remaining"] == "59"


def test_memory_is_bounded() -> None:
    """A million addresses leave the bound; the one used last is kept."""
    limiter = RateLimiter({"device_start": 10}, max_buckets=100, clock=Clock())
    for number in range(10_000):
        limiter.take("device_start", str(number))
    assert len(limiter) == 100
    assert limiter.take("device_start", "9999")["ratelimit-remaining"] == "8"


def test_who_pays() -> None:
    """Principals pay in the class of their kind, addresses on the routes for anybody."""
    limiter = RateLimiter(clock=Clock())
    for principal, limit in ((OWNER, "600"), (RUNNER, "300"), (CI, "300"), (DSN, "60000")):
        assert take_token(limiter, "key", principal, "1.2.3.4", ())["ratelimit-limit"] == limit
    assert take_token(limiter, "key", ANONYMOUS, "1.2.3.4", ()) == {}
    assert take_token(limiter, "none", OWNER, "1.2.3.4", ()) == {}
    for _ in range(60):
        take_token(limiter, "public_query", ANONYMOUS, "1.2.3.4", ("pub_1",))
    assert take_token(limiter, "public_query", ANONYMOUS, "1.2.3.4", ("pub_2",))
    assert take_token(limiter, "public_query", ANONYMOUS, "1.2.3.5", ("pub_1",))
    with pytest.raises(RateLimited):
        take_token(limiter, "public_query", ANONYMOUS, "1.2.3.4", ("pub_1",))
    for number in range(600):
        take_token(limiter, "log", ANONYMOUS, "1.2.3.4", ("0", f"/{number}"))
    with pytest.raises(RateLimited):
        take_token(limiter, "log", ANONYMOUS, "1.2.3.4", ("0", "/000"))


@pytest.mark.parametrize("name", RATE_LIMITS)
def test_each_limit_can_be_switched_off(name: str) -> None:
    """The one that is named is not counted, the others are what they were."""
    limiter = RateLimiter(rate_limits(f"{name}=off"), clock=Clock())
    for _ in range(1000):
        assert limiter.take(name, "a") == {}
    assert len(limiter) == 0
    for other in RATE_LIMITS.keys() - {name}:
        assert limiter.take(other, "a")["ratelimit-limit"] == str(RATE_LIMITS[other])


async def test_over_http() -> None:
    """The eleventh start is 429 with Retry-After and the headers; the answers before it have the headers too."""
    async with serving(rate_limits=rate_limits("on")) as toy:
        answers = [await toy.post("/v1/raw") for _ in range(11)]
        assert [answer.status_code for answer in answers] == [200] * 10 + [429]
        assert [answer.headers["ratelimit-remaining"] for answer in answers[:3]] == ["9", "8", "7"]
        error = answers[-1].json()["error"]
        assert (error["code"], error["retryable"]) == ("rate_limited", True)
        assert 1 <= int(answers[-1].headers["retry-after"]) <= 6
        assert answers[-1].headers["ratelimit-limit"] == "10"


async def test_off_over_http() -> None:
    """With limits off nothing is counted."""
    async with serving(rate_limits=rate_limits("off")) as toy:
        answers = [await toy.post("/v1/raw") for _ in range(15)]
        assert {answer.status_code for answer in answers} == {200}
        assert "ratelimit-limit" not in answers[0].headers


async def test_one_off_and_one_smaller_over_http(server_factory: ServerFactory) -> None:
    """With the service's own setting: polling is free, the third start is refused, and a key's second request."""
    limits = "device_poll=off,device_start=2,key=1"
    server = server_factory(env={"SERVICE_RATE_LIMITS": limits})
    with server.client() as client:
        polls = [client.post("/v1/auth/device/poll", json={"device_code": "x" * 40}) for _ in range(40)]
        assert {answer.status_code for answer in polls} == {400}
        key = sign_in(client, server.internal_token)
        starts = [client.post("/v1/auth/device").status_code for _ in range(2)]
        assert starts == [200, 429]
    with server.client(key) as client:
        assert [client.get("/v1/projects").status_code for _ in range(2)] == [200, 429]


def test_many_tokens_are_taken_together_or_not_at_all() -> None:
    """A batch costs a token an item; what it is refused, smaller ones still get (G-143)."""
    limiter = RateLimiter({"ingest": 10})
    limiter.take("ingest", "a")
    with pytest.raises(RateLimited) as refused:
        limiter.take("ingest", "a", count=11)
    assert 1 <= int(refused.value.headers["retry-after"]) <= 60
    assert limiter.take("ingest", "a", count=8)["ratelimit-remaining"] == "1"
    with pytest.raises(RateLimited):
        limiter.take("ingest", "a", count=2)
    assert limiter.take("ingest", "a")["ratelimit-remaining"] == "0"


def test_who_waits_as_long_as_it_is_told_gets_in() -> None:
    """Each attempt takes the token of its request, so the records have to wait for one more."""
    clock = Clock()
    limiter = RateLimiter({"ingest": 60}, clock=clock)
    limiter.take("ingest", "a", count=60)
    for records in (3, 40, 59):
        for attempt in range(3):
            try:
                limiter.take("ingest", "a")
                limiter.take("ingest", "a", count=records, taken=1)
                break
            except RateLimited as refusal:
                assert attempt < 2
                clock.now += int(refusal.headers["retry-after"])


def test_what_is_more_than_a_minute_holds_passes_a_full_bucket() -> None:
    """It would never pass otherwise; the bucket is in debt for it, so that the rate is kept."""
    clock = Clock()
    limiter = RateLimiter({"ingest": 60}, clock=clock)
    limiter.take("ingest", "a")
    assert limiter.take("ingest", "a", count=179, taken=1)["ratelimit-remaining"] == "0"
    with pytest.raises(RateLimited) as refused:
        limiter.take("ingest", "a")
    assert refused.value.headers["retry-after"] == "121"
    clock.now += 121
    assert limiter.take("ingest", "a")["ratelimit-reset"] == "60"


def test_a_page_takes_nothing_of_what_its_servers_may_send() -> None:
    """The two DSNs of one project have a bucket each (G-184)."""
    page = replace(DSN, kind=PrincipalKind.PUBLIC_DSN)
    limiter = RateLimiter({"ingest": 3, "public_ingest": 2}, clock=Clock())
    for _ in range(2):
        take_token(limiter, "ingest", page, "", ())
    with pytest.raises(RateLimited):
        take_token(limiter, "ingest", page, "", ())
    for _ in range(3):
        take_token(limiter, "ingest", DSN, "", ())
    with pytest.raises(RateLimited):
        take_token(limiter, "ingest", DSN, "", ())
