"""Scrubbing: nothing telling and no secret is kept, at any depth, however it is spelt (G-033, G-086, G-135)."""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.auth.secrets import SecretKind, make
from service.ingest import scrubbing
from service.ingest.bounds import may_hold_card
from service.ingest.scrubbing import EVERYTHING, NOTHING, SCRUBBED, TOO_MANY, Findings, Scrubber, Suspicion
from statemachines.kernel.telling import (
    CARD,
    FORMS,
    MAY_BE_CARD,
    MOST_CANDIDATES,
    SECRET_FRAGMENTS,
    STRING_FRAGMENTS,
    STRING_NAMES,
    SecretForm,
)

SCRUBBER = Scrubber()
KINDS = (SecretKind.KEY, SecretKind.CI, SecretKind.RUNNER, SecretKind.DSN)
GOLDEN = Path(__file__).parents[2] / "golden" / "scrubbing"
SECRETS = json.loads((GOLDEN / "secrets.json").read_text())
LOOKALIKES = json.loads((GOLDEN / "lookalikes.json").read_text())


def scrubbed(value: Any, scrubber: Scrubber = SCRUBBER, *, ascii_only: bool = False) -> tuple[Any, Counter[str]]:
    """A value as it is stored, and what was hidden; by the quick look, which must not miss what the exact one finds."""
    raw = json.dumps({"v": value}, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    holder, counts = {"v": copy.deepcopy(value)}, Findings()
    suspicion = scrubber.look(raw)
    if suspicion:
        scrubber.tree(holder, suspicion, counts)
    exact, exact_counts = {"v": copy.deepcopy(value)}, Findings()
    scrubber.tree(exact, EVERYTHING, exact_counts)
    assert (holder, counts) == (exact, exact_counts)
    return holder["v"], counts


@pytest.mark.parametrize("name", SECRET_FRAGMENTS)
@pytest.mark.parametrize("spell", ["{}", "My-{}", "{}.v2", "x_{}_y"])
def test_a_telling_name_hides_its_value(name, spell):
    shown = spell.format(name)
    for spelt in (shown, shown.upper(), "-".join(shown), "_ .".join(shown)):
        assert scrubbed({spelt: {"a": [1]}}) == ({spelt: SCRUBBED}, {"name": 1})


@pytest.mark.parametrize("case", SECRETS["names"], ids=lambda case: f"{case['name']!a}={case['value']}")
def test_names_whose_strings_are_hidden(case):
    """Under the names of G-135 numbers and booleans stay, at any depth; those of G-033 hide whatever they hold."""
    for ascii_only in (False, True):
        value, counts = scrubbed([{case["name"]: case["value"]}], ascii_only=ascii_only)
        assert value == [{case["name"]: case["shown"]}]
        assert counts == Counter({"name": case["count"]})


@pytest.mark.parametrize("case", SECRETS["texts"], ids=lambda case: case["text"][:40])
def test_secrets_are_hidden_by_their_form(case):
    """Only the secret goes, its kind is said and counted, and what is left holds no secret."""
    assert scrubbed(case["text"]) == (case["shown"], Counter(case["kinds"]))
    assert scrubbed([{"a": [case["text"]]}])[0] == [{"a": [case["shown"]]}]
    assert list(scrubbed({case["text"]: 1})[0]) == [case["shown"]]
    assert scrubbed(case["shown"]) == (case["shown"], {})


@pytest.mark.parametrize("text", LOOKALIKES["texts"])
def test_texts_that_only_look_alike_stay(text):
    assert scrubbed({"a": [text], "message": text}) == ({"a": [text], "message": text}, {})


@pytest.mark.parametrize("name", LOOKALIKES["names"])
def test_names_that_only_look_alike_stay(name):
    value = {name: LOOKALIKES["names"][name]}
    assert scrubbed(value) == (value, {})


def test_every_form_is_in_the_corpus():
    assert {kind for case in SECRETS["texts"] for kind in case["kinds"]} == {form.kind for form in FORMS}


@pytest.mark.parametrize(
    "escape", ["\\u0065yJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.x", "http:\\/\\/a:b@c", "http:/\\/a:b@c"]
)
def test_escapes_hide_nothing(escape):
    raw = f'{{"v": "{escape}"}}'.encode()
    holder, counts = json.loads(raw), Findings()
    SCRUBBER.tree(holder, SCRUBBER.look(raw), counts)
    assert "[scrubbed:" in holder["v"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_string_that_holds_a_secret_is_hidden_whole(kind):
    secret = kind.value + "a1B2" * 10  # not a random one: as a name it might tell something
    value = {"a": [f"see {secret}!", 1], secret: "x", "b": "fine"}
    assert scrubbed(value) == ({"a": [SCRUBBED, 1], SCRUBBED: "x", "b": "fine"}, {"service_secret": 2})


@pytest.mark.parametrize("text", ["service_sk_short", "service_xx_" + "a" * 40, "SERVICE_SK_" + "a" * 40, ""])
def test_what_is_no_secret_stays(text):
    assert scrubbed(text) == (text, {})


def test_members_that_become_equal_are_all_kept():
    names = ["4111111111111111", "5555555555554444", "a"]
    value, counts = scrubbed({name: name for name in names})
    assert len(value) == 3
    assert sorted(value.values()) == ["[scrubbed:card_number]"] * 2 + ["a"]
    assert counts == {"card_number": 4}


def test_what_is_kept_is_searched_for_our_own_secrets_only():
    own = make(SecretKind.DSN).text
    holder, counts = (
        {"id": "4111111111111111", "token": own, "other": "4111111111111111", "in": {"id": "x:4"}},
        Findings(),
    )
    SCRUBBER.tree(holder, EVERYTHING, counts, frozenset({"id", "token"}))
    assert holder == {
        "id": "4111111111111111",
        "token": SCRUBBED,
        "other": "[scrubbed:card_number]",
        "in": {"id": "x:4"},
    }
    assert counts == {"service_secret": 1, "card_number": 1}


def test_an_ordinary_event_is_not_walked():
    event = {"message": "Payment failed", "user": {"id": "u1"}, "tags": {"region": "eu"}, "extra": {"cart": [1, 2.5]}}
    assert not SCRUBBER.look(json.dumps(event).encode())
    assert scrubbed(event) == (event, {})


def test_names_can_be_added():
    scrubber = Scrubber(["Plate-Number7", "Straße", ""])
    assert scrubbed({"the_plateNumber7": 1, "STRASSE": 2, "strAße": 3}, scrubber) == (
        {"the_plateNumber7": SCRUBBED, "STRASSE": 2, "strAße": SCRUBBED},
        {"name": 2},
    )
    assert scrubber.look(b'{"plate number 7": 1}').names
    assert scrubber.look('{"STRAße": 1}'.encode()).names
    assert not SCRUBBER.look(b'{"plate number 7": 1}')


@pytest.mark.parametrize(
    "text",
    [
        "eyJ" * 20_000,
        "eyJaaaaaa." * 6_000,
        "://" + "a" * 60_000,
        "://a" * 15_000,
        "-----BEGIN PRIVATE KEY-----" * 2_000,
        "-----BEGIN " + "A" * 60_000,
        "bearer " * 9_000,
        "bearer" + " " * 60_000,
        "basic a" * 9_000,
        "4" * 60_000,
        "4111 " * 12_000,
        "4111 1111 1111 111x" * 3_000,
        "ghp_" * 15_000,
        "xoxb-" * 12_000,
        "1234567890:AA" * 4_000,
        "sk-" * 20_000,
    ],
)
def test_every_form_reads_a_hostile_text_once(text):
    """A pattern that looked again at what it has passed would take minutes for these."""
    SCRUBBER.tree({"a": text}, EVERYTHING, Findings())


names = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            *SECRET_FRAGMENTS,
            *STRING_FRAGMENTS,
            *STRING_NAMES,
            "api\u212aey",
            "PASSWORD",
            "pass_word",
            "a.p.i.k.e.y",
            "key",
        ]
    ),
    st.sampled_from([*SECRET_FRAGMENTS, *STRING_FRAGMENTS, *STRING_NAMES]).map(str.upper),
    st.sampled_from([*STRING_FRAGMENTS, *STRING_NAMES]).map("\u200b".join),
)
strings = st.one_of(
    st.text(max_size=12),
    st.sampled_from(KINDS).map(lambda kind: "x " + kind.value + "A1" * 20),
    st.sampled_from([case["text"] for case in SECRETS["texts"]]),
    st.sampled_from(["service_", "eyJ", "://", "bearer", "4111", "@", "-----BEGIN "]),
    st.lists(st.sampled_from([case["text"] for case in SECRETS["texts"]]), max_size=3).map(" ".join),
)
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | strings,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | strings, inner, max_size=3),
    max_leaves=8,
)


