"""Policies: the lines of C2SP tlog-policy, every way to be wrong, and quorums against their definition."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.tlog.notes import BadPolicy, BadSignature, Checkpoint, KeyPair, parse_note, parse_policy

LOG = KeyPair.derive(b"l" * 32, "log")
WITNESSES = [KeyPair.derive(bytes([number]) * 32, "witness") for number in range(5)]
KEYS = [pair.as_witness(f"w{number}.example")[number % 2].vkey for number, pair in enumerate(WITNESSES)]
VKEY = LOG.as_log("log.example")[0].vkey
TEXT = f"""
# two of three, and one of two
log {VKEY}  https://log.example/
witness X0 {KEYS[0]}\thttps://w0.example
 witness X1 {KEYS[1]}
witness X2 {KEYS[2]}
group X 2 X0 X1 X2
witness Y0 {KEYS[3]}
witness Ÿ1 {KEYS[4]}
group Y any Y0 Ÿ1
group both all X Y
quorum both
"""


def test_a_quorum_is_what_its_groups_say() -> None:
    policy = parse_policy(TEXT.encode())
    names = list(policy.witnesses)
    assert [party.url for party in policy.witnesses.values()] == ["https://w0.example", "", "", "", ""]
    for count in range(6):
        for chosen in combinations(names, count):
            wanted = len({"X0", "X1", "X2"} & set(chosen)) >= 2 and bool({"Y0", "Ÿ1"} & set(chosen))
            assert policy.satisfied(chosen) == wanted
    assert parse_policy(b"quorum none").satisfied(())


def test_a_checkpoint_is_accepted_with_its_quorum_alone() -> None:
    policy = parse_policy(TEXT.encode())
    checkpoint = Checkpoint("log.example", 0, b"r" * 32)
    signed = f"{checkpoint.text}\n{LOG.sign(checkpoint, 1)[0].line}"
    lines = [pair.cosign(f"w{number}.example", checkpoint, 5)[number % 2].line for number, pair in enumerate(WITNESSES)]
    assert policy.accepts(parse_note((signed + lines[0] + lines[2] + lines[4]).encode()))
    assert not policy.accepts(parse_note((signed + lines[0] + lines[4]).encode()))
    assert not policy.accepts(parse_note((signed + lines[0] * 3 + lines[4]).encode())), "one witness counts once"
    with pytest.raises(BadSignature):
        policy.accepts(parse_note(f"{checkpoint.text}\n{lines[0]}{lines[2]}{lines[4]}".encode()))
    with pytest.raises(BadSignature):
        policy.accepts(
            parse_note((signed + lines[0].replace("w0.example AAAA", "w0.example BBBB")[:-9] + "AAAAAAA=\n").encode())
        )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "quorum nobody",
        "quorum none\nquorum none",
        f"witness none {KEYS[0]}\nquorum none",
        f"witness a {KEYS[0]}\nwitness b {KEYS[0]}\nquorum a",
        f"witness a {KEYS[0]}\nwitness a {KEYS[1]}\nquorum a",
        f"log {VKEY}\nlog {VKEY}\nquorum none",
        f"log {KEYS[0]}\nquorum none",
        f"witness a {VKEY}\nquorum a",
        f"witness a {KEYS[0]} u v\nquorum a",
        f"witness a {KEYS[0]}\ngroup g 0 a\nquorum g",
        f"witness a {KEYS[0]}\ngroup g 2 a\nquorum g",
        f"witness a {KEYS[0]}\ngroup g 01 a\nquorum g",
        f"witness a {KEYS[0]}\ngroup g all\nquorum g",
        f"witness a {KEYS[0]}\ngroup g any a a\nquorum g",
        f"witness a {KEYS[0]}\ngroup g any a\ngroup h any a\nquorum h",
        f"group g any a\nwitness a {KEYS[0]}\nquorum g",
        "group g any none\nquorum g",
        "quorum g\ngroup g any g",
        "Quorum none",
        "quorum none\r\n",
        "quorum\u00a0none",
        "quorum none\n\x7f",
    ],
)
def test_what_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(BadPolicy):
        parse_policy(text.encode())


@given(
    st.binary(max_size=200)
    | st.lists(st.sampled_from(["quorum", "group", "log", "none", " ", "\n", "1", "a"])).map("".join).map(str.encode)
)
def test_any_octets_are_read_or_refused(raw: bytes) -> None:
    try:
        parse_policy(raw)
    except BadPolicy:
        return
    assert b"quorum" in raw
