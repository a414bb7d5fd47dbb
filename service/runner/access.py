"""The customer's access to the code host. Each token goes to the address of its own host alone."""

from __future__ import annotations

import os
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from service.runner.bounds import Policy
from service.runner.git import GitRemote, basic, place_of
from service.runner.hosts import GitHub, GitLab
from service.runner.pull import Draft, Pull

USERS = {"github": "x-access-token", "gitlab": "oauth2"}
TOKENS = {"github": ("GITHUB_TOKEN", "GH_TOKEN"), "gitlab": ("GITLAB_TOKEN",)}
_ADDRESSES = {"github": "GITHUB_API_URL", "gitlab": "CI_API_V4_URL"}


class Unsuitable(Exception):
    """The host or the checkout does not fit the contract."""


class PullHost(Protocol):
    """The two requests to a code host."""

    def find(self, branch: str, base: str) -> Pull | None:
        """Find the pull request of a branch, whatever has become of it. Raises HostRefused, GaveUp."""

    def open(self, draft: Draft) -> Pull:
        """Open a draft, unless the branch has one. Raises HostRefused, GaveUp."""


class HostAccess(NamedTuple):
    """The customer's own access to the code host. `api` is None where the repository's address tells it."""

    kind: str | None
    api: str | None
    tokens: dict[str, str]


def read_access(kind: str | None, api: str | None) -> HostAccess:
    """Take the tokens out of the environment. No program inherits them."""
    tokens = {}
    for host, names in TOKENS.items():
        found = [os.environ.pop(name) for name in names if os.environ.get(name)]
        if found:
            tokens[host] = found[0]
    return HostAccess(kind, api, tokens)


def kind_of(access: HostAccess, repository: str) -> str:
    """The kind of host of a repository. Raises Unsuitable."""
    if access.kind is not None:
        return access.kind
    name = urlsplit(repository).hostname or ""
    named = [kind for kind in TOKENS if kind in name]
    held = list(access.tokens)
    if len(named) == 1:
        return named[0]
    if len(held) == 1:
        return held[0]
    raise Unsuitable("Say with --host whether the repository is at GitHub or at GitLab.")


def host_of(access: HostAccess, policy: Policy) -> PullHost:
    """Make the host of the policy's repository. Raises Unsuitable."""
    kind = kind_of(access, policy.repository)
    if kind not in access.tokens:
        raise Unsuitable(f"Set {TOKENS[kind][0]} to a token that may push and open pull requests.")
    parts = urlsplit(policy.repository)
    name = parts.path.strip("/").removesuffix(".git")
    api = access.api or os.environ.get(_ADDRESSES[kind])
    if kind == "github":
        usual = "https://api.github.com" if parts.hostname == "github.com" else f"https://{parts.netloc}/api/v3"
        return GitHub(api or usual, name, access.tokens[kind])
    return GitLab(api or f"https://{parts.netloc}/api/v4", name, access.tokens[kind])


def remote_of(access: HostAccess, policy: Policy, url: str) -> GitRemote:
    """Where to push: the checkout's remote, once it is the policy's repository. Raises Unsuitable."""
    found, wanted = place_of(url), place_of(policy.repository)
    if found is None:
        return GitRemote(url)
    if found != wanted:
        raise Unsuitable("The remote of the checkout is not the repository of the contract.")
    kind = kind_of(access, policy.repository)
    if not url.startswith("https://") or "@" in urlsplit(url).netloc or kind not in access.tokens:
        return GitRemote(url)
    return GitRemote(url, basic(USERS[kind], access.tokens[kind]))
