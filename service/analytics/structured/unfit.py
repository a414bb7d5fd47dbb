"""The refusal of a text, raised by the judges of its words, its grammar and its names."""

from __future__ import annotations


class UnfitText(Exception):
    """The text is not one bounded select over the provider's tables. The message says what it must be."""
