"""A job of CI at a real service: the exchange of its own token first, then the stored secret (G-171)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from service.runner import ci_service
from service.runner.ci_service import CiService, JobSecrets, take_credentials
from service.runner.web import GaveUp
from service.testing.loopback import Given, Heard, LoopbackServer
from tests.support.automation_world import World, open_world
from tests.support.ci_issuer import CiIssuer, running_ci_issuer
from tests.support.cluster import TestCluster
from tests.support.server import ServerHandle, running_server

DEPLOY = {"version": "1.0.0"}


@pytest.fixture(scope="module")
def issuer() -> Iterator[CiIssuer]:
    with running_ci_issuer("github") as made:
        yield made


@pytest.fixture(scope="module")
def server(issuer: CiIssuer, tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> Iterator[ServerHandle]:
    env = {"SERVICE_CI_ISSUERS": f"github={issuer.url}"}
    with running_server(tmp_path_factory.mktemp("ci"), cluster, env) as handle:
        yield handle


@pytest.fixture
def world(server: ServerHandle, issuer: CiIssuer) -> Iterator[World]:
    with open_world(server) as made:
        answer = made.call("POST", f"/v1/projects/{made.project_id}/ci-bindings", issuer.binding())
        assert answer.status_code == 201, answer.text
        yield made


class Actions:
    """The door of GitHub Actions at which a job asks for tokens. `claims` are in place of right ones."""

    def __init__(self, issuer: CiIssuer) -> None:
        self.issuer = issuer
        self.claims: dict[str, Any] = {}
        self.asked: list[Heard] = []
        self._server = LoopbackServer(self._answer)
        self.url = f"{self._server.url}/token?api-version=2.0"

    def close(self) -> None:
        self._server.close()

    def _answer(self, heard: Heard) -> Given:
        self.asked.append(heard)
        if heard.headers.get("authorization") != "Bearer of-the-job" or heard.parameters["api-version"] != "2.0":
            return Given(401)
        return Given.of(200, {"value": self.issuer.token(heard.parameters["audience"], **self.claims)})


@pytest.fixture
def actions(issuer: CiIssuer) -> Iterator[Actions]:
    made = Actions(issuer)
    yield made
    made.close()


def exchanges(world: World) -> int:
    listed = world.call("GET", f"/v1/projects/{world.project_id}/credentials?exchanged=true").json()
    return len(listed["credentials"])


def test_a_job_exchanges_its_token_and_again_when_the_credential_is_old(
    world: World, server: ServerHandle, actions: Actions, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = CiService(f"{server.base_url}/", world.project_id, JobSecrets(None, None, actions.url, "of-the-job"))
    for _ in range(2):
        assert job.ask("POST", "/v1/deploys/", DEPLOY).body["trusted"] is True
    assert (exchanges(world), len(actions.asked)) == (1, 1)
    monkeypatch.setattr(ci_service, "AGE", -1.0)
    job = CiService(server.base_url, world.project_id, JobSecrets(None, None, actions.url, "of-the-job"))
    assert [job.ask("POST", "/v1/deploys/", DEPLOY).status for _ in range(2)] == [202, 202]
    assert (exchanges(world), len(actions.asked)) == (3, 3)


def test_a_token_that_came_with_the_job_is_exchanged_once(world: World, server: ServerHandle, issuer: CiIssuer) -> None:
    job = CiService(server.base_url, world.project_id, JobSecrets(None, issuer.token(server.base_url), None, None))
    assert [job.ask("POST", "/v1/deploys/", DEPLOY).status for _ in range(3)] == [202, 202, 202]
    assert exchanges(world) == 1


def test_the_stored_secret_comes_second(
    world: World, server: ServerHandle, actions: Actions, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run of a pull request is not exchanged. Without a stored secret it says so, and fails."""
    actions.claims = {"event_name": "pull_request", "ref": "refs/pull/7/merge"}
    taken = JobSecrets(world.mint("ci_deploy")["credential"], None, actions.url, "of-the-job")
    job = CiService(server.base_url, world.project_id, taken)
    assert job.ask("POST", "/v1/deploys/", DEPLOY).status == 202
    assert exchanges(world) == 0
    said = capsys.readouterr()
    assert "was not exchanged (401)" in said.out + said.err
    alone = CiService(server.base_url, world.project_id, taken._replace(stored=None))
    with pytest.raises(GaveUp, match="SERVICE_CI_API_KEY"):
        alone.ask("POST", "/v1/deploys/", DEPLOY)
    unnamed = CiService(server.base_url, None, taken._replace(ask_at=f"{actions.url}&broken=1", ask_with="another"))
    assert unnamed.ask("POST", "/v1/deploys/", DEPLOY).status == 202


def test_nobody_who_is_started_later_finds_the_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        *("SERVICE_CI_API_KEY", "SERVICE_ID_TOKEN"),
        *("ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"),
    )
    for name in names:
        monkeypatch.setenv(name, f"the {name}")
    assert take_credentials() == tuple(f"the {name}" for name in names)
    assert take_credentials() == (None, None, None, None)
    assert not take_credentials().any
