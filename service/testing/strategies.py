"""Strategies: steps of an owner, and bodies from a product."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from service.testing.onboarding_model import OnboardingModel, SentHash, SentTag, Step

_NAMES = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=30)
_WORDS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)
_USERS = st.builds(lambda number: {"id": f"user-{number}"}, st.integers(0, 999))


def steps(model: OnboardingModel) -> st.SearchStrategy[Step]:
    """Every step with an answer of its own here, also stale and foreign ones."""
    return st.sampled_from(model.steps())


def forward_steps(model: OnboardingModel) -> st.SearchStrategy[Step]:
    """Steps with the current tag and hash. Few random steps lead far without them."""
    now = {SentTag.CURRENT, SentTag.NONE}
    forward = [one for one in model.steps() if one.tag in now and getattr(one, "hash", None) is not SentHash.OTHER]
    return st.sampled_from(forward)


def error_reports() -> st.SearchStrategy[dict[str, Any]]:
    """Bodies for `POST /v1/logs/`: any text, with or without user and tags."""
    return st.fixed_dictionaries(
        {"message": _WORDS, "level": st.sampled_from(["warning", "error", "fatal"])},
        optional={"user": _USERS, "tags": st.dictionaries(_NAMES, _WORDS, max_size=3)},
    )


def product_events() -> st.SearchStrategy[dict[str, Any]]:
    """Bodies for `POST /v1/analytics/`: any name, with numbers, texts and truth values as properties."""
    values = st.integers(-(2**31), 2**31) | st.booleans() | _WORDS
    return st.fixed_dictionaries(
        {"event": _NAMES, "distinct_id": st.builds("user-{}".format, st.integers(0, 999))},
        optional={"properties": st.dictionaries(_NAMES, values, max_size=3)},
    )
