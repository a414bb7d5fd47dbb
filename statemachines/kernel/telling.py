"""Names and texts that tell what must not be kept: personal data and secrets (G-086, G-135, G-192).

Plans may not name such things, and telemetry that does is scrubbed (G-033): both by these lists.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Any, Final, Literal

from statemachines.kernel.forms import FORMS, FormBudget, mark

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