@given(trees, st.booleans())
def test_the_quick_look_never_misses(tree, ascii_only):
    """What the look over the bytes leaves out, the exact walk would not have hidden either."""
    scrubbed(tree, ascii_only=ascii_only)


@given(trees)
def test_what_was_scrubbed_is_clean_and_the_rest_untouched(tree):
    clean, hidden = scrubbed(tree)
    again, kinds = scrubbed(clean)
    assert set(kinds) <= {"name"}
    assert again == clean or "[scrubbed:" in json.dumps(clean)  # In a name the mark itself may be telling.
    if not hidden:
        assert clean == tree
    for kind in KINDS:
        assert kind.value + "A1" * 20 not in json.dumps(clean)


PARTED = Scrubber()
parts = st.sampled_from(
    [
        "a",
        "},",
        '"},{"',
        "}, {",
        "password",
        "pin",
        "://u:p@h",
        "sk-" + "a1" * 20,
        "4111 1111 1111 1111",
        "4111 1111 1111 1112",
        "ya29." + "a1" * 12,
        "ya28." + "a1" * 12,
        "bearer abcdefgh1",
        "webhooks/",
        "service_",
        "\\",
        '"',
    ]
)
frames = st.dictionaries(
    st.lists(parts, min_size=1, max_size=3).map("".join), st.lists(parts, max_size=4).map("".join), max_size=4
)


