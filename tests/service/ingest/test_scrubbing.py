"""Scrubbing: nothing telling and no secret of ours is kept, at any depth, however it is spelt (G-033, G-086)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.auth.secrets import SecretKind, make
from service.ingest.scrubbing import SCRUBBED, Scrubber
from statemachines.kernel.telling import SECRET_FRAGMENTS

SCRUBBER = Scrubber()
KINDS = (SecretKind.KEY, SecretKind.CI, SecretKind.RUNNER, SecretKind.DSN)


@pytest.mark.parametrize("name", SECRET_FRAGMENTS)
@pytest.mark.parametrize("spell", ["{}", "My-{}", "{}.v2", "x_{}_y"])
def test_a_telling_name_hides_its_value(name, spell):
    shown = spell.format(name)
    for spelt in (shown, shown.upper(), "-".join(shown), "_ .".join(shown)):
        assert SCRUBBER.tree({spelt: {"a": [1]}}) == ({spelt: SCRUBBED}, 1)
        assert SCRUBBER.suspicious(json.dumps({spelt: 1}).encode())


@pytest.mark.parametrize("kind", KINDS)
def test_a_string_that_holds_a_secret_is_hidden_whole(kind):
    secret = make(kind).text
    value = {"a": [f"see {secret}!", 1], secret: "x", "b": "fine"}
    assert SCRUBBER.tree(value) == ({"a": [SCRUBBED, 1], SCRUBBED: "x", "b": "fine"}, 2)
    assert SCRUBBER.suspicious(json.dumps(value).encode())


@pytest.mark.parametrize("text", ["service_sk_short", "service_xx_" + "a" * 40, "SERVICE_SK_" + "a" * 40, ""])
def test_what_is_no_secret_stays(text):
    assert SCRUBBER.text(text) == (text, 0)


def test_an_ordinary_event_is_not_walked():
    event = {"message": "Payment failed", "user": {"id": "u1"}, "tags": {"region": "eu"}, "extra": {"cart": [1, 2.5]}}
    assert not SCRUBBER.suspicious(json.dumps(event).encode())
    assert SCRUBBER.tree(event) == (event, 0)


def test_names_can_be_added():
    scrubber = Scrubber(["Card-Number", "Straße", ""])
    assert scrubber.tree({"the_cardNumber": 1, "STRASSE": 2, "strAße": 3}) == (
        {"the_cardNumber": SCRUBBED, "STRASSE": 2, "strAße": SCRUBBED},
        2,
    )
    assert scrubber.suspicious(b'{"card number": 1}')
    assert scrubber.suspicious('{"STRAße": 1}'.encode())
    assert not SCRUBBER.suspicious(b'{"card number": 1}')


names = st.one_of(
    st.text(max_size=12),
    st.sampled_from([*SECRET_FRAGMENTS, "api\u212aey", "PASSWORD", "pass_word", "a.p.i.k.e.y", "token", "key"]),
    st.sampled_from(SECRET_FRAGMENTS).map(str.upper),
)
strings = st.one_of(
    st.text(max_size=12), st.sampled_from(KINDS).map(lambda kind: "x " + kind.value + "A1" * 20), st.just("service_")
)
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | strings,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(trees, st.booleans())
def test_the_quick_look_never_misses(tree, ascii_only):
    """Whatever the exact walk would hide, the look over the bytes has found worth walking."""
    raw = json.dumps(tree, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    _, hidden = SCRUBBER.tree(tree)
    assert not hidden or SCRUBBER.suspicious(raw)


@given(trees)
def test_what_was_scrubbed_is_clean_and_the_rest_untouched(tree):
    clean, hidden = SCRUBBER.tree(tree)
    assert SCRUBBER.tree(clean)[0] == clean
    if not hidden:
        assert clean == tree
    for kind in KINDS:
        assert kind.value + "A1" * 20 not in json.dumps(clean)
