"""The snippets of `GET /v1/install/sdk/{language}`, run as their readers run them (G-015).

Each speaks HTTPS to a real server behind a front. `make clients` runs the five that need no compiler, `make foreign`
all of them. A toolchain that is missing is a failure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from schemas.discovery import LANGUAGES
from tests.foreign.runs import MARKER, Behind, Manner, Ran, running
from tests.support.accounts import checked, create_credential
from tests.support.snippets.programs import TOOLCHAINS, run

IN_CI = ("node", "python", "php", "ruby", "curl")
MESSAGE = "Checkout failed: the card was declined"
EVENT = {"checkout_completed": 1}
AUTHOR = ("-c", "user.name=CI", "-c", "user.email=ci@example.com")
LOGS, ANALYTICS = "/v1/logs/", "/v1/analytics/"
QUICK: tuple[Manner, ...] = ("taken", "marked", "refused once", "refused always", "not trusted", "without a DSN")
SLOW: tuple[Manner, ...] = ("unanswered",)
TYPES = {
    "node": "RangeError",
    "python": "RuntimeError",
    "ruby": "ArgumentError",
    "php": "DomainException",
    "curl": "CheckoutError",
    "go": "*errors.errorString",
    "java": "java.lang.IllegalStateException",
    "rust": "std::io::error::Error",
    "elixir": "ArgumentError",
    "dotnet": "System.InvalidOperationException",
}
"""The errors that the programs report."""
FRAMES = {"node", "python", "php", "ruby", "java", "elixir", "dotnet"}
"""Languages whose errors know where they were raised."""

Runs = Mapping[tuple[str, Manner], Future[Ran]]


def marked(language: str) -> Any:
    marks = [pytest.mark.foreign, *([pytest.mark.clients] if language in IN_CI else [])]
    return pytest.param(language, marks=marks)


every_language = pytest.mark.parametrize("language", [marked(language) for language in TOOLCHAINS])


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest, behind: Behind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The programs of the languages that are asked for, started side by side."""
    asked = [item for item in request.session.items if item.path == request.path and hasattr(item, "callspec")]
    languages = list(dict.fromkeys(item.callspec.params["language"] for item in asked))
    manners = [*QUICK, *(SLOW if any("unanswered" in item.name for item in asked) else ())]
    with running(behind, tmp_path_factory.mktemp("programs"), languages, manners) as started:
        yield started


@every_language
def test_an_error_and_an_event_arrive(behind: Behind, runs: Runs, language: str) -> None:
    """The error is one case, the event is counted once, and the program says nothing and names itself."""
    ran = runs[language, "taken"].result()
    titles, events = behind.arrived(ran.project_id)
    assert titles == [f"{TYPES[language]}: {MESSAGE}"]
    assert events == EVENT
    assert [(post.path, post.status) for post in ran.posts] == [(LOGS, 202), (ANALYTICS, 202)]
    assert {post.agent for post in ran.posts} == {f"service-snippet-{language}/1"}
    assert [line for line in ran.said.splitlines() if not line.startswith("NOTE: Picked up JDK_JAVA_OPTIONS")] == []


@every_language
def test_the_error_tells_where_it_was_raised(behind: Behind, runs: Runs, language: str) -> None:
    """Type, message and tag are stored apart, and frames where the language has them: the first is in the program."""
    ran = runs[language, "taken"].result()
    error = behind.latest(ran.project_id)
    exception = error["exception"]
    assert exception["value"] == MESSAGE
    assert exception["type"] == TYPES[language]
    assert error["tags"] == {"area": "checkout"}
    if language in FRAMES:
        first = exception["frames"][0]
        assert first["in_app"] is True
        assert first["function"]


@every_language
def test_a_refused_report_is_sent_again(behind: Behind, runs: Runs, language: str) -> None:
    """After a 429 it waits for the second in Retry-After, sends the same report again, and both arrive once."""
    ran = runs[language, "refused once"].result()
    assert [(post.path, post.status) for post in ran.posts] == [(LOGS, 429), (LOGS, 202), (ANALYTICS, 202)]
    refused, again, other = ran.posts
    assert refused.key == again.key != other.key
    assert refused.key
    assert again.at - refused.at >= 0.9
    titles, events = behind.arrived(ran.project_id)
    assert len(titles) == 1
    assert events == EVENT


