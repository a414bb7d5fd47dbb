"""Queries about keys: pages that neither skip nor repeat."""

from __future__ import annotations

from service.accounts import membership, person
from service.accounts.membership import email_identity
from service.eventstore.read.reader import END, PageEnd
from service.eventstore.store import EventStore


async def test_pages_of_keys_add_up_to_the_whole(accounts: EventStore) -> None:
    """Each page goes on where the one before ended, ties of time included."""
    ann, bob = email_identity("ann@example.com"), email_identity("bob@example.com")
    made = [await membership.create_key(accounts, ann) for _ in range(5)]
    await membership.create_key(accounts, bob)
    user_id = made[0].user_id
    whole = await person.keys_of(accounts, user_id, END, 10)
    assert {used.key.id for used in whole} == {key.key_id for key in made}
    assert [used.last_used_at for used in whole] == [None] * 5
    paged, after = [], END
    while page := await person.keys_of(accounts, user_id, after, 2):
        paged += page
        after = PageEnd(page[-1].key.created_at, page[-1].key.id)
    assert paged == whole
