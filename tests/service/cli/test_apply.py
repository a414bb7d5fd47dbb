"""`service apply` on a real service: exit codes, the difference, and nothing of somebody else's overwritten (G-168)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from copy import deepcopy
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from schemas.contracts.contract import MAX_CONTRACT_BYTES
from service.cli import main
from service.cli.shared.contract_file import BadAddress, BadFile, changes, check_address, lines_of, read
from statemachines.contracts.playbook import assemble_entry, find_template
from tests.service.cli.relay import relaying, serving
from tests.support import few_or_many
from tests.support.automation_world import EVENTS, World, open_world
from tests.support.ci_issuer import BOUND
from tests.support.playbook_samples import CASE, REVIEW, assertions_of, bindings_of
from tests.support.server import ServerHandle, clean_environment

pytestmark = pytest.mark.shares_server

HEAL, REVIEW_ID = "heal-checkout", "review-funnel"
HOW_TO = Path(__file__).parents[3] / "docs" / "how-to" / "contract.md"


def entry(playbook: str = CASE, **budgets: Any) -> dict[str, Any]:
    bindings = bindings_of(playbook, None)
    bindings["budgets"] |= budgets
    return assemble_entry(find_template(playbook), bindings, assertions_of(playbook))


def contract(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"policy_version": 2, "automations": list(entries)}


ONE, TIGHTER, BOTH = contract(entry()), contract(entry(max_runs_per_day=7)), contract(entry(), entry(REVIEW))


class Applying:
    """The command in the repository of a product."""

    def __init__(self, world: World, url: str, directory: Path) -> None:
        self.world, self.url, self.directory = world, url, directory

    def words(self, document: Any, *options: str, url: str | None = None) -> list[str]:
        """Write the file, and return the command's words."""
        content = document if isinstance(document, str) else json.dumps(document, indent=2)
        path = self.directory / f"contract-{len(list(self.directory.iterdir()))}.json"
        path.write_text(content)
        return ["apply", str(path), "--project", self.world.project_id, "--url", url or self.url, *options]

    def environment(self, who: str) -> dict[str, str]:
        return clean_environment(SERVICE_API_KEY=self.world.secrets[who])

    def __call__(
        self, document: Any, *options: str, code: int = 0, who: str = "owner", url: str | None = None
    ) -> tuple[str, str]:
        """Run it; returns what it said on stdout and stderr."""
        words = self.words(document, *options, url=url)
        done = CliRunner().invoke(main, words, env={"SERVICE_API_KEY": self.world.secrets[who], "SERVICE_URL": None})
        assert done.exit_code == code, (done.exit_code, done.output, done.exception)
        assert self.world.secrets[who] not in done.output
        return done.stdout, done.stderr

    def start(self, document: Any, url: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "service", *self.words(document, url=url)],
            env=self.environment("owner"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def saved(self) -> Any:
        """The saved contract; None without one."""
        answer = self.world.call("GET", self.world.contract)
        return answer.json() if answer.status_code == 200 else None


@pytest.fixture
def world(server: ServerHandle) -> Iterator[World]:
    with open_world(server) as made:
        yield made


@pytest.fixture
def apply(world: World, server: ServerHandle, tmp_path: Path) -> Applying:
    return Applying(world, server.base_url, tmp_path)


def test_the_first_contract_is_planned_then_saved_disabled_then_the_same(apply: Applying) -> None:
    """3, 0, 0: a plan saves nothing, a save enables nothing, the same saves nothing (G-168)."""
    told, _ = apply(ONE, "--plan", code=3)
    assert f"+ automation {HEAL}: error-to-draft-pr 4.0.0" in told
    assert f"Before {HEAL} can be enabled: " in told
    assert told.endswith("It differs. Nothing was saved.\n")
    assert apply.saved() is None
    assert "Saved, disabled: ctr_" in apply(ONE)[0]
    saved = apply.saved()
    assert (saved["revision"], saved["enabled"]) == (1, False)
    for options in ([], ["--plan"]):
        assert apply(ONE, *options)[0] == f"The same as {saved['contract_id']} at revision 1.\n"
    reordered = {name: ONE[name] for name in reversed(ONE)}
    assert apply(reordered)[0].startswith("The same as ")
    assert apply.saved() == saved


def test_each_change_is_named_and_what_was_enabled_is_off_afterwards(apply: Applying) -> None:
    world = apply.world
    world.map_signals(*EVENTS)
    world.mint("ci_deploy")
    world.mint("automation_runner", HEAL)
    apply(ONE)
    answer = world.call("POST", f"{world.contract}/enable", {}, etag=apply.saved()["etag"], key="on")
    assert answer.status_code == 200, answer.text
    plan, _ = apply(TIGHTER, "--plan", code=3)
    changed = re.findall(r"^  (.*)$", plan, re.MULTILINE)
    assert changed == sorted(changed, key=lambda line: line.split()[1])
    assert "~ bindings.budgets.max_runs_per_day: 10 → 7" in changed
    assert {line.split(":")[0].rpartition(".")[2] for line in changed} == {"max_runs_per_day"}
    assert f"Saving turns off: {HEAL}." in plan
    assert apply.saved()["enabled"]
    assert apply(TIGHTER, "--plan", code=3)[0].splitlines()[1:] == plan.splitlines()[1:]
    apply(TIGHTER)
    assert not apply.saved()["enabled"]
    more, _ = apply(BOTH)
    assert f"+ automation {REVIEW_ID}: weekly-funnel-review 2.0.0" in more
    order, _ = apply(contract(*reversed(BOTH["automations"])))
    assert f"~ order: {HEAL}, {REVIEW_ID} → {REVIEW_ID}, {HEAL}" in order
    assert f"- automation {REVIEW_ID}: weekly-funnel-review 2.0.0" in apply(ONE)[0]


def test_faults_are_named_at_their_line(apply: Applying) -> None:
    """Every fault at once, by line and path of the file, whether the entries or the body itself are refused."""
    bad = deepcopy(BOTH)
    bad["automations"][0]["bindings"]["budgets"]["max_runs_per_day"] = -1
    del bad["automations"][1]["bindings"]["name"]
    _, said = apply(bad, code=1)
    text = json.dumps(bad, indent=2).splitlines()
    found = {path: int(line) for line, path in re.findall(r"^\S+?\.json:(\d+): (\S+): ", said, re.MULTILINE)}
    assert '"max_runs_per_day": -1' in text[found["automations[0].bindings.budgets.max_runs_per_day"] - 1]
    assert '"bindings"' in text[found["automations[1].bindings.name"] - 1]
    _, said = apply({**BOTH, "enabled": True}, code=1)
    assert re.search(r"\.json:\d+: enabled: is unknown", said)
    _, said = apply({"policy_version": 1}, "--plan", code=1)
    assert re.search(r"\.json:1: automations: is missing", said)
    assert re.search(r"\.json:2: policy_version: must be", said)
    assert "is not JSON" in apply("{", code=1)[1]
    assert apply.saved() is None


def test_a_refusal_is_told_by_its_code(apply: Applying, server: ServerHandle) -> None:
    assert "owner_required" in apply(ONE, code=1, who="member")[1]
    assert "project_not_found" in apply(ONE, code=1, who="stranger")[1]
    apply.world.secrets["nobody"] = "service_sk_" + "x" * 43
    assert "401 " in apply(ONE, code=1, who="nobody")[1]
    assert apply.saved() is None
    apply(ONE, "--plan", code=3, who="member")


def test_used_wrongly(apply: Applying) -> None:
    """2: no key, no file, an address that gets no key."""
    words = apply.words(ONE)
    for env in ({"SERVICE_API_KEY": None}, {"SERVICE_API_KEY": "  "}, {"SERVICE_API_KEY": "a key\nx"}):
        assert CliRunner().invoke(main, words, env=env).exit_code == 2
    assert "in the clear" in apply(ONE, url="http://service.example", code=2)[1]
    key = {"SERVICE_API_KEY": apply.world.secrets["owner"]}
    assert CliRunner().invoke(main, ["apply", "no-such-file", "--project", "proj_1"], env=key).exit_code == 2
    assert CliRunner().invoke(main, ["apply", words[1]], env=key).exit_code == 2


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("same", [True, False])
def test_of_two_at_once_one_saves_and_the_other_says_what_changed(apply: Applying, first: bool, same: bool) -> None:
    """Both have read before either saves. Two files: 0 and 1, and the loser's is not saved. One file: 0 twice."""
    if not first:
        apply(ONE)
    both_have_read = Barrier(2)

    def before(method: str, _: str) -> bool:
        if method == "PUT":
            both_have_read.wait(60)
        return False

    wishes = [TIGHTER, TIGHTER if same else BOTH]
    with relaying(apply.url, before) as url:
        running = [apply.start(wish, url) for wish in wishes]
        said = [process.communicate(timeout=120) for process in running]
    codes = [process.returncode for process in running]
    saved = apply.saved()
    assert saved["revision"] == (1 if first else 2), said
    assert not saved["enabled"]
    if same:
        assert codes == [0, 0], said
        assert sorted(out.splitlines()[-1].split()[0] for out, _ in said) == ["Saved,", "The"]
        return
    assert sorted(codes) == [0, 1], said
    won = codes.index(0)
    assert len(saved["automations"]) == len(wishes[won]["automations"])
    told = said[1 - won][1]
    assert "Nothing was overwritten" in told
    assert f"~ revision: {'none → 1' if first else '1 → 2'}" in told
    if not first:
        expected = f"+ automation {REVIEW_ID}" if won else "~ bindings.budgets.max_runs_per_day: 10 → 7"
        assert expected in told


def test_a_lost_reply_is_found_by_the_next_run(apply: Applying) -> None:
    with relaying(apply.url, lambda method, _: method == "PUT") as url:
        _, said = apply(ONE, url=url, code=1)
    assert "Run the command again" in said
    assert apply(ONE)[0].startswith("The same as ")
    assert apply.saved()["revision"] == 1


class _Other(BaseHTTPRequestHandler):
    """A server of something else: it answers with the key, or sends the caller elsewhere."""

    status, body = 200, b""

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("location", "/elsewhere")
        body = self.body or json.dumps({"error": {"code": "x", "message": self.headers["authorization"]}}).encode()
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (200, b"<html>", "Is this its address?"),
        (200, b"{}", "Is this its address?"),
        (307, b"moved", "answered 307"),
        (400, b"", "Bearer …"),
    ],
)
def test_another_server_gets_nothing_out_of_it(apply: Applying, status: int, body: bytes, said: str) -> None:
    """It is told that this is not the service; an echoed key is not printed, a redirect not followed."""
    with serving(type("Other", (_Other,), {"status": status, "body": body})) as url:
        assert said in apply(ONE, url=url, code=1)[1]


