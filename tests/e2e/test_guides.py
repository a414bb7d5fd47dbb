"""The guides as a newcomer uses them: every command typed as it stands, every link followed, from `GET /` on."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest
import yaml

from service.http.discovery.facts import Described, operations
from tests.support.guides import Block, Shell, anchors, blocks, links, open_shell, slug, ways
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.provider import FakeProvider, running_provider
from tests.support.server import ServerFactory, ServerHandle
from tests.support.weekly import Weekly


def fetch(client: httpx2.Client, url: str) -> httpx2.Response:
    """Read an address that an answer named. It is on the same host, and it is there."""
    assert url.startswith(str(client.base_url).rstrip("/")), url
    answer = client.get(url)
    assert answer.status_code == 200, f"{url}: {answer.status_code}"
    return answer


def sections(markdown: str) -> dict[str, list[Block]]:
    """The blocks of a guide by section, in their order."""
    found: dict[str, list[Block]] = {}
    for block in blocks(markdown):
        found.setdefault(block.section, []).append(block)
    return found


def follow(shell: Shell, parts: list[Block]) -> str:
    """Do what the blocks of a section say; returns what was printed."""
    return "".join(shell.follow(block) for block in parts)


def onboarding(client: httpx2.Client, root: dict[str, Any], shell: Shell) -> dict[str, Any]:
    """Read where the onboarding stands, at the address that the root shows, as the shell's person."""
    project, key = shell.type('echo "$PROJECT $SERVICE_API_KEY"').split()
    answer = client.get(root["onboarding"].replace("{project_id}", project), headers={"authorization": f"Bearer {key}"})
    assert answer.status_code == 200, answer.text
    state: dict[str, Any] = answer.json()
    return state


def test_a_newcomer_gets_from_the_root_to_a_verified_repair(
    server_factory: ServerFactory, database_url: str, tmp_path: Path
) -> None:
    """Knows the address alone. What to read, where to go and what to type all come from answers (R-AUT-36)."""
    server = server_factory.prepare(database_url=database_url)
    server.start()
    with server.client() as client, open_shell(tmp_path, server) as shell:
        root = fetch(client, server.base_url).json()
        assert root["install_docs"] in links(fetch(client, root["docs"]).text)
        guide = fetch(client, root["install_docs"]).text
        install(client, root, shell, guide)
        go_on(shell, guide)
        ask(shell, client, guide)
        automate(shell, fetch(client, root["automation_docs"]).text)


def install(client: httpx2.Client, root: dict[str, Any], shell: Shell, guide: str, way: int = -1) -> None:
    """Up to the start of the onboarding the guide leads; from then on the state does, by its `guide_anchor`.

    Of the ways in the guide's table one is gone, and the sections of the others are left out.
    """
    found = ways(guide)
    others = set.union(*found) - found[way]
    parts = {name: part for name, part in sections(guide).items() if name not in others}
    names = list(parts)
    chapters = {slug(heading) for heading in re.findall(r"^## (.+)$", guide, re.MULTILINE)}
    walked = []
    for name in names[: names.index("write-the-plan") + 1]:
        follow(shell, parts[name])
    while (state := onboarding(client, root, shell))["status"] != "verified":
        path, _, anchor = state["next_action"]["guide_anchor"].partition("#")
        assert root["install_docs"].endswith(path)
        assert anchor in anchors(guide)
        assert anchor not in walked, f"{anchor} did not lead on: {state}"
        walked.append(anchor)
        rest = names[names.index(anchor) :]
        for name in [anchor, *itertools.takewhile(lambda name: name not in chapters, rest[1:])]:
            follow(shell, parts[name])
    assert walked == ["review-plan", "instrument-and-prove", "exercise-and-verify"]
    assert json.loads(shell.type("cat verdict.json"))["ok"] is True
    assert "source_verified" in follow(shell, parts["read-the-result"])


