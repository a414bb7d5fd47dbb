"""Secrets: their form, their checksum, DSNs and user codes (G-020, G-026, G-027)."""

from __future__ import annotations

import re
import zlib
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.auth import secrets
from service.auth.secrets import ALPHABET, SecretKind, seal, unseal
from statemachines.accounts.sign_in import normal_user_code

KINDS = st.sampled_from(SecretKind)


@given(KINDS)
def test_a_secret_is_recognised_and_shows_only_its_prefix(kind: SecretKind):
    secret = secrets.make(kind)
    assert re.fullmatch(rf"{kind.value}[0-9A-Za-z]{{43}}", secret.text)
    assert secrets.kind_of(secret.text) is kind
    assert secret.hash == secrets.digest(secret.text)
    assert secret.text.startswith(secret.prefix)
    assert len(secret.prefix) == (20 if kind in {SecretKind.DSN, SecretKind.PUBLIC_DSN} else 16)


@given(KINDS, st.data())
def test_any_single_wrong_character_is_noticed(kind: SecretKind, data: st.DataObject):
    text = secrets.make(kind).text
    place = data.draw(st.integers(len(kind.value), len(text) - 1))
    other = data.draw(st.sampled_from(ALPHABET).filter(lambda letter: letter != text[place]))
    assert secrets.kind_of(text[:place] + other + text[place + 1 :]) is None


@given(st.text() | st.builds(str.__add__, KINDS.map(lambda kind: kind.value), st.text()))
def test_no_text_breaks_the_reading(text: str):
    assert secrets.kind_of(text) is None
    dsn = secrets.parse_dsn(text)
    assert secrets.kind_of(dsn.key) is None
    assert len(secrets.digest(text)) == 64


@given(st.text(st.sampled_from(ALPHABET), max_size=80))
def test_the_checksum_is_the_crc_in_base_62(body: str):
    number = 0
    for letter in secrets.checksum(body):
        number = number * 62 + ALPHABET.index(letter)
    assert number == zlib.crc32(body.encode())
    assert len(secrets.checksum(body)) == 6


@pytest.mark.parametrize("base_url", ["https://obs.example", "http://127.0.0.1:8000", "https://x.example/prefix"])
def test_a_dsn_reads_back(base_url: str):
    key = secrets.make(SecretKind.DSN).text
    text = secrets.make_dsn(base_url, key, "proj_01hzzzzzzzzzzzzzzzzzzzzzzz")
    assert secrets.parse_dsn(text) == secrets.Dsn(key, str(secrets.alias_of("proj_01hzzzzzzzzzzzzzzzzzzzzzzz")))
    assert secrets.parse_dsn(key) == secrets.Dsn(key, None)


@pytest.mark.parametrize("base_url", ["https://obs.example", "http://127.0.0.1:8000", "https://obs.example:8443"])
def test_a_dsn_has_the_form_that_sdks_of_sentry_read(base_url: str):
    """A public key, and a number as the last part of the path."""
    key, project_id = secrets.make(SecretKind.DSN).text, "proj_01hzzzzzzzzzzzzzzzzzzzzzzz"
    read = urlsplit(secrets.make_dsn(base_url, key, project_id))
    assert (read.username, read.password, int(read.path[1:])) == (key, None, secrets.alias_of(project_id))
    assert f"{read.scheme}://{read.hostname}" + (f":{read.port}" if read.port else "") == base_url


def test_a_dsn_names_its_project_by_alias_and_by_id():
    """Older DSNs have the id of the project as their path."""
    mine, other = "proj_01hzzzzzzzzzzzzzzzzzzzzzzz", "proj_02hzzzzzzzzzzzzzzzzzzzzzzz"
    key = secrets.make(SecretKind.DSN).text
    for dsn in (secrets.make_dsn("https://h.example", key, mine), f"https://{key}@h.example/{mine}"):
        read = secrets.parse_dsn(dsn)
        assert (read.key, read.names(mine), read.names(other), read.names(None)) == (key, True, False, False)
    bare = secrets.parse_dsn(key)
    assert all(bare.names(project) for project in (mine, other, None))


@pytest.mark.parametrize(
    "text",
    [
        "ftp://{key}@host/proj_0123456",
        "https://{key}@host",
        "https://{key}@host/short",
        "https://{key}@host/proj_0123456/more",
        "https://{key}@host/proj_0123456?x=1",
        "https://{key}@a@b/proj_0123456",
        " {key}",
    ],
)
def test_what_is_no_dsn_becomes_a_key_that_is_not_one(text: str):
    dsn = secrets.parse_dsn(text.format(key=secrets.make(SecretKind.DSN).text))
    assert dsn.named is None
    assert secrets.kind_of(dsn.key) is None


def test_a_user_code_has_eight_consonants():
    codes = {secrets.make_user_code() for _ in range(200)}
    assert len(codes) == 200
    assert all(re.fullmatch(r"[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}", code) for code in codes)
    assert len(secrets.USER_CODE_ALPHABET) == 20
    assert all(len(normal_user_code(code)) == 8 for code in codes)


@given(st.text(max_size=200).filter(lambda text: text.isprintable()))
def test_a_sealed_text_opens_only_where_it_belongs(text: str):
    key, other = b"k" * 32, b"o" * 32
    sealed = seal(key, "dsn-copy", "proj_1", text)
    assert sealed is not None
    assert sealed != seal(key, "dsn-copy", "proj_1", text)
    assert unseal(key, "dsn-copy", "proj_1", sealed) == text
    for opened in (
        unseal(other, "dsn-copy", "proj_1", sealed),
        unseal(key, "webhook-secret", "proj_1", sealed),
        unseal(key, "dsn-copy", "proj_2", sealed),
        unseal(None, "dsn-copy", "proj_1", sealed),
        unseal(key, "dsn-copy", "proj_1", None),
    ):
        assert opened is None
    assert seal(None, "dsn-copy", "proj_1", text) is None
