"""Names and texts that must not be kept, by the lists that plans and telemetry share (G-033, G-086)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines.kernel.telling import (
    PERSONAL_NAMES,
    SECRET_FRAGMENTS,
    holds_own_secret,
    names_person,
    names_secret,
    normalize_name,
)


def spellings(name: str) -> list[str]:
    """Write a normalized name in the ways that normalization has to see through."""
    middle = len(name) // 2
    return [name, name.upper(), *(f"{name[:middle]}{sep}{name[middle:].title()}" for sep in "_-. ")]


@pytest.mark.parametrize("name", sorted(PERSONAL_NAMES))
def test_personal_names_are_refused_whole(name: str) -> None:
    """Each listed name is refused in every spelling, and only as the whole name (G-086)."""
    for spelling in spellings(name):
        assert names_person(spelling), spelling
    assert not names_person(f"{name}_x")
    assert not names_person(f"x{name}")


@pytest.mark.parametrize("fragment", SECRET_FRAGMENTS)
def test_secret_names_are_refused_anywhere_in_a_name(fragment: str) -> None:
    """Each listed fragment is refused in every spelling, wherever it stands (G-086)."""
    for spelling in spellings(fragment):
        assert names_secret(spelling), spelling
        assert names_secret(f"my {spelling} 2"), spelling


@pytest.mark.parametrize(
    "name", ["plan", "kind", "emailed", "zip", "tokens", "usernames", "$ip", "order_id", "passage"]
)
def test_other_names_are_opaque(name: str) -> None:
    """A name that is not listed is nobody's business (R-ONB-10)."""
    assert not names_person(name)
    assert not names_secret(name)


def test_what_only_looks_like_a_credential_is_text() -> None:
    """Fifteen characters are no secret, sixteen are; placeholders and prefixes are text."""
    assert not holds_own_secret("service_sk_" + "a" * 15)
    assert holds_own_secret("service_sk_" + "a" * 16)
    for text in ("service_sk_<your key here>", "service_sk_", "SERVICE_API_KEY", "service_xx_" + "a" * 40):
        assert not holds_own_secret(text)


@given(st.text(max_size=20))
def test_normal_names_have_no_case_and_no_separators(name: str) -> None:
    """Normalizing twice is normalizing once, and no separator is left."""
    assert normalize_name(normalize_name(name)) == normalize_name(name)
    assert not set("_-. ") & set(normalize_name(name))
