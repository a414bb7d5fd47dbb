"""Bytes of events: canonical form, salted hashes, chain."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import psycopg
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from service.eventstore.read.stored import (
    CHAIN_START,
    EventEnvelope,
    canonical,
    hash_chain,
    hash_leaf,
    hash_payload,
    microseconds,
)
from statemachines.kernel.topics import decode_event
from tests.support.toy import ToyBumped

SAFE = 2**53 - 1
# What JSONB keeps: any text without NUL and without lone surrogates.
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)))
scalars = st.none() | st.booleans() | st.integers(-SAFE, SAFE) | texts
keys = st.text(st.characters(max_codepoint=127, exclude_characters="\0"), max_size=12)
payloads = st.dictionaries(
    keys, st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=10)
)


@given(payloads)
def test_canonical_form_is_that_of_the_standard(payload: dict[str, Any]):
    """Over the domain of payloads msgspec's sorted encoding is RFC 8785, byte for byte."""
    assert canonical(payload) == rfc8785.dumps(payload)


@given(payloads)
def test_canonical_form_survives_decoding(payload: dict[str, Any]):
    """Decoding and encoding again changes no byte, which is how an audit recomputes a hash."""
    assert canonical(msgspec.json.decode(canonical(payload))) == canonical(payload)


def test_canonical_form_survives_jsonb(sql: psycopg.Connection[Any]):
    """What JSONB gives back, in its own order and spacing, has the same canonical form."""

    @given(payloads)
    def survives(payload: dict[str, Any]) -> None:
        [[text]] = sql.execute("select %s::text::jsonb::text", (canonical(payload).decode(),)).fetchall()
        assert canonical(msgspec.json.decode(text)) == canonical(payload)

    survives()


@given(st.integers(-SAFE, SAFE), texts, st.none() | texts)
def test_an_event_comes_back_as_it_was(by: int, op: str, note: str | None):
    event = ToyBumped(by, op, note)
    assert decode_event(event.TOPIC, canonical(event)) == event


ENVELOPE = EventEnvelope(
    project_id="proj_1",
    stream_id="toy_1",
    revision=2,
    kind="toy",
    topic="toy.bumped.v1",
    event_id="event_1",
    command_id="cmd_1",
    actor_kind="key",
    actor_id="k1",
    request_id="req_1",
    correlation_id="req_1",
    causation_id="",
    recorded_at=1_763_731_200_123_456,
    payload_hash="00" * 32,
)


def test_hashes_are_what_they_always_were():
    """Golden: a change of any of these would make stored history unprovable."""
    payload = canonical(ToyBumped(3, "op_1", "näher"))
    assert payload == '{"by":3,"note":"näher","op":"op_1"}'.encode()
    assert hash_payload(bytes(range(16)), payload).hex() == (
        "7e654f8a688e378a98dfda0a763db1ae10b6a106e27b4fb78bbf2ba49edf3e44"
    )
    leaf = hash_leaf(ENVELOPE)
    assert leaf.hex() == "2399beef14f2df6d7afc089984c52975471208ffe599717b884da00db9c8f264"
    first = hash_chain(CHAIN_START, leaf)
    assert first.hex() == "c66116c9edc1bbf9bee7ee357fd19b4618a9a4cc5020eeb553d446dc779cff14"
    assert hash_chain(first, leaf).hex() == "32a5a9fd77c1ff1a1af2bb0a4c70ae4a2308bfa0d347b820b05398ea0dd38b0e"


def test_every_part_of_the_envelope_counts():
    """No field can be changed without changing the leaf."""
    leaves = {hash_leaf(ENVELOPE)}
    for field in msgspec.structs.fields(ENVELOPE):
        value = getattr(ENVELOPE, field.name)
        changed = value + 1 if isinstance(value, int) else value + "x"
        leaves.add(hash_leaf(msgspec.structs.replace(ENVELOPE, **{field.name: changed})))
    assert len(leaves) == len(msgspec.structs.fields(ENVELOPE)) + 1


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)))  # noqa: DTZ001
def test_microseconds_are_exact(moment: datetime):
    """No float on the way: a time stored with microseconds comes back as the same number."""
    seconds, rest = divmod(microseconds(moment), 1_000_000)
    assert datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest) == moment