def go_on(shell: Shell, guide: str) -> None:
    """What the guide shows after the onboarding, of those who report with the DSN."""
    parts = sections(guide)
    names = list(parts)
    rest = names[names.index("read-the-result") + 1 :]
    told = "".join(follow(shell, parts[name]) for name in rest)
    assert re.search(r"^True$\n^verified$", told, re.MULTILINE)  # of the older flow


SDK = """
import json
from urllib.request import Request, urlopen

class Posthog:
    def __init__(self, key, host, sync_mode):
        self.key, self.host = key, host

    def capture(self, event, distinct_id, properties):
        told = {"event": event, "distinct_id": distinct_id, "properties": {"$lib": "posthog-python", **properties}}
        body = json.dumps({"api_key": self.key, "batch": [told]}).encode()
        urlopen(Request(self.host + "/batch/", body, {"content-type": "application/json"}), timeout=10).read()

    def capture_exception(self, error, distinct_id, properties):
        told = [{"type": type(error).__name__, "value": str(error)}]
        self.capture("$exception", distinct_id, {"$exception_list": told, **properties})
"""
"""What the provider's SDK sends of it, for a machine that has none. `tests/clients` uses the real one."""


def through_the_provider(server: ServerHandle, provider: FakeProvider, folder: Path, python_path: Path) -> None:
    """The guide's first way, from its table alone: connect, audit, plan, capture through the SDK, prove (G-181)."""
    assert server.database_url is not None
    with (
        server.client() as client,
        open_shell(folder, server) as shell,
        psycopg.connect(server.database_url, autocommit=True) as clock,
    ):
        provider.clock = lambda: float(clock.execute("select service_seconds()").fetchall()[0][0])
        provider.capture("cart_filled", provider.now - 86400, distinct_id="ada")
        provider.tables["uniqExact(distinct_id), toUnixTimestamp(max(created_at)) from"] = [["cart_filled", 1, 1, 7]]
        shell.type(f"export POSTHOG_API_KEY={provider.project_key} POSTHOG_HOST={provider.url} NO_PROXY=127.0.0.1")
        shell.type(f"export PYTHONPATH={python_path}")
        root = fetch(client, server.base_url).json()
        guide = fetch(client, root["install_docs"]).text
        install(client, root, shell, guide, way=0)
        assert shell.type('echo "${SERVICE_DSN-none}"').strip() == "none", "this way never names a DSN"
        plan = json.loads(shell.type("cat start.json"))["plan"]
        assert plan["historical_evidence"]["observations"][0]["event"] == "cart_filled"
        assert plan["historical_evidence"]["provider_project_id"] == 42
        project, key = shell.type('echo "$PROJECT $SERVICE_API_KEY"').split()
        setup = client.get(f"/v1/projects/{project}/setup", headers={"authorization": f"Bearer {key}"}).json()
        assert setup["instrumentation"] == "provider"
        assert "SERVICE_DSN" not in {variable["name"] for variable in setup["env"]}
        for table in ("analytics_events", "log_events"):
            assert clock.execute(f"select count(*) from {table}".encode()).fetchall() == [(0,)], "nothing came here"


def test_a_newcomer_gets_a_verified_onboarding_through_their_provider(
    server_factory: ServerFactory, database_url: str, tmp_path: Path
) -> None:
    """On a default installation, whose client registers itself."""
    (tmp_path / "sdk").mkdir()
    (tmp_path / "sdk" / "posthog.py").write_text(SDK)
    with running_provider() as provider:
        server = server_factory.prepare(database_url=database_url, env=provider.unknown_env)
        server.start()
        through_the_provider(server, provider, tmp_path, tmp_path / "sdk")


def ask(shell: Shell, client: httpx2.Client, guide: str) -> None:
    """The guide to queries, which the guide to install links."""
    [address] = {link for link in links(guide) if link.endswith("/v1/docs/query")}
    for block in blocks(fetch(client, address).text):
        shell.follow(block)
    answer = json.loads(shell.type("cat answer.json"))
    assert [row["users"] for row in answer["rows"]] == [1, 1]
    assert answer["evidence"]["complete"] is True


