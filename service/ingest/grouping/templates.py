"""What the repetitions of a message share: its template, in each version of the grouping. Pure functions.

A template is lowercase, has `#` in the place of each variable part, and one space between words. A version never
changes: a case keeps the errors of its fingerprint.
"""

from __future__ import annotations

import re

TEMPLATE_LENGTH = 500

# What varies between repetitions of a message: quoted text, UUIDs, runs of eight hexadecimal digits or more, numbers.
# An apostrophe ("can't") quotes nothing: a single quote opens only where no word ends. The first line lets the engine
# pass over most characters with one look, which makes the whole three times as fast.
_VARIABLE = re.compile(
    r"""(?=["'`0-9a-f])(?:
        [0-9a-f]{8}(?:(?:-[0-9a-f]{4}){3}-[0-9a-f]{12} | [0-9a-f]*)
        | 0x[0-9a-f]+
        | \d+(?:[.,]\d+)*
        | "[^"]*"
        | '(?<!\w')[^']*'(?!\w)
        | `[^`]*`
    )""",
    re.VERBOSE,
)

# The same, and what version 1 tears apart or leaves in: signs and exponents, short hashes, ISO dates. Numbers and
# hashes are told by their first character, which leaves the others fewer forms to try.
_VARIABLE_2 = re.compile(
    r"""(?=["'`0-9a-f+\-])(?:
        \d(?:
            [0-9a-f]{7}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}
            | (?=\d*[a-f])[0-9a-f]{7,}
            | x[0-9a-f]+
            | (?<!\w\d)\d{3}-\d\d-\d\d(?:[t ]\d\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?:z|[ ]?[+-]\d\d:?\d\d)?)?(?!\w)
            | (?<!\w\d)(?=\d{0,6}[a-f])[0-9a-f]{6}(?!\w)
            | \d*(?:[.,]\d+)*(?:e[+-]?\d+(?!\w))?
        )
        | [a-f][0-9a-f]{6}(?: [0-9a-f](?:(?:-[0-9a-f]{4}){3}-[0-9a-f]{12} | [0-9a-f]*) | (?<!\w[0-9a-f]{7})(?!\w))
        | [+-](?<![\w.)\]].)\d+(?:[.,]\d+)*(?:e[+-]?\d+(?!\w))?
        | "[^"]*"
        | '(?<!\w')[^']*'(?!\w)
        | `[^`]*`
    )""",
    re.VERBOSE,
)
# A quote that only closes ("can’t") opens nothing.
_QUOTED = re.compile("“[^“”]*”|‘[^‘’]*’|„[^„“”]*[“”]|«[^«»]*»|‹[^‹›]*›|「[^「」]*」|『[^『』]*』")
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}"
_CLOCK = r"\d\d?:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?: ?(?:z|utc|gmt|[+-]\d\d:?\d\d))?"
_DATE_IN_WORDS = re.compile(
    rf"(?<!\w)(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{{0,6}},? )?"
    rf"(?:\d\d?[ -]{_MONTH}[ -]\d{{4}}(?:,? {_CLOCK})?"
    rf"|{_MONTH} \d\d?(?:,? {_CLOCK})?,? \d{{4}}(?:,? {_CLOCK})?)(?!\w)"
)
_URL = re.compile(r"(?<![\w+.-])([a-z][a-z0-9+.-]{1,20}://[^\s/?#\"'<>()`]{1,253})[/?#][^\s\"'<>`]*")
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_IPV6 = re.compile(r"(?<![\w:])(?=[a-f:]{0,36}\d)[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7}(?![\w:])")
_SHORTEST_IPV6 = 7  # colons of an address written out


def template_1(message: str) -> str:
    """The template of version 1 (G-031)."""
    return " ".join(_VARIABLE.sub("#", message.lower()).split())[:TEMPLATE_LENGTH]


def template_2(message: str) -> str:
    """The template of version 2 (G-174): of a URL its scheme and host stay, dates and addresses go as a whole.

    Each further pattern is tried on texts that can hold one: most hold none.
    """
    text = message.lower()
    if "://" in text:
        text = _URL.sub(r"\1/#", text)
    if "@" in text:
        text = _EMAIL.sub("#", text)
    if "20" in text or "19" in text:
        text = _DATE_IN_WORDS.sub("#", text)
    if "::" in text or text.count(":") >= _SHORTEST_IPV6:
        text = _IPV6.sub("#", text)
    if not text.isascii():
        text = _QUOTED.sub("#", text)
    return " ".join(_VARIABLE_2.sub("#", text).split())[:TEMPLATE_LENGTH]
