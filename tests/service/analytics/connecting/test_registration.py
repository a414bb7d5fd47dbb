"""How an installation presents itself to a provider (G-164)."""

from __future__ import annotations

import msgspec
import pytest

from schemas.analytics import READ_SCOPES
from service.analytics.connecting.registering import ClientWay, OAuthClient, Registration, is_public
from service.settings import load_settings

BASE = "https://service.example"


def registration(**env: str) -> Registration:
    settings = {"SERVICE_BASE_URL": BASE, **{f"SERVICE_{name.upper()}": value for name, value in env.items()}}
    return Registration(load_settings(settings, secrets=False))


@pytest.mark.parametrize(
    ("base_url", "public"),
    [
        (BASE, True),
        ("https://service.example:8443/inside", True),
        ("https://8.8.8.8", True),
        ("https://[2606:4700::1111]", True),
        ("http://service.example", False),
        ("https://service.example:8022", True),
        ("https://service.example:22", False),
        ("https://127.0.0.1", False),
        ("https://10.1.2.3", False),
        ("https://[::1]", False),
        ("https://localhost", False),
        ("https://app.localhost", False),
        ("https://service", False),
        ("https://service.internal", False),
        ("https://printer.local", False),
        ("https://box.home.arpa", False),
        ("https://box.lan", False),
        ("https://service.test", False),
    ],
)
def test_a_public_address(base_url: str, public: bool) -> None:
    """A provider fetches the document over https, and from no private network."""
    assert is_public(base_url) == public
    found = registration(base_url=base_url)
    assert (found.document is not None) == (found.client is not None) == public
    assert found.way is (ClientWay.DOCUMENT if public else ClientWay.REGISTERED)


@pytest.mark.parametrize(
    ("host", "near"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("0.0.0.0", False),  # noqa: S104 - an address that is judged
        ("127.0.0.2", False),
        ("::1", False),
        ("10.1.2.3", False),
        ("service.internal", False),
    ],
)
def test_only_a_service_for_its_own_machine_registers_itself(host: str, near: bool) -> None:
    """A browser is sent to 127.0.0.1, whatever the base URL is (G-180)."""
    found = registration(host=host, port="8123", base_url="https://service.internal")
    assert found.way is (ClientWay.REGISTERED if near else None)
    assert found.client is None
    if near:
        assert found.redirect_uri == "http://127.0.0.1:8123/v1/auth/provider/callback"


def test_the_document_names_itself_and_where_people_come_back_to() -> None:
    document = registration().document
    text = msgspec.json.encode(document)
    assert len(text) < 5 * 1024, "the provider reads no more"
    assert msgspec.json.decode(text) == {
        "client_id": f"{BASE}/.well-known/oauth-client",
        "client_name": "Read access for service.example",
        "client_uri": BASE,
        "redirect_uris": [f"{BASE}/v1/auth/provider/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
        "scope": " ".join(READ_SCOPES),
        "com.posthog": {"scopes": list(READ_SCOPES)},
    }


def test_the_operator_s_client_comes_first() -> None:
    """With a client of the operator there is no document."""
    found = registration(provider_client_id="client-1")
    back = f"{BASE}/v1/auth/provider/callback"
    assert (found.client, found.document) == (OAuthClient("client-1", back), None)
    assert "client-1" not in repr(found.client), "its repr may reach a log"


def test_all_regions_sign_in_at_one_address_and_any_other_host_at_its_own() -> None:
    found = registration(provider_eu_url="https://eu.inside.example")
    client = OAuthClient("client-1", "https://service.example/back")
    for region, host in (("us", "https://us.posthog.com"), ("eu", "https://eu.inside.example")):
        assert found.host_in(region) == host
        assert found.authority(host) == "https://oauth.posthog.com"
        assert found.authorization_url(host, client, "s", "c").startswith("https://oauth.posthog.com/oauth/authorize/?")
    assert (found.host_in("mars"), found.host_in(None)) == (None, None)
    assert found.authority("https://self.hosted.example") == "https://self.hosted.example"
