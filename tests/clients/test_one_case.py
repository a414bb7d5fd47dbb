"""The same exception is one case, whichever of three SDKs reports it: nineteen of Python, and nineteen of Node."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from service.packing import unpack
from tests.clients.test_generators import HERE, MODULES, SCRIPTS, pytestmark, run
from tests.support.accounts import create_project, sign_in
from tests.support.server import ServerHandle

__all__ = ["pytestmark"]

PROTOCOLS = ("sentry", "posthog", "otlp")
PROGRAMS: Mapping[str, Sequence[str | Path]] = {
    "python": (SCRIPTS / "python", HERE / "src" / "exceptions.py"),
    "node": ("node", HERE / "src" / "exceptions.cjs"),
}


class Told(NamedTuple):
    """A record of an exception: the case that it is in, and what is stored of it."""

    case: str
    message: str
    exception: Mapping[str, Any]

    @property
    def deciding(self) -> tuple[Any, ...]:
        """What grouping looks at beside the message: the type and the innermost frame of the product's own."""
        own = (frame for frame in self.exception["frames"] if frame["in_app"])
        first = next(own, {})
        return self.exception["type"], first.get("file"), first.get("function")


def stored(server: ServerHandle, project_id: str) -> dict[str, dict[str, Told]]:
    """What is stored of each exception, by the protocol that it came by."""
    assert server.database_url is not None
    with psycopg.connect(server.database_url) as connection:
        rows = connection.execute(
            "select case_id, message, tags, extra, packed from log_events where project_id = %s", (project_id,)
        ).fetchall()
    found: dict[str, dict[str, Told]] = {}
    for case, message, tags, extra, packed in rows:
        kept = extra if packed is None else unpack(packed)
        which = tags.get("which") or kept["attributes"]["which"]
        protocol = kept.get("sdk", {}).get("protocol", "otlp")
        of_exception = found.setdefault(which, {})
        assert protocol not in of_exception, "each is stored once"
        of_exception[protocol] = Told(case, message, kept["exception"])
    return found


@pytest.fixture(scope="module", params=PROGRAMS)
def told(
    request: pytest.FixtureRequest, server: ServerHandle, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, dict[str, Told]]]:
    """What three SDKs told of the exceptions of a program."""
    name: str = request.param
    with server.client() as client:
        project = create_project(client, sign_in(client, server.internal_token, f"sdk-{uuid.uuid4().hex[:8]}"))
    said = run(
        tmp_path_factory.mktemp(name),
        *PROGRAMS[name],
        SENTRY_DSN=project["sdks"]["sentry_dsn"],
        POSTHOG_HOST=project["sdks"]["posthog_host"],
        POSTHOG_API_KEY=project["sdks"]["posthog_key"],
        OTEL_EXPORTER_OTLP_ENDPOINT=server.base_url,
        OTEL_EXPORTER_OTLP_HEADERS=f"authorization=Bearer%20{project['dsn']}",
        OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf",
        NODE_PATH=str(MODULES),
        NO_PROXY="127.0.0.1",
        no_proxy="127.0.0.1",
    )
    found = stored(server, project["id"])
    assert set(found) == set(said.strip().splitlines()[-1].split())
    return name, found


def test_three_sdks_tell_the_same_of_an_exception(told: tuple[str, dict[str, dict[str, Told]]]) -> None:
    """Its type, and the base file name and bare function of the innermost frame of the product's own."""
    _, found = told
    assert len(found) == 19
    assert {which: sorted(by) for which, by in found.items() if set(by) != set(PROTOCOLS)} == {}
    differing = {
        which: {protocol: by[protocol].deciding for protocol in PROTOCOLS}
        for which, by in found.items()
        if len({by[protocol].deciding for protocol in PROTOCOLS}) > 1
    }
    assert differing == {}
    assert all(by["otlp"].deciding[1] for by in found.values()), "each has a frame of its own"


def test_an_exception_is_one_case_whoever_reports_it(told: tuple[str, dict[str, dict[str, Told]]]) -> None:
    name, found = told
    apart = {
        which: {protocol: record.message[:200] for protocol, record in by.items()}
        for which, by in found.items()
        if len({record.case for record in by.values()}) > 1
    }
    print(f"{name}: {len(found) - len(apart)} of {len(found)} in one case")
    assert apart == {}