@every_language
def test_a_marker_is_in_each_report_while_it_is_set(runs: Runs, language: str) -> None:
    """The error has it as a tag, the event as a property; without the variable, neither has the member."""
    plain, marked = (runs[language, manner].result().posts for manner in ("taken", "marked"))
    assert [(post.body.get("tags"), post.body.get("properties")) for post in plain] == [
        ({"area": "checkout"}, None),
        (None, {"plan": "pro"}),
    ]
    members = [post.body.get("tags") or post.body["properties"] for post in marked]
    assert [found["service_onboarding_proof"] for found in members] == [MARKER] * 2


@every_language
def test_a_program_gives_up_quietly(behind: Behind, runs: Runs, language: str) -> None:
    """Refused each time, it sends a report three times, ends well by itself, and says nothing."""
    ran = runs[language, "refused always"].result()
    sent = [post.path for post in ran.posts]
    assert sent[:3] == [LOGS] * 3
    assert sent[3:] == [ANALYTICS] * (len(sent) - 3), "Node forgets what waits, and so does the end of the others"
    assert len(sent) <= 6
    assert ran.seconds < 30
    assert behind.arrived(ran.project_id) == ([], {})


@every_language
def test_a_stranger_hears_nothing(behind: Behind, runs: Runs, language: str) -> None:
    """A server whose certificate nobody vouches for gets no report, and the program ends well."""
    ran = runs[language, "not trusted"].result()
    assert list(ran.posts) == []
    assert ran.seconds < 30


@every_language
def test_nothing_is_sent_without_a_dsn(behind: Behind, runs: Runs, language: str) -> None:
    """Where SERVICE_DSN is not set, as on a developer's machine, the program reports nothing and ends at once."""
    ran = runs[language, "without a DSN"].result()
    assert list(ran.posts) == []
    assert behind.front.posts[""] == []
    assert ran.seconds < 10


@pytest.mark.foreign
@pytest.mark.parametrize("language", TOOLCHAINS)
def test_an_unanswered_program_ends(behind: Behind, runs: Runs, language: str) -> None:
    """Requests that get no answer are given up after five seconds, and the program ends well within a minute."""
    ran = runs[language, "unanswered"].result()
    assert ran.posts[0].status == 0
    assert len(ran.posts) <= 6
    assert 5 <= ran.seconds < 50


@pytest.mark.foreign
@pytest.mark.clients
def test_ci_records_a_deploy(behind: Behind, tmp_path: Path) -> None:
    """The file for CI records a trusted deploy of the commit, and once when it runs again."""
    project = behind.project()
    with behind.server.client() as client:
        secret = create_credential(client, behind.key, project["id"])["credential"]
    [file] = behind.snippet("python")["files"]
    (tmp_path / file["path"]).write_text(file["contents"], encoding="utf-8")
    run(tmp_path, "git", "init", "--quiet")
    run(tmp_path, "git", *AUTHOR, "commit", "--quiet", "--allow-empty", "--message", "Release")
    told = {"SERVICE_CI_API_KEY": secret, "CURL_CA_BUNDLE": str(behind.front.ca)}
    for _ in range(2):
        assert '"accepted":true' in run(tmp_path, "sh", file["path"], "1.4.0", **told)
    with behind.server.client(behind.key) as client:
        [deploy] = checked(client.get(f"/v1/projects/{project['id']}/deploys"))["deploys"]
    assert (deploy["version"], deploy["environment"], deploy["trusted"]) == ("1.4.0", "production", True)
    assert deploy["sha"] == run(tmp_path, "git", "rev-parse", "HEAD").strip()


@pytest.mark.foreign
@pytest.mark.clients
def test_every_language_is_run() -> None:
    """The browser has a file of its own; all others have a toolchain."""
    assert set(TOOLCHAINS) | {"browser"} == set(LANGUAGES)
