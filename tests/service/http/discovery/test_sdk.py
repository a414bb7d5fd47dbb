"""The snippets over HTTP: their shape, their bounds on credentials and deploys, and languages that have none."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from schemas.discovery import LANGUAGES, SdkSnippet
from service.discovery.sdk.facts import FACTS, rendered
from tests.support.accounts import bearer, checked
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server

MEMBERS = [
    *("language", "title", "package", "install_command", "snippet", "files", "env_vars", "docs_url", "notes"),
    "next_action",
]
ENVELOPE = {"code", "message", "request_id", "next_action", "retryable", "details"}
SECRET = re.compile(r"(service_[a-z]+_|agp_|whsec_)[A-Za-z0-9_-]{20,}|://[^/\s\"']+@")


def read(server: ServerHandle, language: str) -> dict[str, Any]:
    with server.client() as client:
        return checked(client.get(f"/v1/install/sdk/{language}"))


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_shape_of_an_answer(server: ServerHandle, language: str) -> None:
    """All ten members are there, `package` and `install_command` null together; the address is that of this server."""
    answer = read(server, language)
    assert list(answer) == MEMBERS
    msgspec.convert(answer, SdkSnippet, strict=True)
    assert answer["language"] == language
    assert (answer["package"] is None) == (answer["install_command"] is None)
    assert f"{server.base_url}" in answer["snippet"]
    assert "{base_url}" not in str(answer)
    assert "#choose-a-way" in answer["notes"][0], "the provider's way goes before the snippet's (G-181)"
    assert FACTS[language].file in answer["notes"][1]  # type: ignore[index]
    assert all(answer[name] for name in ("title", "files", "env_vars", "notes", "next_action"))
    assert SECRET.search(str(answer)) is None


@pytest.mark.parametrize("language", LANGUAGES)
def test_variables_and_where_they_belong(server: ServerHandle, language: str) -> None:
    """The program reads SERVICE_DSN, which is public in a browser alone; the key of CI is no variable of a server."""
    answer = read(server, language)
    variables = [(variable["name"], variable["secret"], variable["where"]) for variable in answer["env_vars"]]
    assert "SERVICE_DSN" in answer["snippet"]
    if language == "browser":
        assert variables == [("SERVICE_DSN", False, "browser")]
        assert "SERVICE_API_KEY" not in str(answer)
    else:
        assert variables == [
            ("SERVICE_DSN", True, "server"),
            ("SERVICE_ONBOARDING_PROOF", True, "server"),
            ("SERVICE_PROJECT_ID", False, "ci"),
            ("SERVICE_CI_API_KEY", True, "ci"),
            ("SERVICE_ONBOARDING_PROOF", True, "ci"),
        ]
        assert "SERVICE_CI_API_KEY" not in answer["snippet"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_deploys_are_for_ci_alone(server: ServerHandle, language: str) -> None:
    """No snippet records a deploy: only a file for CI does, and a browser has none (R-ING-08)."""
    answer = read(server, language)
    assert "/v1/deploys" not in answer["snippet"]
    recording = [file["where"] for file in answer["files"] if "/v1/deploys" in file["contents"]]
    assert recording == ([] if language == "browser" else ["ci"])


@pytest.mark.parametrize("language", ["node", "browser"])
def test_fixed_paths_answer_the_same_bytes(server: ServerHandle, language: str) -> None:
    """The literal path wins, and its bytes are those of the parameter; each answer may be kept for five minutes."""
    with server.client() as client:
        answers = [client.get(f"/v1/install/sdk/{language}") for _ in range(2)]
        index = checked(client.get("/v1/openapi.json?index=true"))["operations"]
    assert {answer.headers["cache-control"] for answer in answers} == {"public, max-age=300"}
    assert {answer.content for answer in answers} == {rendered(server.base_url, language)}
    paths = {operation["operation_id"]: operation["path"] for operation in index}
    assert paths[f"get_install_sdk_{language}"] == f"/v1/install/sdk/{language}"
    assert paths["get_install_sdk"] == "/v1/install/sdk/{language}"


@pytest.mark.parametrize("language", ["Node", "PYTHON", "perl", "node%20", "page", "record-deploy", "..%2fpage", "%00"])
def test_another_language_is_not_found(server: ServerHandle, language: str) -> None:
    """Names are exact; a file beside the snippets is no language; the answer has the standard envelope."""
    with server.client() as client:
        answer = client.get(f"/v1/install/sdk/{language}")
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert set(error) == ENVELOPE
    if "%" not in language:
        assert error["code"] == "sdk_language_not_found"
        assert error["details"] == {"languages": list(LANGUAGES)}


def test_a_credential_changes_nothing(server: ServerHandle) -> None:
    """Whoever asks, even with a wrong credential, gets the same bytes."""
    with server.client() as client:
        answer = client.get("/v1/install/sdk/ruby", headers=bearer("service_sk_wrong"))
        head = client.head("/v1/install/sdk/ruby")
    assert (answer.status_code, head.status_code) == (200, 200)
    assert answer.content == rendered(server.base_url, "ruby")


def test_the_document_lists_the_languages(server: ServerHandle) -> None:
    """The schema document names the eleven values of the parameter, and the link of a snippet resolves."""
    with server.client() as client:
        document = checked(
            client.get("/v1/openapi.json", params={"path": "/v1/install/sdk/{language}", "method": "GET"})
        )
        link = read(server, "go")["docs_url"].removeprefix(server.base_url)
        linked = client.get(link)
    [parameter] = document["paths"]["/v1/install/sdk/{language}"]["get"]["parameters"]
    assert parameter["schema"] == {"type": "string", "enum": list(LANGUAGES)}
    assert linked.status_code == 200
    assert "/v1/install/sdk/" in linked.text
