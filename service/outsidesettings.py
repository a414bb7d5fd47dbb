"""Settings of the services outside of this one: the analytics provider, Stripe and the OIDC issuer."""

from __future__ import annotations

import msgspec

from service.settingvalues import Variable, flag, header_text, http_url, issuer_url, label, path_part, scopes, text


class OutsideSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses of other services, and the secrets for them."""

    provider_client_id: str | None
    provider_client_secret: str | None
    provider_oauth_url: str
    provider_us_url: str
    provider_eu_url: str
    provider_api_key: str | None
    provider_organization: str | None
    provider_api_url: str | None
    payment_api_key: str | None
    payment_api_base: str
    payment_webhook_secret: str | None
    oidc_issuer: str | None
    oidc_client_id: str | None
    oidc_client_secret: str | None
    oidc_trust_email: bool
    oidc_scopes: str
    oidc_label: str


def missing(issuer: str | None, client_id: str | None) -> str | None:
    """The problem of one without the other."""
    if (issuer is None) == (client_id is None):
        return None
    given, other = ("ISSUER", "CLIENT_ID") if client_id is None else ("CLIENT_ID", "ISSUER")
    return f"SERVICE_OIDC_{given}: needs SERVICE_OIDC_{other}; set both"


OUTSIDE: tuple[Variable, ...] = (
    Variable(
        "SERVICE_PROVIDER_CLIENT_ID",
        "provider_client_id",
        text,
        None,
        "OAuth client at the analytics provider. Without it, the client is the service's own document at "
        "`<base URL>/.well-known/oauth-client`, which needs a public https address in `SERVICE_BASE_URL`. Without "
        "both, the service registers itself at the provider, which needs `127.0.0.1` in `SERVICE_HOST` and a browser "
        "on the same machine. Else connecting answers 503.",
    ),
    Variable(
        "SERVICE_PROVIDER_CLIENT_SECRET",
        "provider_client_secret",
        text,
        None,
        "Secret of that client, if it has one.",
        secret=True,
    ),
    Variable(
        "SERVICE_PROVIDER_OAUTH_URL",
        "provider_oauth_url",
        http_url,
        "https://oauth.posthog.com",
        "Address where people of both regions sign in to the provider, and where the service registers itself. With a "
        "provider of your own, its address. It may be private, and use http.",
    ),
    Variable(
        "SERVICE_PROVIDER_US_URL",
        "provider_us_url",
        http_url,
        "https://us.posthog.com",
        "Address of the provider, US region. It may be private, and use http.",
    ),
    Variable(
        "SERVICE_PROVIDER_EU_URL",
        "provider_eu_url",
        http_url,
        "https://eu.posthog.com",
        "Address of the provider, EU region. It may be private, and use http.",
    ),
    Variable(
        "SERVICE_PROVIDER_API_KEY",
        "provider_api_key",
        header_text,
        None,
        "Your personal API key at the provider, with the scopes `project:write`, `query:read`, "
        "`session_recording:read`, `feature_flag:read`, `survey:read` and `experiment:read`. Without it, provisioning "
        "answers 503.",
        secret=True,
    ),
    Variable(
        "SERVICE_PROVIDER_ORGANIZATION",
        "provider_organization",
        path_part,
        None,
        "Id of your organization at the provider, in which projects are provisioned. Without it, provisioning answers "
        "503.",
    ),
    Variable(
        "SERVICE_PROVIDER_API_URL",
        "provider_api_url",
        http_url,
        None,
        "Address of the provider for that key. It may be private, and use http. Default: the US region.",
    ),
    Variable(
        "SERVICE_PAYMENT_API_KEY",
        "payment_api_key",
        text,
        None,
        "Secret key at Stripe with write access to prices, customers, subscriptions, checkout and portal "
        "sessions. Without it, checkout and portal answer 503.",
        secret=True,
    ),
    Variable(
        "SERVICE_PAYMENT_API_BASE",
        "payment_api_base",
        http_url,
        "https://api.stripe.com",
        "Address of Stripe.",
    ),
    Variable(
        "SERVICE_PAYMENT_WEBHOOK_SECRET",
        "payment_webhook_secret",
        text,
        None,
        "Signing secret of Stripe's webhook endpoint `<base URL>/v1/billing/webhook`. Register the types "
        "`checkout.session.completed` and `customer.subscription.created`, `.updated` and `.deleted`. Without it, "
        "calls get a 401.",
        secret=True,
    ),
    Variable(
        "SERVICE_OIDC_ISSUER",
        "oidc_issuer",
        issuer_url,
        None,
        "OIDC issuer where people sign in to the console, exactly as its tokens name it. It may be private; plain http "
        "is for loopback. Its redirect address is `<base URL>/console/oidc/callback`. Without it, people sign in by "
        "links of the operator.",
    ),
    Variable("SERVICE_OIDC_CLIENT_ID", "oidc_client_id", text, None, "Client at that issuer."),
    Variable(
        "SERVICE_OIDC_CLIENT_SECRET",
        "oidc_client_secret",
        text,
        None,
        "Secret of that client, if it has one.",
        secret=True,
    ),
    Variable(
        "SERVICE_OIDC_TRUST_EMAIL",
        "oidc_trust_email",
        flag,
        "0",
        "You trust this issuer for mail. A first sign-in with an address that it has verified is then that of the "
        "person with the address.",
    ),
    Variable("SERVICE_OIDC_SCOPES", "oidc_scopes", scopes, "openid email profile", "Scopes to ask for."),
    Variable("SERVICE_OIDC_LABEL", "oidc_label", label, "OpenID Connect", "The issuer's name on the button."),
)
"""Their variables, in the order of the list."""
