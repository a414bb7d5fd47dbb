"""Names and texts that tell what must not be kept: personal data and secrets (G-086, G-135, G-192).

Plans may not name such things, and telemetry that does is scrubbed (G-033): both by these lists.
"""

import base64
import binascii
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, NamedTuple

# Secrets that are known by their form, in whatever text they stand (G-135). Pure. Every occurrence of a form holds
# one of its pieces, so a search for a few short literals tells which patterns are worth trying: over a whole event
# for those that may stand anywhere, over its long words alone for those that begin one. Each pattern takes time
# linear in its text: it begins with a fixed text or where no word goes on, and what it repeats cannot contain its
# beginning. Its one group is the part that is hidden.

_NO_WORD = 20  # letters of what is no word of a sentence any more
CARD_DIGITS = 13
"""The fewest digits of a card number."""


WORD = 16
"""Letters, digits, `_` and `-` in a row: a word that may be a key."""
BEFORE_WORD = 6
"""Characters before such a word that its piece may begin in."""
ID_DIGITS = 17
"""The fewest digits of an id in the path of a webhook."""


MOST_CANDIDATES = 500
"""Texts of an event that look like a secret and are judged; where more of them stand, a text is hidden whole (P25)."""


class FormBudget:
    """How many candidates of an event may still be judged: counted and not timed, so that all see the same."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = MOST_CANDIDATES


class SecretForm(NamedTuple):
    """A form: its kind, how it looks, what every occurrence holds, and what else must be true of a match.

    One of `pieces` stands anywhere in it, or one of `ids` before a number of ID_DIGITS digits at least, or one of
    `word_pieces` in a word of at least WORD characters or right before it, or `scheme`, in any case. A form without any
    has a look of its own (see `scrubbing`).
    """

    kind: str
    pattern: re.Pattern[str]
    pieces: tuple[str, ...] = ()
    word_pieces: tuple[str, ...] = ()
    scheme: str = ""
    holds: Callable[[str], bool] = bool
    ids: tuple[str, ...] = ()

    @property
    def all_pieces(self) -> tuple[str, ...]:
        """The pieces of all kinds."""
        return self.pieces + self.ids + self.word_pieces

    def find(self, text: str, budget: FormBudget) -> list[tuple[int, int]] | None:
        """Where in a text the secrets are; None when it has a candidate beyond the budget."""
        pieces = self.all_pieces
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
        r"""([2-6](?<![0-9A-Za-z_].)(?<!\d[.-].)(?:
            \d{12,18}
            | \d{3}([ -])\d{4}\2\d{4}\2\d{1,4}(?:\2\d{1,3})?
            | (?<=3)\d{3}([ -])\d{6}\3\d{4,5}
        ))(?!-?[0-9A-Za-z_])"""
    ),
    holds=_is_card,
)
# What it begins with comes first, and what may not stand before that then: a fifth of the time.
MAY_BE_CARD = re.compile(rb"[2-6](?<!\d.)(?:\d{12}|\d{3}([ -])\d{4}\1\d{4}\1\d|(?<=3)\d{3}([ -])\d{6}\2\d{4})")
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
        ("hooks.slack.com",),
        ("xox", "xapp-", ":AA"),
        # In the paths of sources a name follows, or a short number; the slash as JSON may write it, too.
        ids=("webhooks/", "webhooks\\/"),
    ),
    BEARER,
    BASIC,
    CARD,
)
"""Every form, in the order in which a text is searched for them."""


PERSONAL_NAMES = frozenset(
    {
        "email",
        "emailaddress",
        "phone",
        "phonenumber",
        "mobile",
        "firstname",
        "lastname",
        "fullname",
        "username",
        "address",
        "streetaddress",
        "postalcode",
        "zipcode",
        "birthdate",
        "dateofbirth",
        "dob",
        "ssn",
        "socialsecuritynumber",
        "passport",
        "nationalid",
        "taxid",
        "ip",
        "ipaddress",
        "creditcard",
        "cardnumber",
        "cvv",
        "iban",
        "accountnumber",
    }
)
"""Names of direct personal data."""

SECRET_FRAGMENTS = (
    "password",
    "passwd",
    "secret",
    "apikey",
    "accesstoken",
    "refreshtoken",
    "authtoken",
    "privatekey",
    "bearer",
    "cookie",
)
"""Fragments of secret names. Telemetry under a name that contains one is hidden."""

STRING_FRAGMENTS = (
    "authorization",
    "token",
    "pwd",
    "passcode",
    "jwt",
    "creditcard",
    "cardnumber",
    "cvv",
)
"""Fragments of names whose strings are hidden in telemetry; numbers and booleans under them stay (G-135)."""
STRING_NAMES = ("session", "sessionid", "otp", "totp", "auth", "sid", "pin")
"""Such names, compared whole."""

_SECRET_NAMES = frozenset({*SECRET_FRAGMENTS, *STRING_FRAGMENTS, *STRING_NAMES}) - PERSONAL_NAMES
_RUN_TOGETHER = tuple(sorted(_SECRET_NAMES - set(STRING_NAMES)))
"""Endings of a word that was written without a boundary, such as `userpassword`."""
_FLAGS = frozenset({"has", "is"})
_LONGEST = max(map(len, PERSONAL_NAMES | _SECRET_NAMES))

# Characters that show nothing; in a name they would part what belongs together.
INVISIBLE: Final = dict.fromkeys(
    [0xAD, 0x34F, 0x61C, 0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), 0xFEFF]
)
_SMALL = r"[^\W\d_A-Z]"
_WORD = re.compile(rf"[A-Z]{{2,}}(?!{_SMALL})|[A-Z]?{_SMALL}+|[A-Z]|\d+")

Telling = Literal["person", "secret"]
"""What a name or a text tells of."""

SEPARATORS = "_-. "
_DROP_SEPARATORS = str.maketrans("", "", SEPARATORS)
# Each begins with a fixed sign, so that a text without one costs nothing.
_EMAIL = re.compile(r"@(?<=[\w.+%-]@)(?:\w[\w-]{0,62}\.){1,8}[^\W\d_]{2,24}(?![\w-])")
_PHONE = re.compile(r"\+(?<![\w+]\+)[1-9](?:[ ().-]{0,2}\d){7,14}(?!\w)")
_HIDDEN = mark("").removesuffix(":]")
_OWN_SECRET = re.compile(r"service_(?:sk|ci|runner|dsn)_[0-9A-Za-z]{16}")


def normalize_name(name: str) -> str:
    """Fold a property name for the comparison: lowercase, without `_`, `-`, `.` and spaces."""
    return name.lower().translate(_DROP_SEPARATORS)


def fold_text(text: str) -> str:
    """Fold what looks alike: NFKC, and nothing invisible."""
    return text if text.isascii() else unicodedata.normalize("NFKC", text).translate(INVISIBLE)


def words_of(name: str) -> list[str]:
    """Split a name into lowercase words at separators, capitals and digits. A number at its end is left out.

    `userEMail2` has the words user, e, mail; `password_v2` has the word password.
    """
    words = [word.lower() for word in _WORD.findall(fold_text(name))]
    while words and words[-1].isdigit():
        words.pop()
        if words and words[-1] == "v":
            words.pop()
    return words


def name_tells(name: str) -> Telling | None:
    """Tell what a property name stands for: direct personal data, a secret, or nothing that is known (G-192).

    Its last words decide: `user_email` and `sessionToken` name such a value, `email_verified` and `token_count` only
    say something about one. A name that begins with `has` or `is` is a flag.
    """
    words = words_of(name)
    if not words or words[0] in _FLAGS:
        return None
    ending = ""
    for word in reversed(words):
        ending = word + ending
        if len(ending) > _LONGEST:
            break
        if ending in PERSONAL_NAMES:
            return "person"
        if ending in _SECRET_NAMES:
            return "secret"
    return "secret" if words[-1].endswith(_RUN_TOGETHER) else None


def holds_own_secret(text: str) -> bool:
    """Whether a text holds something that looks like a credential of this service."""
    return _OWN_SECRET.search(text) is not None


def holds_secret_form(text: str) -> bool:
    """Whether a text holds a secret that is known by its form: a credential, a key, the number of a card (G-135)."""
    budget = FormBudget()
    return any(form.find(text, budget) != [] for form in FORMS)


def holds_contact(text: str) -> bool:
    """Whether a text holds an e-mail address, or a telephone number in international form."""
    return ("@" in text and _EMAIL.search(text) is not None) or ("+" in text and _PHONE.search(text) is not None)


def value_tells(value: Any) -> bool:
    """Whether a decoded JSON value must not be kept: a text of a form above, or hidden in one, at any depth (G-192)."""
    open_values = [value]
    while open_values:
        one = open_values.pop()
        if isinstance(one, dict):
            open_values += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            open_values += one
        elif isinstance(one, str):
            text = fold_text(one)
            if _HIDDEN in text or holds_own_secret(text) or holds_contact(text) or holds_secret_form(text):
                return True
    return False