def automate(shell: Shell, guide: str) -> None:
    """The guide to automation, to the verdict; a runner that starts once more finds nothing to do."""
    for block in blocks(guide):
        shell.follow(block)
    verdict = json.loads(shell.type("cat verdict.json"))
    assert (verdict["status"], verdict["verification"]["outcome"]) == ("succeeded", "no_recurrence")
    [report] = json.loads(shell.type("cat control.json"))["recent_reports"]
    assert report["automation_id"] == "review"
    assert shell.type("python3 runner.py").strip() == ""


DYING = """
import os, runpy, sys, urllib.request
send, left, end = urllib.request.urlopen, int(sys.argv[1]), sys.argv[2]

def dying(request, **how):
    global left
    answer = send(request, **how)
    left -= 1
    consumes = request.full_url.endswith("/consume")
    if consumes and end == "consume" or left <= 0 and not consumes:
        os._exit(9)
    return answer

urllib.request.urlopen = dying
runpy.run_path("runner.py", run_name="__main__")
"""
"""Runs the guide's runner, whose process ends right after an answer came, before it knows of it."""

LOSING = """
import runpy, time, urllib.error, urllib.request
send, lost = urllib.request.urlopen, set()

def losing(request, **how):
    answer = send(request, **how)
    sent = (request.method, request.full_url, request.data)
    if sent not in lost:
        lost.add(sent)
        raise urllib.error.URLError("the answer is lost")
    return answer

urllib.request.urlopen, time.sleep = losing, lambda _: None
runpy.run_path("runner.py", run_name="__main__")
"""
"""Runs the guide's runner, which loses the first answer to each of its requests."""


@contextmanager
def offered(server: ServerHandle, folder: Path) -> Iterator[tuple[HttpScene, dict[str, str]]]:
    """A receipt for the guide's runner, which is saved in a folder; yields the scene and the runner's environment."""
    with open_scene(server) as scene:
        scene.prepare()
        scene.error(2)
        scene.issue()
        with server.client() as client:
            found = blocks(client.get("/v1/docs/automation").text)
        [program] = [block.text for block in found if block.file == "runner.py"]
        (folder / "runner.py").write_text(program)
        told = {
            "SERVICE_URL": server.base_url,
            "SERVICE_RUNNER_API_KEY": scene.world.secrets["heal"],
            "PROJECT": scene.world.project_id,
        }
        yield scene, {**os.environ, **told}