@given(st.lists(frames, min_size=1, max_size=6), st.booleans())
def test_parts_that_were_looked_at_change_no_verdict(stack, compact):
    """What a long text may hold is the same, whatever parts of it were seen before and whatever they look like."""
    padding = [{"frame": "x" * 400} for _ in range(3)]
    event = {"frames": [*padding, *stack, *padding]}
    raw = json.dumps(event, separators=(",", ":") if compact else None).encode()
    assert PARTED.look(raw) == Scrubber().look.at_all(raw)
    assert PARTED.look(raw) == Scrubber().look.at_all(raw), "and again, now that all of it was seen"


@pytest.mark.parametrize("message", ["m", 'he said "no"', "a\\b"])
def test_a_name_in_which_an_object_seems_to_end_tells_as_a_whole(message):
    """A part of a text ends where an object does, and not where a string looks as if one did."""
    raw = json.dumps({"message": message, "tags": {"password},region": "eu"}}).encode()
    assert Scrubber().look(raw).names


PIECES = sorted({piece for form in FORMS for piece in (*form.all_pieces, form.scheme) if piece})


@pytest.mark.parametrize("escape", ["", '"', "\\", "\n"])
def test_pieces_alone_are_no_reason_to_walk_an_event(escape):
    """They stand in many an event: what decides is whether the strings around them hold a secret."""
    for piece in PIECES:
        value = {"a": [f"app/{escape}{piece}{escape}/step.py"] * 3, "b": f"{escape}{piece}"}
        raw = json.dumps(value).encode()
        assert SCRUBBER.look(raw) == NOTHING, piece
        assert scrubbed(value) == (value, {})


def test_a_folder_of_webhooks_is_no_reason_to_walk_every_event_of_a_product():
    """However many frames are in it; the address of a webhook has an id there."""
    frames = [{"file": f"shop/webhooks/step{number}.py", "abs_path": "/srv/webhooks/step.py"} for number in range(200)]
    for written in (json.dumps(frames), json.dumps(frames).replace("/", "\\/")):
        assert SCRUBBER.look(written.encode()) == NOTHING
    secret = f"https://chat.example/api/webhooks/{'7' * 18}/{'aB3-' * 16}"
    for written in (json.dumps([secret]), json.dumps([secret]).replace("/", "\\/")):
        assert "chat_key" in [form.kind for form in SCRUBBER.look(written.encode()).forms]


