"""Ids of things: a prefix and a lowercase ULID (G-002)."""

from __future__ import annotations

from ulid import ULID


def new_id(prefix: str) -> str:
    """Make a fresh id, `<prefix>_<26 characters>`; unguessable (80 random bits), never parsed."""
    return f"{prefix}_{str(ULID()).lower()}"