def start(folder: Path, env: dict[str, str], program: str, *words: str) -> int:
    """Start the runner once, as a scheduler does; returns its exit code."""
    done = subprocess.run(
        [sys.executable, "-c", program, *words], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode


def decide(scene: HttpScene) -> None:
    """Approve what waits for a person."""
    listed = scene.must(scene.call("GET", f"{scene.project}/automation-approvals?status=pending", who="owner"))
    for asked in listed["approvals"]:
        path = f"/v1/automation-approvals/{asked['approval_id']}/decide"
        scene.must(scene.post(path, {"decision": "approve"}, who="owner"))


def the_run(scene: HttpScene) -> dict[str, Any]:
    """The one run that there is."""
    listed = scene.must(scene.call("GET", f"{scene.project}/automation-runs", who="owner"))
    [run] = listed["runs"]
    found: dict[str, Any] = run
    return found


def test_a_runner_that_dies_again_and_again_ends_its_one_run(
    server_factory: ServerFactory, database_url: str, tmp_path: Path
) -> None:
    """The first start dies after its first answer, the second after its second. Nothing is done twice (R-AUT-29)."""
    server = server_factory.prepare(database_url=database_url)
    server.start()
    with offered(server, tmp_path) as (scene, env):
        codes = []
        while not codes or codes[-1] != 0 or the_run(scene)["status"] is None:
            codes.append(start(tmp_path, env, DYING, str(len(codes) + 1), ""))
            decide(scene)
            assert len(codes) < 40
        run = the_run(scene)
        assert codes.count(9) > 4
        assert run["charges"]["turns"] == 4
        assert len(run["approvals"]) == len(run["grants"]) == 1
        assert (run["status"], len(list(tmp_path.glob("*.pull.json")))) == ("draft_pr_opened", 1)


def test_a_runner_that_dies_at_the_consume_hands_over_to_a_person(
    server_factory: ServerFactory, database_url: str, tmp_path: Path
) -> None:
    """Nobody knows whether it called the code host. The next start finds nothing there and opens nothing (R-AUT-32)."""
    server = server_factory.prepare(database_url=database_url)
    server.start()
    with offered(server, tmp_path) as (scene, env):
        assert start(tmp_path, env, DYING, "1000", "consume") == 0
        decide(scene)
        assert start(tmp_path, env, DYING, "1000", "consume") == 9
        assert start(tmp_path, env, DYING, "1000", "consume") == 0
        run = the_run(scene)
        assert (run["status"], run["reason"]) == ("escalated", "The grant was consumed, and there is no pull request.")
        assert list(tmp_path.glob("*.pull.json")) == []


def test_a_runner_that_loses_every_first_answer_does_nothing_twice(
    server_factory: ServerFactory, database_url: str, tmp_path: Path
) -> None:
    """It sends each request again with its key. That of the consume authorizes no call, so it escalates (R-AUT-32)."""
    server = server_factory.prepare(database_url=database_url)
    server.start()
    with offered(server, tmp_path) as (scene, env):
        for _ in range(3):
            assert start(tmp_path, env, LOSING) == 0
            decide(scene)
        run = the_run(scene)
        assert run["charges"]["turns"] == 4
        assert len(run["approvals"]) == len(run["grants"]) == 1
        assert run["grants"][0]["status"] in {"consumed", "unresolved"}
        assert (run["status"], list(tmp_path.glob("*.pull.json"))) == ("escalated", [])


@pytest.mark.shares_server
@pytest.mark.parametrize(("begun", "kinds"), [(3, ["metric"]), (1, ["readiness_gap"])])
def test_the_reviewer_of_the_guide_reports_the_sources_numbers(
    shared_server: ServerHandle, tmp_path: Path, begun: int, kinds: list[str]
) -> None:
    """It loses the first answer to each request, and records one report all the same, with gaps below the minimum."""
    with open_scene(shared_server) as scene, shared_server.client() as client:
        weekly = Weekly(scene).begin(prior=[begun, 1, 1], current=[begun, 2, 2])
        [program] = [
            block.text for block in blocks(client.get("/v1/docs/automation").text) if block.file == "weekly.py"
        ]
        (tmp_path / "runner.py").write_text(program)
        env = {
            "SERVICE_URL": shared_server.base_url,
            "SERVICE_RUNNER_API_KEY": scene.world.secrets["review"],
            "PROJECT": scene.world.project_id,
        }
        for _ in range(2):  # the second start finds nothing to do
            assert start(tmp_path, {**os.environ, **env}, LOSING) == 0
        run = weekly.run()
        assert run["status"] == "succeeded"
        assert [finding["kind"] for finding in run["output"]["findings"]] == kinds
        if kinds == ["metric"]:
            [metric] = run["output"]["findings"]
            assert metric["prior_value"] == 1
            assert metric["change"] == metric["current_value"] - 1 > 0


def texts_of(client: httpx2.Client, server: ServerHandle) -> dict[str, str]:
    """Every text of discovery, by its path."""
    listed = client.get("/adapters").json()["adapters"]
    adapters = [found["url"].removeprefix(server.base_url) for found in listed]
    paths = [one.path for one in operations().values() if one.group == "discovery" and "{" not in one.path]
    return {path: fetch(client, server.base_url + path).text for path in [*paths, *adapters]}


@pytest.fixture
def discovered(shared_server: ServerHandle) -> dict[str, str]:
    with shared_server.client() as client:
        return texts_of(client, shared_server)


def operations_at(path: str) -> list[Described]:
    """The operations that a path of an address belongs to; a template stands for itself, too."""
    patterns = {one: re.sub(r"\\{\w+\\}", "[^/]+", re.escape(one.path.rstrip("/"))) for one in operations().values()}
    return [one for one, pattern in patterns.items() if re.fullmatch(pattern, path)]


@pytest.mark.shares_server
def test_every_link_of_discovery_leads_somewhere(shared_server: ServerHandle, discovered: dict[str, str]) -> None:
    """Each address on this host is that of an operation. One that is read, is built and has no variable answers."""
    fetched: dict[str, int] = {}
    with shared_server.client() as client:
        for path, text in discovered.items():
            if path == "/v1/openapi.json":
                continue
            for found in re.findall(rf"{re.escape(shared_server.base_url)}(/[^\s\"`<>)\\]*)", text):
                target = found.rstrip(".,;:")
                bare = target.partition("?")[0].partition("#")[0].rstrip("/")
                known = operations_at(bare)
                page = bare == "/console"  # Pages of the console are no operations.
                assert known or page, (path, found)
                if "{" not in bare and (page or any(one.method == "GET" for one in known)):
                    fetched[target] = fetched.get(target) or client.get(target).status_code
    assert {target: status for target, status in fetched.items() if status not in {200, 303, 401}} == {}
    assert [target for target, status in fetched.items() if status == 401] == ["/v1/projects"]
    assert len(fetched) > 15


@pytest.mark.shares_server
def test_every_operation_that_a_text_names_is_there(discovered: dict[str, str]) -> None:
    """A method with a path is an operation of this release that does something."""
    known = {(one.method, one.path.rstrip("/")) for one in operations().values()}
    for path, text in discovered.items():
        if path in {"/", "/v1/openapi.json", "/v1/errors"}:
            continue
        for method, named in re.findall(r"`(GET|POST|PUT|PATCH|DELETE) (/[^`\s]*)`", text):
            assert (method, named.rstrip("/")) in known, (path, method, named)


@pytest.mark.shares_server
def test_every_anchor_is_a_heading(discovered: dict[str, str]) -> None:
    for path, text in discovered.items():
        for link in links(text):
            page, _, anchor = link.rpartition("#")
            if anchor and link.startswith("#"):
                assert anchor in anchors(text), (path, link)
            assert not page or page.startswith("http"), (path, link)


@pytest.mark.shares_server
def test_discovery_holds_no_secret(discovered: dict[str, str]) -> None:
    """Nothing of the form of a credential, but for the examples of the schema, which call themselves so."""
    form = r"service_(?:sk|dsn|ci|runner)_[0-9A-Za-z]{20,}|agp_[0-9A-Za-z_-]{32}|whsec_[0-9A-Za-z]{10,}"
    for path, text in discovered.items():
        assert [found for found in re.findall(form, text) if "Example0Example0" not in found] == [], path


@pytest.mark.shares_server
def test_every_fence_says_what_it_is(discovered: dict[str, str]) -> None:
    """A block is saved, run, or of a language that is read here: nothing in a guide is tried by nobody."""
    for path, text in discovered.items():
        if not path.endswith((".md", "/query", "/automation")):
            continue
        for block in blocks(text):
            assert block.language in {"sh", "json", "python", "yaml"}, (path, block)
            assert block.language not in {"json", "python"} or block.file, (path, block)
            if block.language == "json":
                json.loads(block.text)
            if block.language == "python":
                compile(block.text, path, "exec")
            if block.language == "yaml":
                job = yaml.safe_load(block.text)
                assert job["permissions"]["id-token"] == "write", "its token is exchanged"
                [step] = job["steps"]
                assert {"name", "run", "env"} <= step.keys()
