"""The repository: its remote, its code host, and the customer's token for both. The checkout says which one it is.

It is made once, before anything is asked. What the service says of a repository has to equal it, and moves nothing.
"""

import os
from typing import NamedTuple, Protocol
from urllib.parse import urlsplit

from service.runner.bounds import Policy
from service.runner.facts import Facing, GitHubFacts, GitLabFacts
from service.runner.git import GitRemote, basic, place_of
from service.runner.hosts import GitHub, GitLab
from service.runner.pull import Draft, Pull

USERS = {"github": "x-access-token", "gitlab": "oauth2"}
TOKENS = {"github": ("GITHUB_TOKEN", "GH_TOKEN"), "gitlab": ("GITLAB_TOKEN",)}
_ADDRESSES = {"github": "GITHUB_API_URL", "gitlab": "CI_API_V4_URL"}


class Unsuitable(Exception):
    """The host or the checkout does not fit the contract."""


class PullHost(Protocol):
    """The requests to a code host."""

    def find(self, branch: str, base: str) -> Pull | None:
        """Find the pull request of a branch, whatever has become of it. Raises HostRefused, GaveUp."""

    def open(self, draft: Draft) -> Pull:
        """Open a pull request, unless the branch has one. Raises HostRefused, GaveUp."""

    def checks(self, sha: str) -> dict[str, str]:
        """How each check of a commit has ended, PENDING for one that has not. Raises HostRefused, GaveUp."""

    def turn_on(self, branch: str, base: str, sha: str, method: str) -> Pull:
        """Have the host merge the commit by itself. Raises HostRefused, GaveUp."""


class AskedRepository(NamedTuple):
    """What the command line says of the repository: its address on the web, the kind of host, and its interface."""

    web: str | None
    kind: str | None
    api: str | None


class Repository(NamedTuple):
    """The one repository of a start."""

    place: tuple[str, str]
    remote: GitRemote
    host: PullHost

    def check(self, policy: Policy) -> None:
        """Hold a policy to this repository. Raises Unsuitable."""
        if not policy.repository.startswith("https://") or place_of(policy.repository) != self.place:
            raise Unsuitable("The remote of the checkout is not the repository of the contract.")


def take_tokens() -> dict[str, str]:
    """Take the tokens out of the environment. No program inherits them."""
    tokens = {}
    for kind, names in TOKENS.items():
        found = [os.environ.pop(name) for name in names if os.environ.get(name)]
        if found:
            tokens[kind] = found[0]
    return tokens


def make_repository(url: str, wanted: AskedRepository, tokens: dict[str, str]) -> Repository:
    """Make the repository of a remote. Raises Unsuitable."""
    web = _web_of(url, wanted.web)
    place = place_of(web)
    assert place is not None, "the address on the web was matched"
    reach = _reach(web, wanted, tokens)
    host: PullHost = GitHub(*reach[1:]) if reach.kind == "github" else GitLab(*reach[1:])
    return Repository(place, _remote(url, reach), host)


def make_facing(url: str | None, wanted: AskedRepository, tokens: dict[str, str]) -> tuple[Facing, GitRemote]:
    """Make what CI asks of the code host of a repository on the web, and of git. Raises Unsuitable."""
    web = _web_of(url or wanted.web or "", wanted.web)
    reach = _reach(web, wanted, tokens)
    host: Facing = GitHubFacts(*reach[1:]) if reach.kind == "github" else GitLabFacts(*reach[1:])
    return host, _remote(url or f"{web.rstrip('/').removesuffix('.git')}.git", reach)


def _remote(url: str, reach: "_Reach") -> GitRemote:
    """An address for git, with the token if it is one of the web."""
    told = url.startswith("https://") and "@" not in urlsplit(url).netloc
    return GitRemote(url, basic(USERS[reach.kind], reach.token) if told else None)


class _Reach(NamedTuple):
    """How a code host is reached: its kind, its interface, the repository's name there, and the token."""

    kind: str
    api: str
    name: str
    token: str


def _reach(web: str, wanted: AskedRepository, tokens: dict[str, str]) -> _Reach:
    """Find out how the code host of a repository is reached. Raises Unsuitable."""
    parts = urlsplit(web)
    kind = _kind_of(parts.hostname or "", wanted.kind, tokens)
    if kind not in tokens:
        raise Unsuitable(f"Set {TOKENS[kind][0]} to a token for the pull requests of the repository.")
    api = wanted.api or os.environ.get(_ADDRESSES[kind]) or _interface(kind, parts.netloc)
    return _Reach(kind, api, parts.path.strip("/").removesuffix(".git"), tokens[kind])


def _web_of(url: str, wanted: str | None) -> str:
    """The address of a remote on the web. A path on this machine has the one that the command line says."""
    place = place_of(url)
    if wanted is not None:
        told = place_of(wanted)
        if told is None or not wanted.startswith("https://") or "@" in wanted:
            raise Unsuitable("--repository is no https address of a repository.")
        # Keys reach a host by a port of their own. Everything else is told by the remote itself.
        by_keys = place is not None and GitRemote(url).is_ssh
        if place is not None and (_without_port(told) if by_keys else told) != (
            _without_port(place) if by_keys else place
        ):
            raise Unsuitable("The remote of the checkout is not the repository of --repository.")
        return wanted
    if place is None:
        if "://" in url or "::" in url:
            raise Unsuitable("The remote of the checkout has no address that the runner reads.")
        raise Unsuitable("The remote is a path. Say with --repository which repository it is on the web.")
    host, path = _without_port(place) if GitRemote(url).is_ssh else place
    return f"https://{host}/{_path_of(url) or path}"


def _path_of(url: str) -> str:
    """The path of an address, with its capital letters."""
    path = urlsplit(url).path if "://" in url else url.partition(":")[2]
    return path.strip("/").removesuffix(".git")


def _without_port(place: tuple[str, str]) -> tuple[str, str]:
    return place[0].partition(":")[0], place[1]


def _kind_of(name: str, wanted: str | None, tokens: dict[str, str]) -> str:
    """The kind of a host. Raises Unsuitable."""
    if wanted is not None:
        return wanted
    named = [kind for kind in TOKENS if kind in name]
    if len(named) == 1:
        return named[0]
    if len(tokens) == 1:
        return next(iter(tokens))
    raise Unsuitable("Say with --host whether the repository is at GitHub or at GitLab.")


def _interface(kind: str, netloc: str) -> str:
    """The usual address of a host's REST interface."""
    if kind == "gitlab":
        return f"https://{netloc}/api/v4"
    return (
        "https://api.github.com" if netloc.lower() in {"github.com", "github.com:443"} else f"https://{netloc}/api/v3"
    )
