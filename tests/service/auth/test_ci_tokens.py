"""Tokens of CI: which are believed, what is read of them, and how their issuers are asked (G-171)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from service.auth.ci_tokens import CiIssuers, IssuerSilent
from service.auth.oidc import BadToken
from service.egress.guard import Guard
from statemachines.credentials.binding import Presented
from tests.support.ci_issuer import REF, REPOSITORY, WORKFLOW, CiIssuer, running_ci_issuer
from tests.support.issuer import b64, key

AUDIENCE = "https://service.example"


class Clock:
    """A monotonic clock that stands still."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def github() -> Iterator[CiIssuer]:
    with running_ci_issuer("github") as issuer:
        yield issuer


@pytest.fixture
def gitlab() -> Iterator[CiIssuer]:
    with running_ci_issuer("gitlab") as issuer:
        yield issuer


def issuers_of(*issuers: CiIssuer, clock: Callable[[], float] = time.monotonic) -> CiIssuers:
    return CiIssuers(
        {issuer.url: "github" if issuer.host == "github" else "gitlab" for issuer in issuers}, Guard(), clock
    )


async def judge(issuer: CiIssuer, token: str, issuers: CiIssuers | None = None) -> Presented:
    known = issuers or issuers_of(issuer)
    return await known.verify(token, known.issuer_of(token), AUDIENCE)


async def refuse(issuer: CiIssuer, token: str, issuers: CiIssuers | None = None) -> str:
    with pytest.raises(BadToken) as refused:
        await judge(issuer, token, issuers)
    return str(refused.value)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
async def test_a_github_token_says_whose_run_it_is(github: CiIssuer, algorithm: str) -> None:
    github.keys = [key(algorithm, "ci")]
    run = await judge(github, github.token(AUDIENCE, environment="production"))
    assert (run.repository, run.run_id) == (REPOSITORY, "9001")
    assert run.ran == type(run.ran)(github.url, "740001", "65001", REF, WORKFLOW, "production")
    tag: dict[str, Any] = {
        "ref": "refs/tags/v1",
        "workflow_ref": f"{REPOSITORY}/{WORKFLOW}@refs/tags/v1",
        "job_workflow_ref": None,
    }
    assert (await judge(github, github.token([AUDIENCE], **tag))).ran.ref == "refs/tags/v1"


async def test_a_gitlab_token_says_whose_pipeline_it_is(gitlab: CiIssuer) -> None:
    run = await judge(gitlab, gitlab.token(AUDIENCE))
    assert (run.repository, run.run_id) == (REPOSITORY, "9001")
    assert run.ran == type(run.ran)(gitlab.url, "740001", "65001", REF, ".gitlab-ci.yml", None)
    tag: dict[str, Any] = {"ref": "v1", "ref_type": "tag", "ref_path": None}
    place = f"gitlab.example/{REPOSITORY}//ci/main.yml@refs/tags/v1"
    ran = (await judge(gitlab, gitlab.token(AUDIENCE, **tag, ci_config_ref_uri=place))).ran
    assert (ran.ref, ran.workflow) == ("refs/tags/v1", "ci/main.yml")


