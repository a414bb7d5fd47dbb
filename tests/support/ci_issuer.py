"""Issuers of tokens of CI on loopback, with the claims that GitHub and GitLab document."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from service.testing.loopback import Given, Heard, LoopbackServer
from tests.support.issuer import SigningKey, key

_numbers = itertools.count(1)
BOUND = {
    "name": "shop",
    "issuer": "https://token.actions.githubusercontent.com",
    "repository_id": "740001",
    "owner_id": "65001",
    "ref": "refs/heads/main",
    "workflow": ".github/workflows/deploy.yml",
}
"""A workflow to bind, of an issuer that is never asked."""
REPOSITORY, WORKFLOW, REF = "acme/shop", ".github/workflows/deploy.yml", "refs/heads/main"


@dataclass
class CiIssuer:
    """An issuer. `silent`: it answers every question with 503."""

    host: str
    keys: list[SigningKey] = field(default_factory=lambda: [key("RS256", "ci")])
    url: str = ""
    silent: bool = False
    document: dict[str, Any] = field(default_factory=dict)  # in place of right members
    published: list[Any] | None = None  # in place of its keys
    asked: list[str] = field(default_factory=list)

    def answer(self, heard: Heard) -> Given:
        """Answer a question for the discovery document or the keys."""
        self.asked.append(heard.path)
        if self.silent:
            return Given(503)
        if heard.path == "/.well-known/openid-configuration":
            return Given.of(200, {"issuer": self.url, "jwks_uri": f"{self.url}/jwks"} | self.document)
        published = [one.jwk for one in self.keys] if self.published is None else self.published
        return Given.of(200, {"keys": published}) if heard.path == "/jwks" else Given(404)

    def claims(self, audience: Any, **changed: Any) -> dict[str, Any]:
        """The claims of a job on the main branch. None leaves a claim out."""
        now, number = int(time.time()), next(_numbers)
        common = {
            "iss": self.url,
            "aud": audience,
            "jti": f"{number:08d}-6a5e-4f0b-9d3c-{number:012d}",
            "iat": now - 5,
            "nbf": now - 5,
            "exp": now + 300,
        }
        own = _GITHUB if self.host == "github" else _GITLAB
        return common | own | changed

    def token(self, audience: Any, *, by: SigningKey | None = None, **changed: Any) -> str:
        """A token, of the newest key or another one."""
        return (by or self.keys[-1]).token(self.claims(audience, **changed))

    def binding(self, **changed: Any) -> dict[str, Any]:
        """The body that binds the workflow of `claims`."""
        github = self.host == "github"
        return {
            "name": REPOSITORY,
            "issuer": self.url,
            "repository_id": "740001",
            "owner_id": "65001",
            "ref": REF,
            "workflow": WORKFLOW if github else ".gitlab-ci.yml",
        } | changed


_GITHUB = {
    "sub": f"repo:{REPOSITORY}:ref:{REF}",
    "repository": REPOSITORY,
    "repository_id": "740001",
    "repository_owner": "acme",
    "repository_owner_id": "65001",
    "repository_visibility": "private",
    "ref": REF,
    "ref_type": "branch",
    "sha": "0123456789abcdef0123456789abcdef01234567",
    "event_name": "push",
    "base_ref": "",
    "head_ref": "",
    "actor": "ada",
    "actor_id": "12",
    "workflow": "deploy",
    "workflow_ref": f"{REPOSITORY}/{WORKFLOW}@{REF}",
    "job_workflow_ref": f"{REPOSITORY}/{WORKFLOW}@{REF}",
    "run_id": "9001",
    "run_number": "10",
    "run_attempt": "2",
    "runner_environment": "github-hosted",
}
_GITLAB = {
    "sub": f"project_path:{REPOSITORY}:ref_type:branch:ref:main",
    "project_id": "740001",
    "project_path": REPOSITORY,
    "namespace_id": "65001",
    "namespace_path": "acme",
    "user_login": "ada",
    "pipeline_id": "9001",
    "pipeline_source": "push",
    "job_id": "302",
    "ref": "main",
    "ref_type": "branch",
    "ref_path": REF,
    "ref_protected": "true",
    "ci_config_ref_uri": f"gitlab.example/{REPOSITORY}//.gitlab-ci.yml@{REF}",
    "sha": "0123456789abcdef0123456789abcdef01234567",
}


@contextmanager
def running_ci_issuer(host: str) -> Iterator[CiIssuer]:
    """Run an issuer with the claims of a host for a block."""
    issuer = CiIssuer(host)
    server = LoopbackServer(issuer.answer)
    issuer.url = server.url
    try:
        yield issuer
    finally:
        server.close()
