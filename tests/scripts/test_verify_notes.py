"""The verifier over keys, notes and policies: what C2SP says must be refused, and its own example."""

from __future__ import annotations

import base64

import pytest

from scripts import verify_proof
from scripts.verify_proof import Misuse, Policy, Wrong, read_checkpoint, read_key, read_note, read_policy
from tests.support.outsiders.logs import make_log
from tests.support.outsiders.signing import ORIGIN, Signer, signed, signer

LOG = make_log(5)
ED, PQ = signer(1), signer(6)
W1, W2, W3 = signer(4, "witness.example/1"), signer(6, "witness.example/2"), signer(4, "witness.example/3")
EXAMPLE_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
EXAMPLE = (
    "This is an example message.\n\n"
    "— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
)


def only(*signers: Signer) -> Policy:
    return Policy(logs=[read_key(one.vkey) for one in signers], every=True)


def read(data: bytes, policy: Policy) -> verify_proof.Checkpoint:
    return read_checkpoint(data, policy, "it")


def complaint(data: bytes, policy: Policy) -> str:
    with pytest.raises(Wrong) as caught:
        read(data, policy)
    return str(caught.value)


def test_the_example_of_the_specification_verifies():
    key, note = read_key(EXAMPLE_KEY), read_note(EXAMPLE.encode(), "it")
    [(name, identity, signature)] = note.signatures
    assert (name, identity) == (key.name, key.id)
    nothing = verify_proof.Checkpoint("", 0, b"", "it")
    assert verify_proof.verifies(note, nothing, key, signature)
    assert not verify_proof.verifies(note._replace(text="Another message.\n"), nothing, key, signature)


@pytest.mark.parametrize("signers", [(ED,), (PQ,), (ED, PQ)])
def test_a_checkpoint_is_read_when_each_key_has_signed(signers: tuple[Signer, ...]):
    found = read(LOG.checkpoint(ED, PQ), only(*signers))
    assert (found.origin, found.size) == (ORIGIN, 5)
    assert f"{ORIGIN}\n5\n{base64.b64encode(found.root).decode()}\n" == LOG.text()


def test_a_key_that_was_given_must_have_signed():
    """Whoever can forge one kind of signature cannot leave the other off."""
    assert complaint(LOG.checkpoint(ED), only(ED, PQ)) == f"it is not signed by the key of {ORIGIN}"
    assert complaint(LOG.checkpoint(signer(1, seed=1)), only(ED)) == f"it is not signed by the key of {ORIGIN}"
    assert "no key of that name was given" in complaint(LOG.checkpoint(signer(1, "other")), only(ED))
    assert read(LOG.checkpoint(ED), Policy(logs=[read_key(ED.vkey), read_key(PQ.vkey)])).size == 5


def test_keys_from_before_a_rotation_stay_beside_the_present_ones():
    """As `service log keys` prints them. Of each algorithm one key has to have signed, whichever."""
    later = signer(1, seed=1), signer(6, seed=1)
    all_keys = only(ED, PQ, *later)
    for signers in ((ED, PQ), later, (ED, PQ, *later), (ED, later[1])):
        assert read_checkpoint(LOG.checkpoint(*signers), all_keys, "it").size == 5
    for signers in ((ED,), (ED, later[0]), (PQ, later[1]), (signer(1, seed=2), PQ)):
        assert complaint(LOG.checkpoint(*signers), all_keys) == f"it is not signed by the key of {ORIGIN}"


@pytest.mark.parametrize("one", [ED, PQ])
def test_a_signature_of_other_bytes_does_not_hold(one: Signer):
    """Each line of the text, and each byte of the signature's ends."""
    data = LOG.checkpoint(one).decode()
    assert "does not hold" in complaint(data.replace("\n5\n", "\n6\n", 1).encode(), only(one))
    for place in (0, 5, -1):
        line = one.line(LOG.text()).split(" ")
        raw = bytearray(base64.b64decode(line[2]))
        raw[4:][place] ^= 1
        raw[4 + place if place >= 0 else place] ^= 1
        forged = f"{LOG.text()}\n{line[0]} {line[1]} {base64.b64encode(bytes(raw)).decode()}\n"
        assert "does not hold" in complaint(forged.encode(), only(one))
    short = f"{LOG.text()}\n— {one.name} {base64.b64encode(one.id + bytes(9)).decode()}\n"
    assert "does not hold" in complaint(short.encode(), only(one))
    good = one.line(LOG.text())
    assert "does not hold" in complaint((LOG.text() + "\n" + good + short.split("\n\n")[1]).encode(), only(one))


def test_an_unknown_signature_is_passed_over():
    """Of another name, another id, or another kind."""
    assert read(LOG.checkpoint(signer(1, seed=3), signer(4, "w"), signer(4), ED), only(ED)).size == 5


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n\n",
        b"text\n",
        b"text\n\n",
        b"text\n\n\xe2\x80\x94 name AAAAAAA=",
        b"text\n\nname AAAAAAA=\n",
        b"text\n\n\xe2\x80\x94 na+me AAAAAAA=\n",
        b"text\n\n\xe2\x80\x94 name AAAAAA=\n",
        b"text\n\n\xe2\x80\x94 name AAAAAAB=\n",
        b"text\n\n\xe2\x80\x94 name AAAA\n",
        b"te\txt\n\n\xe2\x80\x94 name AAAAAAA=\n",
        b"te\rxt\n\n\xe2\x80\x94 name AAAAAAA=\n",
        b"\xff\n\n\xe2\x80\x94 name AAAAAAA=\n",
        b"text\n\n" + b"\xe2\x80\x94 name AAAAAAA=\n" * 101,
        b"x" * (1 << 20) + b"\n\n\xe2\x80\x94 name AAAAAAA=\n",
    ],
)
def test_what_is_no_note_is_refused(data: bytes):
    with pytest.raises(Wrong):
        read_note(data, "it")


