"""Names that tell what must not be kept, and texts that hold a credential of this service (G-086).

Plans may not name such things, and telemetry that does is scrubbed (G-033): both by these lists.
"""

from __future__ import annotations

import re

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
"""Names of direct personal data, compared whole after normalization."""

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
"""Fragments of secret names, looked for anywhere in the normalized name."""

SEPARATORS = "_-. "
_DROP_SEPARATORS = str.maketrans("", "", SEPARATORS)
_OWN_SECRET = re.compile(r"service_(?:sk|ci|runner|dsn)_[0-9A-Za-z]{16}")


def normalize_name(name: str) -> str:
    """Fold a property name for the comparison: lowercase, without `_`, `-`, `.` and spaces."""
    return name.lower().translate(_DROP_SEPARATORS)


def names_secret(name: str) -> bool:
    """Whether a property name stands for a secret."""
    folded = normalize_name(name)
    return any(fragment in folded for fragment in SECRET_FRAGMENTS)


def names_person(name: str) -> bool:
    """Whether a property name stands for direct personal data."""
    return normalize_name(name) in PERSONAL_NAMES


def holds_own_secret(text: str) -> bool:
    """Whether a text holds something that looks like a credential of this service."""
    return _OWN_SECRET.search(text) is not None