def test_the_workflow_of_the_how_to_runs(apply: Applying) -> None:
    """The steps of the page: a pull request plans and passes, a push to main saves."""
    [text] = re.findall(r"^```yaml\n(.*?)^```$", HOW_TO.read_text(), re.MULTILINE | re.DOTALL)
    assert len(text.splitlines()) <= 16
    workflow = yaml.safe_load(text)
    assert set(workflow[True]) == {"pull_request", "push"}  # YAML 1.1 reads `on` as true
    [job] = workflow["jobs"].values()
    runs = [step["run"] for step in job["steps"] if "service apply" in step.get("run", "")]
    path = Path(re.findall(r"service apply (\S+)", runs[0])[0])
    (apply.directory / path).parent.mkdir(parents=True, exist_ok=True)
    (apply.directory / path).write_text(json.dumps(ONE))
    given = {
        "secrets.SERVICE_API_KEY": apply.world.secrets["owner"],
        "vars.SERVICE_URL": apply.url,
        "vars.SERVICE_PROJECT": apply.world.project_id,
    }

    def fill(value: str) -> str:
        return re.sub(r"\$\{\{ (.*?) \}\}", lambda found: given[found[1]], value)

    for event, saved in (("pull_request", False), ("push", True), ("pull_request", True)):
        for step in job["steps"]:
            condition = step.get("if", "true")
            if "service apply" not in step.get("run", "") or event not in condition:
                continue
            environment = {name: fill(value) for name, value in {**job["env"], **step["env"]}.items()}
            done = subprocess.run(
                ["bash", "-e", "-c", fill(step["run"])],
                env=clean_environment(**environment, PATH=f"{Path(sys.executable).parent}:/usr/bin:/bin"),
                cwd=apply.directory,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stdout + done.stderr
        assert (apply.saved() is not None) == saved


# The difference for people, and the addresses to which a key is sent.


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, ["~ a: 1 → true"]),
        ({"a": 0}, {"a": False}, ["~ a: 0 → false"]),
        ({"a": {"b": "é"}}, {"a": {"c": None}}, ['- a.b: "é"', "+ a.c: null"]),
        ({"l": ["x", "y"]}, {"l": ["x", "z"]}, ['~ l[1]: "y" → "z"']),
        ({"l": ["x"]}, {"l": ["w", "x"]}, ['~ l: ["x"] → ["w", "x"]']),
        ({"a": {"b": 1}}, {"a": []}, ['~ a: {"b": 1} → []']),
        ({"b": 1, "a": 1}, {"a": 2, "b": 2}, ["~ a: 1 → 2", "~ b: 1 → 2"]),
    ],
)
def test_each_changed_member_is_named(before: Any, after: Any, lines: list[str]) -> None:
    assert list(changes(before, after)) == lines


