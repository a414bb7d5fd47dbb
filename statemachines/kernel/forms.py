"""Secrets that are known by their form, in whatever text they stand (G-135). Pure.

Every occurrence of a form holds one of its pieces, so a search for a few short literals tells which patterns are worth
trying: over a whole event for those that may stand anywhere, over its long words alone for those that begin one. Each
pattern takes time linear in its text: it begins with a fixed text or where no word goes on, and what it repeats cannot
contain its beginning. Its one group is the part that is hidden.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

_NO_WORD = 20  # letters of what is no word of a sentence any more
CARD_DIGITS = 13
"""The fewest digits of a card number."""


WORD = 16
"""Letters, digits, `_` and `-` in a row: a word that may be a key."""
BEFORE_WORD = 6
"""Characters before such a word that its piece may begin in."""


MOST_CANDIDATES = 500
"""Texts of an event that look like a secret and are judged; where more of them stand, a text is hidden whole (P25)."""


class FormBudget:
    """How many candidates of an event may still be judged: counted and not timed, so that all see the same."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_CANDIDATES


class SecretForm(NamedTuple):
    """A form: its kind, how it looks, what every occurrence holds, and what else must be true of a match.

    One of `pieces` stands anywhere in it, or one of `word_pieces` in a word of at least WORD characters or right before
    it, or `scheme`, in any case. A form without any has a look of its own (see `scrubbing`).
    """

    kind: str
    pattern: re.Pattern[str]
    pieces: tuple[str, ...] = ()
    word_pieces: tuple[str, ...] = ()
    scheme: str = ""
    holds: Callable[[str], bool] = bool

    def find(self, text: str, budget: FormBudget) -> list[tuple[int, int]] | None:
        """Where in a text the secrets are; None when it has a candidate beyond the budget."""
        pieces = self.pieces + self.word_pieces
        if (pieces and not any(map(text.__contains__, pieces))) or (self.scheme and self.scheme not in text.lower()):
            return []
        places = []
        for match in self.pattern.finditer(text):
            if not budget.left:
                return None
            budget.left -= 1
            if self.holds(match[1]):
                places.append(match.span(1))
        return places


def mark(kind: str) -> str:
    """What stands in the place of a secret."""
    return f"[scrubbed:{kind}]"


def hide(text: str, kind: str, places: Iterable[tuple[int, int]]) -> str:
    """Put the mark of a kind into every place; places are in order and do not overlap."""
    parts, end = [], 0
    for start, stop in places:
        parts += [text[end:start], mark(kind)]
        end = stop
    return "".join([*parts, text[end:]])


_DOUBLED = str.maketrans("0123456789", "0246813579")
"""Each digit as the sum of the digits of its double."""


def passes_luhn(digits: str) -> bool:
    """Whether the check digit of a number is right."""
    return (sum(map(int, digits[-1::-2])) + sum(map(int, digits[-2::-2].translate(_DOUBLED)))) % 10 == 0


# Prefixes of card numbers by issuer, and the numbers of digits that each issues.
_ISSUERS = re.compile(
    r"""4(?:\d{12}|\d{15}|\d{18})                                                  # Visa
    | (?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}             # Mastercard
    | 3[47]\d{13}                                                                 # American Express
    | 3(?:0[0-5]|[689]\d)\d{11}                                                   # Diners Club
    | (?:6011|64[4-9]\d|65\d\d|62\d\d|35(?:2[89]|[3-8]\d))\d{12,15}              # Discover, UnionPay, JCB
    | (?:5018|5020|5038|5893|6304|6759|676[123])\d{9,15}                           # Maestro
    """,
    re.VERBOSE | re.ASCII,
)


def _is_card(text: str) -> bool:
    digits = text.replace(" ", "").replace("-", "")
    return _ISSUERS.fullmatch(digits) is not None and passes_luhn(digits) and len(set(digits)) > 1


def _is_bearer(token: str) -> bool:
    """Tell a credential from a word that follows `Bearer` in a sentence."""
    return len(token) >= _NO_WORD or any(char.isdigit() for char in token)


