"""Jobs of CI at a real service: the exchange of their own token first, then the stored secret (G-171)."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.runner import ci_service
from service.runner.ci_service import CiService, JobSecrets, take_credentials
from service.runner.web import GaveUp
from service.testing.loopback import Given, Heard, LoopbackServer
from tests.support.automation_world import World, open_world
from tests.support.ci_issuer import CiIssuer, running_ci_issuer
from tests.support.cluster import TestCluster
from tests.support.guides import blocks
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


DEPLOYS = Path(__file__).parents[3] / "docs" / "how-to" / "deploys.md"
PATH = "/usr/local/bin:/usr/bin:/bin"
AUTHOR = ("-c", "user.name=CI", "-c", "user.email=ci@example.com")


@pytest.fixture(params=["record-deploy.sh", "ci_deploy.sh"])
def script(request: pytest.FixtureRequest, world: World, tmp_path: Path) -> list[str]:
    """A script of the snippets or of the install guide, in a repository, and its arguments."""
    if request.param == "record-deploy.sh":
        [file] = world.client.get("/v1/install/sdk/python").json()["files"]
        text, name = file["contents"], file["path"]
    else:
        guide = world.client.get("/install.md").text
        [text] = [block.text for block in blocks(guide) if block.file == f"shop/{request.param}"]
        name = request.param
    (tmp_path / name).write_text(text, encoding="utf-8")
    for command in (["init", "--quiet"], [*AUTHOR, "commit", "--quiet", "--allow-empty", "--message", "Release"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return ["sh", name, "1.0.0"]


@pytest.mark.parametrize("host", ["github", "gitlab"])
def test_the_recipes_of_the_how_to_exchange(
    world: World, actions: Actions, issuer: CiIssuer, tmp_path: Path, host: str
) -> None:
    """Each is run as it is written, with what its host puts in the place of its own variables."""
    github, gitlab, _ = re.findall(r"```yaml\n(.*?)```", DEPLOYS.read_text(), re.DOTALL)
    told: dict[str, str]
    if host == "github":
        [step] = yaml.safe_load(github)["steps"]
        assert yaml.safe_load(github)["permissions"]["id-token"] == "write"
        text = re.sub(r"\$\{\{ github\.\w+ \}\}", "1" * 40, step["run"])
        told = {"P": world.project_id, "ACTIONS_ID_TOKEN_REQUEST_URL": actions.url}
        told |= {"ACTIONS_ID_TOKEN_REQUEST_TOKEN": "of-the-job"}
    else:
        job = yaml.safe_load(gitlab)["report"]
        [text] = job["script"]
        assert job["id_tokens"]["SERVICE_ID_TOKEN"]["aud"] == job["variables"]["SERVICE_URL"]
        token = issuer.token(str(world.client.base_url).rstrip("/"))
        told = {"SERVICE_PROJECT_ID": world.project_id, "SERVICE_ID_TOKEN": token}
        told |= {"CI_COMMIT_TAG": "1.0.0", "CI_COMMIT_SHA": "1" * 40}
    done = record(tmp_path, ["sh", "-e", "-c", text], world, **told)
    assert '"accepted":true' in done.stdout, done.stderr
    assert sender(world) is not None


def record(folder: Path, script: list[str], world: World, **told: str) -> subprocess.CompletedProcess[str]:
    """Run a script of CI with the variables of its job."""
    base = {"PATH": PATH, "SERVICE_URL": str(world.client.base_url).rstrip("/"), "HOME": str(folder)}
    return subprocess.run(script, cwd=folder, env=base | told, capture_output=True, text=True, check=False)


def sender(world: World) -> Mapping[str, Any] | None:
    """The run that recorded the only deploy. None: it was recorded by a stored credential."""
    [deploy] = world.call("GET", f"/v1/projects/{world.project_id}/deploys").json()["deploys"]
    assert deploy["trusted"] is True
    run: Mapping[str, Any] | None = deploy.get("ci_run")
    return run


def test_scripts_of_github_exchange_first(world: World, script: list[str], actions: Actions, tmp_path: Path) -> None:
    """The token they ask for is meant for this service, and no secret is in what they print."""
    job = {"ACTIONS_ID_TOKEN_REQUEST_URL": actions.url, "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "of-the-job"}
    done = record(tmp_path, script, world, SERVICE_PROJECT_ID=world.project_id, **job)
    assert '"accepted":true' in done.stdout, done.stderr
    assert "service_ci_" not in done.stdout + done.stderr
    run = sender(world)
    assert run is not None
    assert run["run_id"] == "9001"


def test_scripts_of_gitlab_exchange_first(world: World, script: list[str], issuer: CiIssuer, tmp_path: Path) -> None:
    """The token that came with the job goes before the stored secret."""
    token = issuer.token(str(world.client.base_url).rstrip("/"))
    told = {"SERVICE_PROJECT_ID": world.project_id, "SERVICE_CI_API_KEY": world.mint("ci_deploy")["credential"]}
    done = record(tmp_path, script, world, SERVICE_ID_TOKEN=token, **told)
    assert '"accepted":true' in done.stdout, done.stderr
    assert sender(world) is not None


def test_scripts_present_the_stored_secret_without_a_token(world: World, script: list[str], tmp_path: Path) -> None:
    done = record(tmp_path, script, world, SERVICE_CI_API_KEY=world.mint("ci_deploy")["credential"])
    assert '"accepted":true' in done.stdout, done.stderr
    assert sender(world) is None
    assert record(tmp_path, script, world).returncode != 0, "without anything to present"