DIFFERENCE_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)


def _typed(value: Any) -> Any:
    """The value with each boolean as something unequal to a number."""
    match value:
        case bool():
            return ("bool", value)
        case dict():
            return {name: _typed(inner) for name, inner in value.items()}
        case list():
            return [_typed(inner) for inner in value]
    return value


@few_or_many(25, 100, deadline=None)
@given(DIFFERENCE_VALUES, DIFFERENCE_VALUES)
def test_nothing_is_shown_of_equals_alone(before: Any, after: Any) -> None:
    assert (not list(changes(before, after))) == (_typed(before) == _typed(after))


@pytest.mark.parametrize(
    "url",
    [
        "https://service.example/",
        "https://service.example/api",
        "http://127.0.0.1:8000",
        "http://[::1]:1",
        "http://localhost",
    ],
)
def test_the_key_goes_to_https_or_this_machine(url: str) -> None:
    assert check_address(url) == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        "http://service.example",
        "http://10.0.0.1",
        "http://localhost.example",
        "https://user@service.example",
        "https://service.example?x=1",
        "https://service.example#x",
        "ftp://127.0.0.1",
        "service.example",
        "https://",
        "https://[::1",
        "https://a:99999",
        "",
    ],
)
def test_no_other_address_gets_it(url: str) -> None:
    with pytest.raises(BadAddress):
        check_address(url)


