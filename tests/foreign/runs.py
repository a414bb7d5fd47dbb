"""Runs programs against a real server behind a front, side by side: they mostly wait for each other's seconds."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from tests.support.accounts import checked, create_project, sign_in
from tests.support.cluster import TestCluster
from tests.support.server import ServerHandle, running_server
from tests.support.snippets.front import Front, Post, fronting
from tests.support.snippets.programs import lay_out, run, trusting

Manner = Literal["taken", "marked", "refused once", "refused always", "not trusted", "without a DSN", "unanswered"]
SECONDS = 60
"""At most, from the start of a program to its end, on a busy machine."""
SIDE_BY_SIDE = 4
MARKER = "marker-of-a-proof"
"""The runtime marker of a program in the manner of that name."""


class Behind(NamedTuple):
    """A server behind a front, and the key of a person who reads what arrived."""

    server: ServerHandle
    front: Front
    key: str

    def project(self) -> dict[str, Any]:
        """A project of its own."""
        with self.server.client() as client:
            return create_project(client, self.key, f"snippet-{uuid.uuid4().hex[:8]}")

    def snippet(self, language: str) -> dict[str, Any]:
        """The answer for a language."""
        with self.server.client() as client:
            return checked(client.get(f"/v1/install/sdk/{language}"))

    def arrived(self, project_id: str) -> tuple[list[str], dict[str, int]]:
        """The titles of the cases, and how often each event came, as the interface tells."""
        with self.server.client(self.key) as client:
            cases = checked(client.get(f"/v1/projects/{project_id}/cases"))["cases"]
            events = checked(client.get(f"/v1/projects/{project_id}/event-names"))["analytics_events"]
        return [case["title"] for case in cases], {event["event"]: event["row_count"] for event in events}

    def latest(self, project_id: str) -> dict[str, Any]:
        """The latest error of the one case."""
        with self.server.client(self.key) as client:
            [case] = checked(client.get(f"/v1/projects/{project_id}/cases"))["cases"]
            [event] = checked(client.get(f"/v1/cases/{case['id']}/events"))["events"]
        return dict(event)


class Ran(NamedTuple):
    """A program that has ended by itself, with what it said and what came of it."""

    project_id: str
    said: str
    seconds: float
    posts: Sequence[Post]


@contextmanager
def serving(folder: Path, cluster: TestCluster) -> Iterator[Behind]:
    """Run a server that calls itself by the address of its front."""
    with fronting(folder) as front, running_server(folder, cluster, {"SERVICE_BASE_URL": front.base_url}) as server:
        front.upstream = server.port
        with server.client() as client:
            key = sign_in(client, server.internal_token, f"snippets-{uuid.uuid4().hex[:8]}")
        yield Behind(server, front, key)


@contextmanager
def running(
    behind: Behind, folder: Path, languages: Sequence[str], manners: Sequence[Manner]
) -> Iterator[Mapping[tuple[str, Manner], Future[Ran]]]:
    """Compile and run the program of each language in each manner; one future for each."""
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        laid_out = {language: pool.submit(_lay_out, behind, folder / language, language) for language in languages}
        wait(laid_out.values())  # a program gives its requests five seconds: no compiler takes them away
        yield {
            (language, manner): pool.submit(_run, behind, folder / language, laid_out[language], manner)
            for language in languages
            for manner in manners
        }


def _lay_out(behind: Behind, folder: Path, language: str) -> Any:
    folder.mkdir()
    return lay_out(folder, language, behind.snippet(language)["snippet"], behind.front.ca)


def _run(behind: Behind, folder: Path, laid_out: Future[Any], manner: Manner) -> Ran:
    toolchain = laid_out.result()
    project = behind.project()
    dsn = project["dsn"]
    variables = {} if manner == "not trusted" else trusting(toolchain, folder, behind.front.ca)
    if manner == "refused once":
        behind.front.refuse(dsn, 1)
    elif manner == "marked":
        variables["SERVICE_ONBOARDING_PROOF"] = MARKER
    elif manner == "refused always":
        behind.front.refuse(dsn)
    elif manner == "unanswered":
        behind.front.silent.add(dsn)
    began = time.monotonic()
    said = run(
        folder, *toolchain.run, seconds=SECONDS, SERVICE_DSN="" if manner == "without a DSN" else dsn, **variables
    )
    seconds = time.monotonic() - began
    return Ran(project["id"], said, seconds, list(behind.front.posts[dsn]))
