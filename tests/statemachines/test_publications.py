"""Publications: every edge and non-edge, replay, repetition, the bound of a project (R-PUB-01, R-PUB-04, G-163)."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from service.ids import random_id
from statemachines import publications
from statemachines.publications import (
    PUBLICATIONS_LIMIT,
    KeyMade,
    PublicationNotFound,
    PublicationPublished,
    PublicationRevoked,
    PublicationWish,
    TooManyPublications,
)
from tests.statemachines.tables import History, check_released, check_table

S = publications.Status
PUBLISHED = PublicationPublished("event-count", '{"event":"a"}', "Orders", 300, "hash", "agp_abc", 5)
WISH = PublicationWish("event-count", '{"event":"a"}', "Orders", 300)
KEY = KeyMade("hash", "agp_abc")


def test_a_publication_moves_along_the_edges_only() -> None:
    published, revoked = PublicationPublished.TOPIC, PublicationRevoked.TOPIC
    check_table(
        publications.MACHINE,
        [(published, S.ABSENT, S.PUBLISHED), (revoked, S.PUBLISHED, S.REVOKED)],
        {published: PUBLISHED, revoked: PublicationRevoked(6)},
    )


def test_released_events_keep_their_shape() -> None:
    moment = 1_800_000_000
    check_released(
        publications.MACHINE,
        [
            PublicationPublished(
                "blueprint_id_1",
                "params_1",
                "title_1",
                1,
                "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                "key_prefix_1",
                moment,
            ),
            PublicationRevoked(moment),
        ],
    )


def test_ids_have_130_random_bits() -> None:
    """26 characters of 32 each, no two alike, and nothing of the time in them (G-163)."""
    ids = {random_id("pub") for _ in range(2_000)}
    assert len(ids) == 2_000
    assert all(map(publications.is_publication_id, ids))
    for place in range(4, 30):
        assert len({made[place] for made in ids}) == 32


@pytest.mark.parametrize(
    "text",
    ["", "pub_", "pub_" + "a" * 25, "pub_" + "a" * 27, "pub_" + "A" * 26, "pub_" + "i" * 26, "pub_" + "a" * 26 + "\n"],
)
def test_other_texts_are_no_ids(text: str) -> None:
    assert not publications.is_publication_id(text)


class PublicationMachine(RuleBasedStateMachine):
    """A publication against a plain model over a clock that only moves on."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(publications.MACHINE)
        self.now = 1_000
        self.status = S.ABSENT

    @rule(seconds=st.integers(0, 1_000))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule(others=st.sampled_from([0, PUBLICATIONS_LIMIT - 1, PUBLICATIONS_LIMIT, PUBLICATIONS_LIMIT + 5]))
    def publish(self, others: int) -> None:
        def decide(state):
            return publications.decide_publish(state, WISH, KEY, self.now, published=others)

        if self.status is not S.ABSENT:
            assert self.history.carry_out(decide) == []
        elif others >= PUBLICATIONS_LIMIT:
            self.history.refuses(decide, TooManyPublications)
        else:
            [made] = self.history.carry_out(decide)
            assert isinstance(made, PublicationPublished)
            assert (made.params, made.key_hash, made.published_at) == (WISH.params, KEY.hash, self.now)
            self.status = S.PUBLISHED

    @rule()
    def revoke(self) -> None:
        def decide(state):
            return publications.decide_revoke(state, self.now)

        if self.status is S.ABSENT:
            self.history.refuses(decide, PublicationNotFound)
            return
        assert self.history.carry_out(decide) == ([PublicationRevoked(self.now)] if self.status is S.PUBLISHED else [])
        self.status = S.REVOKED

    @invariant()
    def the_history_says_the_same(self) -> None:
        assert self.history.state.status is self.status
        self.history.check()


TestPublicationMachine = PublicationMachine.TestCase