OTHER = f"acme/other/{WORKFLOW}@{REF}"
FORGED: list[tuple[str, dict[str, Any]]] = [
    ("another audience", {"aud": "https://other.example"}),
    ("others as well", {"aud": [AUDIENCE, "https://other.example"]}),
    ("no audience", {"aud": None}),
    ("the audience with a slash", {"aud": f"{AUDIENCE}/"}),
    ("expired", {"exp": int(time.time()) - 3_600}),
    ("not made yet", {"iat": int(time.time()) + 3_600}),
    ("not valid yet", {"nbf": int(time.time()) + 3_600}),
    ("without an end", {"exp": None}),
    ("without an id", {"jti": None}),
    ("an empty id", {"jti": ""}),
    ("an id that is no text", {"jti": 7}),
    ("an endless id", {"jti": "j" * 500}),
    ("a pull request", {"event_name": "pull_request"}),
    ("a pull request of a fork", {"event_name": "pull_request", "ref": "refs/pull/7/merge", "head_ref": "main"}),
    ("a fork's pull request with the rights of the base", {"event_name": "pull_request_target", "head_ref": "x"}),
    ("no event", {"event_name": None}),
    ("a called workflow of another repository", {"job_workflow_ref": OTHER}),
    ("a called workflow of the same repository", {"job_workflow_ref": f"{REPOSITORY}/.github/workflows/x.yml@{REF}"}),
    ("a calling workflow of another repository", {"workflow_ref": OTHER, "job_workflow_ref": OTHER}),
    (
        "another ref of the workflow",
        {"workflow_ref": f"{REPOSITORY}/{WORKFLOW}@refs/heads/x", "job_workflow_ref": None},
    ),
    ("no workflow", {"workflow_ref": None}),
    ("a repository without a number", {"repository_id": None}),
    ("a repository by its name", {"repository_id": REPOSITORY}),
    ("a repository by other digits", {"repository_id": "\u0667\u0664"}),
    ("an owner without a number", {"repository_owner_id": ["65001"]}),
    ("an environment that is no text", {"environment": ["production"]}),
    ("an environment with a line", {"environment": "production\n"}),
]


@pytest.mark.parametrize(("name", "changed"), FORGED, ids=[name for name, _ in FORGED])
async def test_a_github_token_that_is_not_for_us_is_refused(
    github: CiIssuer, name: str, changed: dict[str, Any]
) -> None:
    assert await refuse(github, github.token(AUDIENCE, **changed)), name


MERGE: list[tuple[str, dict[str, Any]]] = [
    ("a merge request", {"pipeline_source": "merge_request_event"}),
    ("a pull request of another host", {"pipeline_source": "external_pull_request_event"}),
    ("no source", {"pipeline_source": None}),
    ("the pipeline of another project", {"ci_config_ref_uri": f"gitlab.example/acme/other//.gitlab-ci.yml@{REF}"}),
    ("the pipeline of another ref", {"ci_config_ref_uri": f"gitlab.example/{REPOSITORY}//.gitlab-ci.yml@refs/heads/x"}),
    ("a pipeline from elsewhere", {"ci_config_ref_uri": None}),
    ("a project by its path", {"project_id": REPOSITORY}),
    ("no namespace", {"namespace_id": None}),
]


@pytest.mark.parametrize(("name", "changed"), MERGE, ids=[name for name, _ in MERGE])
async def test_a_gitlab_token_that_is_not_for_us_is_refused(
    gitlab: CiIssuer, name: str, changed: dict[str, Any]
) -> None:
    assert await refuse(gitlab, gitlab.token(AUDIENCE, **changed)), name


async def test_a_clock_may_differ_by_a_minute(github: CiIssuer) -> None:
    now = int(time.time())
    assert await judge(github, github.token(AUDIENCE, iat=now + 30, nbf=now + 30))
    assert await judge(github, github.token(AUDIENCE, exp=now - 30))


async def test_other_algorithms_and_other_keys_prove_nothing(github: CiIssuer) -> None:
    """An unsigned token, the public key as a shared secret, a fitting algorithm with a foreign key, and EdDSA."""
    claims = github.claims(AUDIENCE)
    head, body = (b64(json.dumps(one).encode()) for one in ({"alg": "none", "kid": "ci"}, claims))
    assert await refuse(github, f"{head}.{body}.")
    public = github.keys[0].private.public_key()
    for form in (serialization.PublicFormat.SubjectPublicKeyInfo, serialization.PublicFormat.PKCS1):
        pem = public.public_bytes(serialization.Encoding.PEM, form)
        head = b64(json.dumps({"alg": "HS256", "kid": "ci"}).encode())
        mac = hmac.digest(pem, f"{head}.{body}".encode(), "sha256")
        assert await refuse(github, f"{head}.{body}.{b64(mac)}")
    assert await refuse(github, key("ES256", "ci").token(claims))
    assert await refuse(github, key("RS256", "foreign").token(claims))
    assert await refuse(github, key("RS256", "foreign").token(claims, kid="ci"))
    github.keys = [key("EdDSA", "ci"), key("RS256", "rsa")]
    assert await refuse(github, key("EdDSA", "ci").token(claims), issuers_of(github))
    whole = github.token(AUDIENCE)
    flipped = base64.urlsafe_b64decode(whole.split(".")[2] + "==")
    other = bytes([flipped[0] ^ 1]) + flipped[1:]
    assert await refuse(github, ".".join([*whole.split(".")[:2], b64(other)]))
    assert hashlib.sha256(other).digest() != hashlib.sha256(flipped).digest()