def test_of_very_many_pieces_not_all_are_looked_at():
    """Then the event is walked, which takes time for each of its values once."""
    value = {f"member {number}": "task-sk-runner-of-everything" for number in range(500)}
    assert SCRUBBER.look(json.dumps(value).encode()).forms
    assert scrubbed(value) == (value, {})


def test_parts_that_differ_in_digits_are_told_apart_where_it_matters():
    """Of what is remembered the digits are forgotten; a name with a digit and the number of a card still count."""
    scrubber = Scrubber(["plate7"])
    for name, number, kinds in (
        ("plate1", "4111111111111112", {}),
        ("plate7", "4111111111111112", {"name": 40}),
        ("plate1", "4111111111111111", {"card_number": 40}),
    ):
        frames = [{name: "x", "code": f"y {number}"} for _ in range(40)]
        counts = Findings()
        scrubber.tree({"a": frames}, scrubber.look(json.dumps(frames).encode()), counts)
        assert counts == kinds


CARDS = ("4111111111111111", "4111111111111112")

# How the number of a card was looked for before its pattern began with a digit.
FORMER_CARD = re.compile(
    r"""(?<![0-9A-Za-z_])(?<!\d[.-])(
        [2-6]\d{12,18}
        | [2-6]\d{3}([ -])\d{4}\2\d{4}\2\d{1,4}(?:\2\d{1,3})?
        | 3\d{3}([ -])\d{6}\3\d{4,5}
    )(?!-?[0-9A-Za-z_])""",
    re.VERBOSE | re.ASCII,
)
FORMER_LOOK = re.compile(rb"(?<!\d)(?:[2-6]\d{12}|[2-6]\d{3}([ -])\d{4}\1\d{4}\1\d|3\d{3}([ -])\d{6}\2\d{4})")
NUMBERS = st.sampled_from([*CARDS, "4111-1111-1111-1111", "5500 0000 0000 0004", "3782 822463 10005", "36148900647913"])


@given(st.lists(st.one_of(NUMBERS, st.text("0123456789 -.x_\né", max_size=5)), max_size=6).map("".join), st.data())
def test_a_card_is_found_where_it_was_before(text, data):
    """Also with a digit changed, added or left out, and whatever stands around it."""
    place = data.draw(st.integers(0, len(text)))
    text = text[:place] + data.draw(st.sampled_from(["", "7", "-", " ", "\n"])) + text[place + 1 :]
    assert [found.span(1) for found in CARD.pattern.finditer(text)] == [
        found.span(1) for found in FORMER_CARD.finditer(text)
    ]
    raw = text.encode()
    assert [found.span() for found in MAY_BE_CARD.finditer(raw)] == [
        found.span() for found in FORMER_LOOK.finditer(raw)
    ]
    written = json.dumps([text]).encode()
    assert may_hold_card(written, re.sub(rb"[1-9]", b"0", written)) or not FORMER_CARD.search(text)


@given(st.lists(st.tuples(NUMBERS | st.just("2026-11-29 1800000000000"), st.booleans()), min_size=1, max_size=5))
def test_long_parts_with_digits_are_looked_at_as_they_are(frames):
    """They are never remembered: whatever was judged with them counts for them, each time."""
    listed = [{"code": f"{'word ' * 120 if is_long else ''}{number}", "n": {"at": 1}} for number, is_long in frames]
    raw = json.dumps({"frames": listed}).encode()
    for _ in range(2):
        assert PARTED.look(raw) == Scrubber().look.at_all(raw)


@pytest.mark.parametrize("card", CARDS, ids=["card", "lookalike"])
def test_a_text_with_more_candidates_than_are_judged_is_hidden_whole(card):
    """Counted over the whole event, and not timed; what has no candidate stays as it was."""
    whole = scrubbed([f"{card} " * (MOST_CANDIDATES + 1), "plain", card])
    assert whole == ([f"[scrubbed:{TOO_MANY}]", "plain", f"[scrubbed:{TOO_MANY}]"], {TOO_MANY: 2})
    value, counts = scrubbed([card] * (MOST_CANDIDATES + 3) + ["plain"])
    assert value[MOST_CANDIDATES:] == [f"[scrubbed:{TOO_MANY}]"] * 3 + ["plain"]
    assert counts[TOO_MANY] == 3
    kept = "[scrubbed:card_number]" if card == CARDS[0] else card
    assert value[:MOST_CANDIDATES] == [kept] * MOST_CANDIDATES
    value, counts = scrubbed({f"{card}": card, "rest": [f"{card} {number}" for number in range(MOST_CANDIDATES)]})
    assert counts[TOO_MANY] == 2, "names count as well"


