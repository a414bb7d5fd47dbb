"""The repository comes from the remote of the checkout, and its token goes to its host alone (R-CRED-15)."""

from __future__ import annotations

from typing import Any

import pytest

from service.runner.access import AskedRepository, Unsuitable, make_repository
from service.runner.hosts import GitHub
from tests.service.runner.test_bounds import policy

TOKENS = {"github": "token-of-github", "gitlab": "token-of-gitlab"}
WEB = "https://github.com/acme/Shop"


def made(url: str, web: str | None = None, kind: str | None = None, api: str | None = None) -> Any:
    """The repository of a remote, and the address and headers of its host."""
    return make_repository(url, AskedRepository(web, kind, api), TOKENS)


@pytest.mark.parametrize(
    ("url", "options", "api", "header"),
    [
        (f"{WEB}.git", {}, "https://api.github.com", True),
        ("git@github.com:acme/Shop.git", {}, "https://api.github.com", False),
        ("ssh://git@github.com:2222/acme/Shop", {}, "https://api.github.com", False),
        ("https://github.example/acme/Shop", {}, "https://github.example/api/v3", True),
        ("https://gitlab.example:8443/acme/Shop.git", {}, "https://gitlab.example:8443/api/v4", True),
        ("git@gitlab.example:acme/Shop", {"web": "https://gitlab.example:8443/acme/Shop"},
         "https://gitlab.example:8443/api/v4", False),
        ("https://me:secret@github.com/acme/Shop", {}, "https://api.github.com", False),
        ("http://github.com/acme/Shop", {}, "https://api.github.com", False),
        ("/srv/shop.git", {"web": WEB}, "https://api.github.com", False),
        ("https://code.example/acme/Shop", {"kind": "gitlab"}, "https://code.example/api/v4", True),
        (WEB, {"api": "https://proxy.example/v3"}, "https://proxy.example/v3", True),
    ],
)  # fmt: skip
def test_host_and_token_follow_from_the_remote(
    url: str, options: dict[str, str], api: str, header: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git gets the token over https alone, at an address without another user."""
    for name in ("GITHUB_API_URL", "CI_API_V4_URL"):
        monkeypatch.delenv(name, raising=False)
    found = made(url, **options)
    assert found.host._client._base_url == api
    assert found.remote.url == url
    assert (found.remote.header is not None) == header


@pytest.mark.parametrize(
    ("url", "options", "said"),
    [
        ("/srv/shop.git", {}, "Say with --repository"),
        ("file:///srv/shop.git", {}, "no address that the runner reads"),
        ("ext::sh -c x", {}, "no address that the runner reads"),
        ("git://github.com/acme/shop", {}, "no address that the runner reads"),
        (WEB, {"web": "https://github.com/acme/other"}, "not the repository of --repository"),
        (WEB, {"web": "https://github.com:8443/acme/Shop"}, "not the repository of --repository"),
        ("git@github.com:acme/Shop", {"web": "https://gitlab.com/acme/Shop"}, "not the repository of --repository"),
        ("/srv/shop.git", {"web": "http://github.com/acme/shop"}, "no https address"),
        ("/srv/shop.git", {"web": "https://me@github.com/acme/shop"}, "no https address"),
        ("https://code.example/acme/shop", {}, "Say with --host"),
    ],
)
def test_a_remote_that_says_too_little_is_refused(url: str, options: dict[str, str], said: str) -> None:
    """Before anything is asked."""
    with pytest.raises(Unsuitable, match=said):
        made(url, **options)


@pytest.mark.parametrize(
    ("repository", "fits"),
    [
        (WEB, True),
        ("https://GitHub.com/acme/shop.git", True),
        ("https://github.com:443/acme/shop", True),
        ("https://github.com:8443/acme/shop", False),
        ("http://github.com/acme/shop", False),
        ("https://github.com.evil.example/acme/shop", False),
        ("https://evil.example\\@github.com/acme/shop", False),
        ("https://github.com/acme/shop/../other", False),
        ("", False),
    ],
)
def test_a_policy_has_to_name_the_repository(repository: str, fits: bool) -> None:
    """Host, port and path, whatever the case."""
    found = made(WEB)
    if fits:
        found.check(policy(repository=repository))
    else:
        with pytest.raises(Unsuitable):
            found.check(policy(repository=repository))


def test_a_token_is_needed() -> None:
    """Of the host that the remote names."""
    with pytest.raises(Unsuitable, match="Set GITHUB_TOKEN"):
        make_repository(WEB, AskedRepository(None, None, None), {"gitlab": "token"})


@pytest.mark.parametrize(
    ("api", "graphql"),
    [
        ("https://api.github.com", "https://api.github.com/graphql"),
        ("https://github.acme.example/api/v3", "https://github.acme.example/api/graphql"),
    ],
)
def test_auto_merge_goes_to_the_host_alone(api: str, graphql: str) -> None:
    """GitHub Enterprise Server has its GraphQL beside its REST interface."""
    assert GitHub(api, "acme/shop", "token")._graphql._base_url == graphql