async def test_an_issuer_speaks_for_itself_alone(github: CiIssuer, gitlab: CiIssuer) -> None:
    """A token signed by one issuer in the name of another, also where both keys have one name."""
    both = issuers_of(github, gitlab)
    gitlab.keys = [key("RS256", "of-gitlab")]
    foreign = gitlab.keys[0].token(github.claims(AUDIENCE), kid=github.keys[0].kid)
    assert await refuse(github, foreign, both)
    for token in (
        "",
        "a.b.c",
        "x" * 20_000,
        github.token(AUDIENCE, iss="https://ci.example"),
        github.token(AUDIENCE, iss=7),
    ):
        with pytest.raises(BadToken):
            both.issuer_of(token)
    assert both.issuer_of(github.token(AUDIENCE)) == github.url
    assert len(github.asked) == 2
    assert gitlab.asked == []


async def test_keys_are_read_once_an_hour_and_for_a_new_one_once_a_minute(github: CiIssuer) -> None:
    clock = Clock()
    issuers = issuers_of(github, clock=clock)
    old, new = github.keys[0], key("RS256", "rotated")
    for _ in range(5):
        await judge(github, github.token(AUDIENCE), issuers)
    assert len(github.asked) == 2
    github.keys = [old, new]
    await refuse(github, github.token(AUDIENCE), issuers)
    assert len(github.asked) == 2, "a minute has not gone by"
    clock.now += 61
    assert await judge(github, github.token(AUDIENCE), issuers)
    assert await judge(github, github.token(AUDIENCE, by=old), issuers)
    for number in range(20):
        await refuse(github, github.token(AUDIENCE, by=key("ES256", "nobody's")) + "", issuers)
        clock.now += number / 10
    assert len(github.asked) == 4
    github.keys = [new]
    clock.now += 3_601
    assert await judge(github, github.token(AUDIENCE), issuers)
    await refuse(github, github.token(AUDIENCE, by=old), issuers)
    assert len(github.asked) == 6


async def test_a_silent_issuer_is_asked_once_a_minute_and_nothing_is_believed(github: CiIssuer) -> None:
    clock = Clock()
    issuers = issuers_of(github, clock=clock)
    github.silent = True
    for _ in range(5):
        with pytest.raises(IssuerSilent) as silent:
            await judge(github, github.token(AUDIENCE), issuers)
        assert 1 <= silent.value.again <= 61
    assert len(github.asked) == 1
    github.silent = False
    clock.now += 61
    assert await judge(github, github.token(AUDIENCE), issuers)
    github.silent = True
    clock.now += 61
    with pytest.raises(IssuerSilent):
        await judge(github, github.token(AUDIENCE, by=key("RS256", "rotated")), issuers)
    assert await judge(github, github.token(AUDIENCE), issuers), "a known key is good for an hour"
    clock.now += 3_601
    with pytest.raises(IssuerSilent):
        await judge(github, github.token(AUDIENCE), issuers)


@pytest.mark.parametrize(
    "document",
    [
        {"issuer": "https://ci.example"},
        {"jwks_uri": "http://10.0.0.1/jwks"},
        {"jwks_uri": "http://169.254.169.254/latest"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": None},
    ],
)
async def test_a_document_leads_nowhere_else(github: CiIssuer, document: dict[str, Any]) -> None:
    github.document = document
    with pytest.raises(IssuerSilent):
        await judge(github, github.token(AUDIENCE))
    assert github.asked == ["/.well-known/openid-configuration"]