@given(st.lists(st.sampled_from([*CARDS, "http://a:b@c", "Bearer abcdefgh1", "plain"]), max_size=8), st.integers(1, 90))
def test_no_secret_is_left_beyond_the_budget(texts, times):
    """However they are spread over an event, and whichever runs out first."""
    value = [" ".join(texts)] * times + [{text: text for text in texts}] + [" ".join(texts * times)]
    shown = json.dumps(scrubbed(value)[0])
    assert not [secret for secret in (CARDS[0], "a:b@c", "abcdefgh1") if secret in shown]


def test_no_more_candidates_are_judged_than_the_budget_has(monkeypatch):
    """By the look and by the walk, each: what is judged takes time, and others wait for it (P25)."""
    judged = []
    find = SecretForm.find

    def counted(form, text, budget):
        before = budget.left
        found = find(form, text, budget)
        judged.append(before - budget.left)
        return found

    monkeypatch.setattr(SecretForm, "find", counted)
    raw = json.dumps({"v": f"{CARDS[1]} " * 3_500}).encode()
    holder, counts = json.loads(raw), Findings()
    SCRUBBER.tree(holder, SCRUBBER.look(raw), counts)
    assert sum(judged) <= 2 * MOST_CANDIDATES
    assert holder == {"v": f"[scrubbed:{TOO_MANY}]"}


def test_thousands_of_new_parts_are_not_looked_at_one_by_one(monkeypatch):
    """Who sends them holds up everybody else otherwise (P25)."""
    looked = []
    scrubber = Scrubber()
    judge = scrubber.look._judge
    monkeypatch.setattr(scrubber.look, "_judge", lambda text: looked.append(len(text)) or judge(text))
    parts = [{"a": "x" * (number % 400), "b": "y" * (number // 400)} for number in range(4_000)]
    assert scrubber.look(json.dumps([*parts, {"password": "p"}]).encode()).names
    assert len(looked) <= 1 + scrubbing._JUDGED_AT_ONCE


def test_frames_that_come_again_are_not_looked_at_again(monkeypatch):
    """Of a long text only what is new is looked at; how much is remembered has a bound."""
    looked = []
    scrubber = Scrubber()
    judge = scrubber.look._judge
    monkeypatch.setattr(scrubber.look, "_judge", lambda text: looked.append(len(text)) or judge(text))
    stack = [{"file": "x" * number, "code": "x = 1"} for number in range(100)]
    for number in range(3):
        stack = [{**frame, "line": number} for frame in stack]
        assert not scrubber.look(json.dumps({"message": f"Order {number}", "frames": stack}).encode())
    assert looked[0] > 5000
    assert len(looked) == 1, "whatever the digits are"
    for number in range(200):
        fresh = [{"file": f"{'a' * number}_{'b' * place}.py", "code": "x" * 20} for place in range(100)]
        scrubber.look(json.dumps({"frames": fresh}).encode())
    assert len(scrubber.look._known_parts) <= scrubbing._KNOWN_PARTS + 101


@pytest.mark.parametrize("more", ["", 'two\nlines of "text"'])
def test_times_are_not_looked_at_in_full_and_a_card_in_their_place_is_found(monkeypatch, more):
    """Both are digits in a row: of a text that was harmless but for these, only these are asked for."""
    scrubber = Scrubber()

    def look(number: str) -> Suspicion:
        return scrubber.look(json.dumps({"time": number, "more": more}).encode())

    assert not look("1800000000000000")
    whole = []
    at_all = scrubber.look.at_all
    monkeypatch.setattr(scrubber.look, "at_all", lambda raw: whole.append(raw) or at_all(raw))
    assert not look("1800000000000001")
    assert whole == []
    assert [form.kind for form in look("4111111111111111").forms] == ["card_number"]
    assert not look("1800000000000002")