@pytest.mark.parametrize(
    "text",
    [
        f"{ORIGIN}\n5\n",
        f"{ORIGIN}\n05\n{base64.b64encode(bytes(32)).decode()}\n",
        f"{ORIGIN}\n-5\n{base64.b64encode(bytes(32)).decode()}\n",
        f"{ORIGIN}\n5 \n{base64.b64encode(bytes(32)).decode()}\n",
        f"{ORIGIN}\n99999999999999999\n{base64.b64encode(bytes(32)).decode()}\n",
        f"{ORIGIN}\n5\n{base64.b64encode(bytes(31)).decode()}\n",
        f"{ORIGIN}\n5\n{base64.b64encode(bytes(32)).decode()[:-1]}\n",
        f"{ORIGIN}\n5\n{base64.b64encode(bytes(32)).decode()}\n\nmore\n",
    ],
)
def test_what_is_no_checkpoint_is_refused_though_it_is_signed(text: str):
    complaint(signed(text, ED), only(ED))


def test_a_checkpoint_may_have_lines_of_extension():
    assert read(signed(LOG.text() + "more\n", ED), only(ED)).size == 5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "name",
        "name+530d903a",
        EXAMPLE_KEY[:-4],
        EXAMPLE_KEY.replace("foo", "bar"),
        EXAMPLE_KEY.replace("530d903a", "530d903b"),
        EXAMPLE_KEY.replace("530d903a", "530D903A"),
        EXAMPLE_KEY.replace("+A", "+C"),
        EXAMPLE_KEY.replace("example.com/foo", "exam ple"),
        EXAMPLE_KEY + "=",
        "+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
    ],
)
def test_what_is_no_key_is_a_wrong_call(text: str):
    with pytest.raises(Misuse):
        read_key(text)


# ---- policies -----------------------------------------------------------------------------------------------------

KEYS = f"""
# the log, in both of its keys
log {ED.vkey}  https://log.example/
 log\t{PQ.vkey}
witness one {W1.vkey} https://one.example/
witness two {W2.vkey}
witness three {W3.vkey}
group some 2 one two three
group böse all some
"""


def policy(quorum: str, more: str = "") -> Policy:
    return read_policy(f"{KEYS}{more}quorum {quorum}\n".encode())


@pytest.mark.parametrize(
    ("quorum", "witnesses", "enough"),
    [
        ("none", (), True),
        ("one", (W1,), True),
        ("one", (W2, W3), False),
        ("some", (W1,), False),
        ("some", (W1, W2), True),
        ("some", (W2, W3), True),
        ("böse", (W3,), False),
        ("böse", (W1, W2, W3), True),
    ],
)
def test_the_quorum_decides(quorum: str, witnesses: tuple[Signer, ...], enough: bool):
    """Cosignatures of both kinds; a witness that has not signed this text does not count, however often one signs."""
    data = LOG.checkpoint(ED, *witnesses)
    if enough:
        assert read(data, policy(quorum)).size == 5
    else:
        assert complaint(data, policy(quorum)) == f"it lacks witnesses: {quorum}"


def test_any_witness_and_groups_of_groups():
    more = f"witness four {signer(4, 'w4').vkey}\ngroup two-of any four böse\n"
    assert read(LOG.checkpoint(ED, signer(4, "w4")), policy("two-of", more)).size == 5
    assert read(LOG.checkpoint(ED, W1, W3), policy("two-of", more)).size == 5
    complaint(LOG.checkpoint(ED, W1, signer(4, "w5")), policy("two-of", more))


def test_a_cosignature_of_another_checkpoint_does_not_hold():
    line = W1.line(make_log(5, seed=9).text())
    assert "the signature of witness.example/1 does not hold" in complaint(
        LOG.checkpoint(ED) + line.encode(), policy("none")
    )


@pytest.mark.parametrize(
    "line",
    [
        "quorum",
        "quorum two\nquorum one",
        "quorum four",
        "quorum one two",
        f"log {ED.vkey}\nquorum none",
        f"log {W1.vkey}\nquorum none",
        f"witness again {W1.vkey}\nquorum none",
        f"witness one {signer(4, 'w4').vkey}\nquorum none",
        f"witness none {signer(4, 'w4').vkey}\nquorum none",
        f"witness ed {signer(1, 'w4').vkey}\nquorum none",
        "group more 3 one two\nquorum none",
        "group more 0 one\nquorum none",
        "group more 01 one\nquorum none",
        "group more all\nquorum none",
        "group more any one\nquorum none",
        "group more any none\nquorum none",
        "group more any later\nquorum none",
        "strange words\nquorum none",
        "log name+00000000+AAAA\nquorum none",
        "\x00quorum none",
        "quorum none\r",
        "# nothing",
    ],
)
def test_what_is_no_policy_is_a_wrong_call(line: str):
    with pytest.raises(Misuse):
        read_policy(f"{KEYS}{line}\n".encode())


def test_a_policy_holds_all_that_is_recommended_at_least():
    """32 logs, witnesses and groups."""
    lines = [f"log {signer(1, f'log{number}').vkey}" for number in range(32)]
    lines += [f"witness w{number} {signer(4, f'w{number}').vkey}" for number in range(32)]
    lines += [f"group g{number} any w{number}" for number in range(31)]
    lines += ["group all 31 " + " ".join(f"g{number}" for number in range(31)), "quorum all"]
    found = read_policy("\n".join(lines).encode())
    assert (len(found.logs), len(found.witnesses), len(found.groups)) == (32, 32, 32)
