"""A deploy: recorded once, trusted only from CI (G-052, R-ING-09, R-ING-10)."""

from __future__ import annotations

import time
from functools import cmp_to_key
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines import deploys
from statemachines.deploys import WORDS, RecordDeploy, Status, Versions, compare, is_older, order_of, parts, recurs
from statemachines.kernel.canonical import canonical
from tests.statemachines.tables import History, check_table

RECORDED = deploys.DeployRecorded(
    "1.2.3", "production", "a" * 40, "main", "ci", True, "cred_1", "b" * 64, "ps_1", "run_1", 5
)


def test_a_deploy_moves_along_the_edge_only():
    check_table(
        deploys.MACHINE,
        [(RECORDED.TOPIC, Status.ABSENT, Status.RECORDED)],
        {RECORDED.TOPIC: RECORDED},
    )


wishes = st.builds(
    RecordDeploy,
    version=st.text(min_size=1, max_size=20),
    environment=st.sampled_from(["production", "staging"]),
    sha=st.none() | st.just("a" * 40),
    branch=st.none() | st.just("main"),
    credential_id=st.none() | st.just("cred_1"),
    proof_marker_hash=st.none() | st.just("b" * 64),
    proof_session_id=st.none() | st.just("ps_1"),
    automation_run_id=st.none() | st.just("run_1"),
)


@given(wishes, wishes, st.integers(1), st.integers(1))
def test_a_deploy_is_recorded_once_and_only_ci_is_trusted(wish, other, now, later):
    history = History(deploys.MACHINE)
    [event] = history.carry_out(lambda state: deploys.decide_record(state, wish, now))
    trusted = wish.credential_id is not None
    assert (event.trusted, event.source) == (trusted, "ci" if trusted else "dsn")
    assert event.proof_session_id == (wish.proof_session_id if trusted else None)
    assert event.automation_run_id == (wish.automation_run_id if trusted else None)
    assert (event.proof_marker_hash, event.recorded_at) == (wish.proof_marker_hash, now)
    assert deploys.decide_record(history.state, other, later) == []
    assert history.state.record == event
    history.check()


def test_a_stored_event_stays_readable():
    golden = (Path(__file__).parents[1] / "golden" / "events" / f"{RECORDED.TOPIC}.json").read_bytes()
    assert msgspec.json.decode(golden, type=type(RECORDED)) == RECORDED
    assert canonical(msgspec.to_builtins(RECORDED)) == golden


# How releases compare by what they are called (G-199).

NUMBER = st.integers(0, 12).map(str)
WORD = st.sampled_from(sorted(WORDS))
PRERELEASE = st.lists(WORD | NUMBER, max_size=3).map(lambda words: "".join(f"-{word}" for word in words[:1]) + "".join(
    f".{word}" for word in words[1:]
))  # fmt: skip
NUMBERS = st.builds(lambda core, words: ".".join(core) + words, st.lists(NUMBER, min_size=2, max_size=4), PRERELEASE)
DATES = st.builds(
    lambda year, month, day, mark: f"20{year:02}{mark}{month}{mark}{day}",
    st.integers(10, 40),
    st.integers(1, 12),
    st.integers(1, 28),
    st.sampled_from(".-"),
)
PLAIN = st.integers(0, 99_999).map(str)
KINDS = {"numbers": NUMBERS, "date": DATES, "number": PLAIN}
ODD = st.text(max_size=30) | st.text("0123456789.-+@vV~_arcbetdov \n", max_size=40)
ANY = st.one_of(*KINDS.values(), ODD)


