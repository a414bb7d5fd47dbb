"""Wycheproof's cases of JSON Web Signatures, offered to both that verify tokens of issuers: sign-ins and CI."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from service.auth import ci_tokens
from service.auth.ci_tokens import CiIssuers, IssuerSilent
from service.auth.oidc import ALGORITHMS, BadToken, Expected, choose_key, read_keys, verify
from service.egress.guard import Guard
from tests.support.ci_issuer import running_ci_issuer

FILE = Path(__file__).parents[3] / "foreign/wycheproof/json_web_signature_test.json"
EXPECTED = Expected("https://id.example", "client", "n" * 43)


GROUPS = json.loads(FILE.read_text())["testGroups"]


def cases() -> Iterator[Any]:
    """Each case with the key of its group; a shared secret takes the place of a public key."""
    for group in GROUPS:
        key = group.get("public") or group["private"]
        for case in group["tests"]:
            ours = case["result"] == "valid" and key.get("alg") in ALGORITHMS
            yield pytest.param(key, case["jws"], ours, id=f"{group['comment']}-{case['tcId']}")


def is_accepted(token: Any, keys: list[Any]) -> bool:
    """Whether the signature is: the choice of the key is ours, the computation the library's."""
    if not isinstance(token, str):
        return False
    try:
        chosen = choose_key(token, read_keys(keys))
        jwt.PyJWS().decode(token, chosen.key, algorithms=[chosen.algorithm])
    except (BadToken, jwt.PyJWTError):
        return False
    return True


@pytest.mark.parametrize(("key", "token", "accepted"), list(cases()))
def test_a_signature_is_accepted_when_it_is_right_and_of_our_algorithms(
    key: dict[str, Any], token: Any, accepted: bool
) -> None:
    """And no case is an identity: their payloads are no claims."""
    assert is_accepted(token, [key]) is accepted
    with pytest.raises(BadToken):
        verify(token if isinstance(token, str) else json.dumps(token), read_keys([key]), EXPECTED)


@pytest.mark.parametrize("operations", [["encrypt"], [], "verify", None])
def test_a_key_for_other_operations_verifies_nothing(operations: Any) -> None:
    key = next(group["public"] for group in GROUPS if group["comment"] == "es256")
    assert len(read_keys([key, key | {"key_ops": ["verify"]}])) == 2
    assert read_keys([key | {"key_ops": operations}]) == []


@pytest.mark.parametrize("group", GROUPS, ids=[f"{group['comment']}-{at}" for at, group in enumerate(GROUPS)])
async def test_an_issuer_of_ci_judges_signatures_in_the_same_way(group: dict[str, Any]) -> None:
    """It publishes the key of a group. Of a right signature the payload alone is refused: it has no claims."""
    key = group.get("public") or group["private"]
    with running_ci_issuer("github") as issuer:
        issuer.published = [key]
        issuers = CiIssuers({issuer.url: "github"}, Guard())
        for case in group["tests"]:
            token = case["jws"] if isinstance(case["jws"], str) else json.dumps(case["jws"])
            ours = case["result"] == "valid" and key.get("alg") in ci_tokens.ALGORITHMS
            with pytest.raises((BadToken, IssuerSilent)) as refused:
                await issuers.verify(token, issuer.url, "https://service.example")
            assert ours <= (str(refused.value) == "The token was refused: DecodeError."), case["tcId"]
