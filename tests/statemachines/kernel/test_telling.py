"""Names and texts that must not be kept, by the lists that plans and telemetry share (G-033, G-086)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines.kernel.telling import (
    PERSONAL_NAMES,
    SECRET_FRAGMENTS,
    STRING_FRAGMENTS,
    STRING_NAMES,
    Telling,
    holds_own_secret,
    name_tells,
    normalize_name,
    value_tells,
)

TELLING: dict[Telling, tuple[str, ...]] = {
    "person": (
        "email", "E-Mail", "user_email", "userEmail", "USER_EMAIL", "customer.email", "billing-email-address", "email2",
        "phone", "customerPhone", "customer_phone_number", "PhoneNumber", "mobile", "contact.mobile", "first_name",
        "customerFirstName", "lastName", "user.full-name", "fullname", "user_name", "userName", "address", "$ip", "ip",
        "shipping_street_address", "client_ip", "remoteIPAddress", "postal code", "zipCode", "birth_date",
        "dateOfBirth", "patient_dob", "ssn", "social_security_number", "passport", "national-id", "tax.id", "IBAN",
        "account_number", "card_number", "creditCard", "cvv2", "em\u200bail", "\uff45\uff4d\uff41\uff49\uff4c",
    ),
    "secret": (
        "password", "user_password", "userPassword", "userpassword", "passwd", "new-passwd", "client_secret",
        "clientSecret", "secret", "api_key", "APIKey", "x-api-key", "my_apikey_v2", "access_token", "accessToken",
        "refresh.token", "auth_token", "authToken", "session_token", "csrf-token", "token", "bearer", "private_key",
        "cookie", "session_cookie", "authorization", "db_pwd", "passcode", "id_jwt", "session", "session_id",
        "sessionID", "otp", "totp", "auth", "sid", "card_pin", "pass\u00adword", "PASSWORD_2", "p_a_s_s_w_o_r_d",
    ),
}  # fmt: skip
HARMLESS = (
    "plan", "kind", "amount", "currency", "emailed", "zip", "tokens", "usernames", "order_id", "passage", "email_count",
    "emailVerified", "email_type", "email.status", "phone_verified", "phone_type", "address_type", "addressCount",
    "password_length", "passwordChangedAt", "password_status", "password_reset_method", "token_count", "tokenCount",
    "token_type", "tokens_used", "prompt_tokens", "auth_method", "authType", "session_count", "session_length_ms",
    "sessionMs", "cookie_version", "cookie_consent", "api_key_version", "secret_count", "secretary", "has_email",
    "hasPassword", "has_api_key", "is_mobile", "isEmail", "is_session", "IsAuth", "card_type", "card_number_length",
    "cvv_status", "iban_verified", "passport_type", "otp_method", "otpVerified", "totp_at", "pin_length", "pinned",
    "ip_version", "ipVersion", "shipping", "oauth2", "authors", "microphone", "voicemail", "username_at",
    "\u0433\u043e\u0440\u043e\u0434", "cl\u00e9ip",
)  # fmt: skip


@pytest.mark.parametrize(("told", "name"), [(told, name) for told, names in TELLING.items() for name in names])
def test_the_last_words_of_a_name_tell(told: Telling, name: str) -> None:
    """In whatever spelling: snake, kebab, camel, dots, run together, numbered, wide or with nothing between (G-192)."""
    assert name_tells(name) == told


@pytest.mark.parametrize("name", HARMLESS)
def test_a_name_that_only_says_something_about_such_a_value_is_taken(name: str) -> None:
    """A measure, a state, a flag, or another word; a name that is not listed is nobody's business (R-ONB-10, G-192)."""
    assert name_tells(name) is None


def test_the_tables_are_long_enough() -> None:
    """Sixty of each kind at least, none twice."""
    refused = [name for names in TELLING.values() for name in names]
    assert min(len(set(refused)), len(set(HARMLESS))) >= 60
    assert len(refused) + len(HARMLESS) == len({*refused, *HARMLESS})


@pytest.mark.parametrize("name", sorted({*PERSONAL_NAMES, *SECRET_FRAGMENTS, *STRING_FRAGMENTS, *STRING_NAMES}))
def test_each_listed_name_ends_a_refused_one(name: str) -> None:
    """One list for plans and telemetry (G-086, G-135)."""
    for spelling in (name, name.upper(), f"user_{name}", f"user{name.title()}", f"user.{name}", f"{name}-3"):
        assert name_tells(spelling), spelling
    for spelling in (f"has_{name}", f"{name}_count", f"{name}Verified", f"{name}.type"):
        assert not name_tells(spelling), spelling


CONTACTS = (
    "ann@shop.example", "Ann <ann.b+c@mail.shop.example>", "mailto:ann@shop.example", "+49 30 1234567", "+14155550123",
    "call +1 (415) 555-0123 now", "ann\u200b@shop.example", "\uff0b14155550123",
)  # fmt: skip
SECRETS = (
    "sk_live_" + "a1" * 12, "AKIA" + "A1" * 8, "ghp_" + "a1" * 18, "4111 1111 1111 1111", "Bearer " + "a1" * 12,
    "postgres://user:pass@host/db", "service_sk_" + "a" * 16, "[scrubbed]", "[scrubbed:jwt]",
    "-----BEGIN PRIVATE KEY-----\nMII",
)  # fmt: skip
PLAIN = (
    None, True, 0, 4111111111111111, "", "pro", "2024-01-01T00:00:00+01:00", "icon@2x", "@scope/name", "react@18.2.0",
    "+5", "1+23456789", "C++", "a@b", "basic plan", "bearer of news", "1234567890123", ["pro", {"plan": "free"}],
)  # fmt: skip


@pytest.mark.parametrize("text", [*CONTACTS, *SECRETS])
def test_a_value_of_a_known_form_tells_at_any_depth(text: str) -> None:
    """An address, a number to call, and whatever the scrubber replaces or has replaced (G-192)."""
    assert all(map(value_tells, (text, f"see {text}", [text], {"a": [{"b": text}]}, {text: 1})))


@pytest.mark.parametrize("value", PLAIN)
def test_any_other_value_is_a_value(value: object) -> None:
    assert not value_tells(value)


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