@pytest.mark.parametrize(
    "ordered",
    [
        "1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 1.0.0",
        "10.18.6 10.18.7 10.24.0",
        "9.9 9.10 10.0",
        "1.4.0rc2 1.4.0rc10 1.4 1.4.0.1",
        "shop@1.4.0-SNAPSHOT shop@1.4.0 shop@1.4.1-beta shop@2.0.0+1",
        "2025.12.31 2026.1.2 2026.01.10 20260111 2026-01-12-rc1 2026-01-12 2026-01-12-1",
        "20260111 202601110930 20260112.1 20260112.2",
        "7 41 1000",
        "@scope/shop@0.9.0 @scope/shop@0.10.0",
        "1.4.0-abc1234 1.5.0-00def12",
    ],
)
def test_versions_of_a_kind_order_by_their_numbers_and_words(ordered: str) -> None:
    releases = ordered.split()
    for place, release in enumerate(releases):
        for later in releases[place + 1 :]:
            assert (compare(release, later), compare(later, release)) == (-1, 1), (release, later)
            assert is_older(release, later)
            assert not is_older(later, release)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("shop@1.4.0", "1.4.0"),
        ("shop@1.4.0+77", "shop@1.4.0"),
        ("v1.4.0", "1.4.0+build.5"),
        ("@scope/shop@1.4.0", "1.4.0"),
        ("1.4", "1.4.0"),
        ("1.4.0-RC1", "1.4.0-rc.1"),
        ("1.4.0b2", "1.4.0-beta.2"),
        ("2026-11-08", "2026.11.8"),
        ("20261108", "2026.11.8"),
        ("d41d8cd98f", "shop@d41d8cd98f"),
    ],
)
def test_forms_of_a_release_are_one(a: str, b: str) -> None:
    assert compare(a, b) == compare(b, a) == 0
    assert a in Versions([b])
    assert recurs(a, b, Versions(()))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("shop@1.4.0", "admin@1.4.0"),  # of another package
        ("shop@1.4.0", "admin@1.5.0"),
        ("2026.11.28", "3.0.0"),  # of another kind
        ("41", "1.4.0"),
        ("d41d8cd98f", "1.4.0"),
        ("d41d8cd98f", "900150983c"),
        ("1.4.0-abc1234", "1.4.0-def1234"),  # commits have no order
        ("1.4.0-hotfix", "1.4.0"),  # before it by semver, after it by its meaning
        ("1.4.0.post1", "1.4.0"),
        ("", "1.4.0"),
    ],
)
def test_unlike_releases_do_not_compare(a: str, b: str) -> None:
    assert compare(a, b) is compare(b, a) is None
    assert not is_older(a, b)
    assert not recurs(a, b, Versions([b, "9.9"]))
    assert recurs(a, b, Versions([a])), "the order of deploys decides"


@pytest.mark.parametrize("kind", KINDS)
def test_versions_of_a_kind_have_a_total_order(kind: str) -> None:
    @given(a=KINDS[kind], b=KINDS[kind], c=KINDS[kind])
    def check(a: str, b: str, c: str) -> None:
        for version in (a, b, c):
            order = order_of(version)
            assert order is not None
            assert (order.kind, order.mark, compare(version, version)) == (kind, "", 0)
        ab, ba, bc, ac = compare(a, b), compare(b, a), compare(b, c), compare(a, c)
        assert ab is not None
        assert ba is not None
        assert bc is not None
        assert ac is not None
        assert ab == -ba
        if ab <= 0 and bc <= 0:
            assert ac == min(ab, bc)
        first, second, third = sorted((a, b, c), key=cmp_to_key(lambda x, y: compare(x, y) or 0))
        assert not is_older(second, first)
        assert not is_older(third, second)

    check()


@given(a=ANY, b=ANY, name=st.sampled_from(["", "shop@", "@s/shop@"]), other=st.sampled_from(["", "shop@", "admin@"]))
def test_any_two_texts_compare_the_same_from_both_sides(a: str, b: str, name: str, other: str) -> None:
    a, b = name + a, other + b
    there, back = compare(a, b), compare(b, a)
    assert (there is None) == (back is None)
    if there is not None and back is not None:
        assert there == -back
        assert (there == 0) == (a in Versions([b]))
    else:
        assert a not in Versions([b])
    assert compare(a, a) == 0


@given(release=ODD)
def test_parts_are_what_the_text_is_made_of(release: str) -> None:
    name, version = parts(release)
    assert "+" not in version
    assert "@" not in version or version.startswith("@") or release.startswith("@")
    assert release.startswith(f"{name}@" if name else "")


@pytest.mark.parametrize(
    "release",
    [
        "1" * 200_000,
        "1." * 100_000,
        "1.0-" + "1" * 200_000 + "!",
        "1.0-" + "alpha" * 40_000 + "!",
        "1.0-" + "-" * 200_000,
        "@" * 200_000,
        "20261128" + "-1" * 100_000 + "!",
        "v" * 200_000 + "+" * 200_000,
    ],
)
def test_the_worst_texts_are_read_in_no_time(release: str) -> None:
    """A hundred times as long as the longest release that is taken in."""
    began = time.process_time()
    assert compare(release, release) == 0
    compare(release, "1.0")
    order_of(parts(release).version)
    assert time.process_time() - began < 2


def test_an_error_recurs_by_version_before_deploys() -> None:
    """An older version that was deployed again after the repair is older still."""
    assert recurs(None, "1.4.0", Versions(()))
    assert recurs("shop@1.5.0", "1.4.0", Versions(()))
    assert not recurs("shop@1.3.9", "1.4.0", Versions(["1.3.9"]))
    assert "shop@1.3" not in Versions(["admin@1.3", "1.4"])
    assert "1.3" in Versions(["admin@1.3"])