def _is_basic(token: str) -> bool:
    """Whether a text is the base64 of a name, a colon and a password."""
    try:
        decoded = base64.b64decode(token + "=" * (-len(token) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in decoded and decoded.isprintable()


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.VERBOSE | re.ASCII)


_WORD_BEGINS = r"(?<![0-9A-Za-z_-])"

BEARER = SecretForm(
    "bearer",
    re.compile(r"\bbearer\s{1,8}([\w.~+/-]{8,}=*)", re.ASCII | re.IGNORECASE),
    scheme="bearer",
    holds=_is_bearer,
)
BASIC = SecretForm(
    "basic",
    re.compile(r"\bbasic\s{1,8}([\w+/-]{6,}={0,2})", re.ASCII | re.IGNORECASE),
    scheme="basic",
    holds=_is_basic,
)
CARD = SecretForm(
    "card_number",
    _pattern(
        r"""(?<![0-9A-Za-z_])(?<!\d[.-])(
            [2-6]\d{12,18}
            | [2-6]\d{3}([ -])\d{4}\2\d{4}\2\d{1,4}(?:\2\d{1,3})?
            | 3\d{3}([ -])\d{6}\3\d{4,5}
        )(?!-?[0-9A-Za-z_])"""
    ),
    holds=_is_card,
)
MAY_BE_CARD = re.compile(rb"(?<!\d)(?:[2-6]\d{12}|[2-6]\d{3}([ -])\d{4}\1\d{4}\1\d|3\d{3}([ -])\d{6}\2\d{4})")
"""What the bytes of every card number look like, whatever stands around it."""
URL = SecretForm("url_credentials", re.compile(r"""://(?!\[scrubbed)([^\s/?#"'<>\\]+)@"""), ("://",))

FORMS: tuple[SecretForm, ...] = (
    SecretForm(
        "private_key",
        re.compile(
            r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:(?!-----BEGIN )[\s\S])*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z|(?=-----BEGIN )))"
        ),
        ("-----BEGIN ",),
    ),
    URL,
    SecretForm(
        "jwt",
        _pattern(rf"{_WORD_BEGINS}(eyJ[\w-]{{13,}}\.[\w-]{{4,}}(?:\.[\w-]*){{1,3}})"),
        word_pieces=("eyJ",),
    ),
    SecretForm(
        "cloud_key",
        _pattern(
            rf"""{_WORD_BEGINS}(
                (?:AKIA|ASIA)[0-9A-Z]{{16}}(?![0-9A-Za-z])
                | AIza[\w-]{{35}}
                | ya29\.[\w-]{{20,}}
                | sk-(?:proj-|ant-|svcacct-)[\w-]{{20,}}
                | sk-[0-9A-Za-z]{{40,}}
                | dop_v1_[0-9a-f]{{40,}}
                | (?<=AccountKey=)[0-9A-Za-z+/]{{40,}}={{0,2}}
            )"""
        ),
        ("AccountKey=",),
        ("AKIA", "ASIA", "AIza", "ya29.", "sk-", "dop_v1_"),
    ),
    SecretForm(
        "code_host_key",
        _pattern(
            rf"""{_WORD_BEGINS}(
                gh[pousr]_[0-9A-Za-z]{{30,}}
                | github_pat_\w{{22,}}
                | glpat-[\w-]{{20,}}
                | npm_[0-9A-Za-z]{{36,}}
            )"""
        ),
        word_pieces=("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "npm_"),
    ),
    SecretForm(
        "payment_key",
        _pattern(
            rf"""{_WORD_BEGINS}(
                [srp]k_(?:live|test)_[0-9A-Za-z]{{16,}}
                | whsec_[0-9A-Za-z+/]{{24,}}={{0,2}}
                | shpat_[0-9A-Fa-f]{{32}}
                | sq0(?:csp|atp)-[\w-]{{22,}}
            )"""
        ),
        ("whsec_",),
        ("k_live_", "k_test_", "shpat_", "sq0"),
    ),
    SecretForm(
        "chat_key",
        _pattern(
            rf"""(?:{_WORD_BEGINS}|(?<=/bot)|(?<=/services/)|(?<=/webhooks/))(
                xox[abeoprs]-[0-9A-Za-z-]{{11,}}
                | xapp-\d-[0-9A-Za-z-]{{10,}}
                | \d{{8,10}}:AA[\w-]{{33}}(?![\w-])
                | (?<=hooks\.slack\.com/services/)T[0-9A-Z]{{6,}}/B[0-9A-Z]{{6,}}/[0-9A-Za-z]{{16,}}
                | (?<=/webhooks/)\d{{17,20}}/[\w-]{{40,}}
            )"""
        ),
        # An id follows, where in the paths of sources a name does; the slash as JSON may write it, too.
        ("hooks.slack.com", *(f"webhooks{slash}{digit}" for slash in ("/", "\\/") for digit in range(10))),
        ("xox", "xapp-", ":AA"),
    ),
    BEARER,
    BASIC,
    CARD,
)
"""Every form, in the order in which a text is searched for them."""