# The file of a contract: its lines, and what is no contract.

TEXT = """{
  "policy_version": 2,
  "automations": [
    {"bindings": {
      "a,b": ["x", "]", {"n": 1}],
      "name": "say \\"hi\\": {"
    }},
    [],
    null
  ]
}
"""


def test_each_member_has_its_line() -> None:
    assert lines_of(TEXT) == {
        "": 1,
        "policy_version": 2,
        "automations": 3,
        "automations[0]": 4,
        "automations[0].bindings": 4,
        "automations[0].bindings.a,b": 5,
        "automations[0].bindings.a,b[0]": 5,
        "automations[0].bindings.a,b[1]": 5,
        "automations[0].bindings.a,b[2]": 5,
        "automations[0].bindings.a,b[2].n": 5,
        "automations[0].bindings.name": 6,
        "automations[1]": 8,
        "automations[2]": 9,
    }
    file = read(TEXT.encode())
    assert file.line_of("automations[0].bindings.missing.deeper") == 4
    assert file.line_of("elsewhere[3]") == 1


FILE_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@few_or_many(20, 60, deadline=None)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=3), FILE_VALUES, max_size=4))
def test_the_lines_are_those_of_the_written_members(document: dict[str, object]) -> None:
    """Written with a member a line, each member of the top stands on its own line."""
    text = json.dumps(document, indent=1)
    written = text.splitlines()
    for name in document:
        assert written[lines_of(text)[name] - 1].startswith(f' "{name}":')


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", ":1:1: is not JSON"),
        (b'{"a": 1,\n}', ":"),
        (b"\n\xff", ":2: is not UTF-8"),
        (b"[]", ": must be an object"),
        (b'{"a": 1, "a": 1}', ': names "a" twice'),
        (b'{"a": NaN}', ": has NaN"),
        (b'{"a":' + b"[" * 100_000, ": is nested too deeply"),
        (b" " * MAX_CONTRACT_BYTES + b"{}", ": has more than 262144 bytes"),
    ],
)
def test_anything_else_is_no_contract(content: bytes, said: str) -> None:
    with pytest.raises(BadFile) as refused:
        read(content)
    assert str(refused.value).startswith(said)


def test_the_bindings_of_a_file_are_those_of_the_project_afterwards(apply: Applying) -> None:
    """Planned, added, the same, and removed when the file has them no more (G-171)."""
    world = apply.world
    path = f"/v1/projects/{world.project_id}/ci-bindings"
    two = [BOUND, BOUND | {"ref": "refs/tags/v*", "environment": "production"}]
    planned, _ = apply({"ci_bindings": two}, "--plan", code=3)
    assert planned.count("+ binding shop: .github/workflows/deploy.yml at refs/") == 2
    assert world.call("GET", path).json()["count"] == 0
    assert apply({"ci_bindings": two})[0].endswith("Added 2, removed 0.\n")
    renamed = [body | {"name": "another name"} for body in reversed(two)]
    for options in ([], ["--plan"]):
        assert apply({"ci_bindings": renamed}, *options)[0] == "The same as the 2 bindings in force.\n"
    other = BOUND | {"repository_id": "740002"}
    said, _ = apply({"ci_bindings": [two[1], other]})
    assert "- binding shop: .github/workflows/deploy.yml at refs/heads/main of 740001: 0 live credentials end" in said
    assert said.endswith("Added 1, removed 1.\n")
    assert [one["repository_id"] for one in world.call("GET", path).json()["bindings"]] == ["740001", "740002"]
    assert apply({"ci_bindings": []})[0].endswith("Added 0, removed 2.\n")
    assert world.call("GET", path).json()["count"] == 0


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"ci_bindings": [BOUND, BOUND | {"ref": "main"}]}, ":16: ci_bindings[1].ref: "),
        ({"ci_bindings": [{}]}, ":3: ci_bindings[0]: "),
        ({"ci_bindings": {}}, ":2: ci_bindings: "),
        ({"ci_bindings": [], "automations": []}, ":1: the document: "),
    ],
)
def test_faults_of_bindings_are_named_at_their_line(apply: Applying, document: Any, said: str) -> None:
    _, told = apply(document, code=1)
    assert said in told
    assert apply.world.call("GET", f"/v1/projects/{apply.world.project_id}/ci-bindings").json()["count"] == 0
