"""The programs for Go, PHP and Java on the page about SDKs of Sentry.

Go runs with the SDK of Debian. No SDK for PHP or Java is to be had here: their programs run on a stand-in of the few
calls that they make, and an envelope that such an SDK sends is a case.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.clients.test_how_to import Shop, section, variables
from tests.foreign.test_frameworks import GOPATH
from tests.support.sentry import of_event
from tests.support.server import ServerHandle
from tests.support.snippets.programs import needed, run

pytestmark = pytest.mark.foreign

DSN = "http://service_dsn_a@127.0.0.1:8000/17"
PHP = """<?php
namespace Sentry;

function init(array $options): void {
    echo json_encode(['init' => $options]), "\\n";
}

function captureException(\\Throwable $error): void {
    echo json_encode(['error' => get_class($error), 'message' => $error->getMessage()]), "\\n";
}
"""
JAVA = {
    "Sentry": """package io.sentry;

public final class Sentry {
    public interface OptionsConfiguration<T extends SentryOptions> { void configure(T options); }
    public static void init(OptionsConfiguration<SentryOptions> told) {
        SentryOptions options = new SentryOptions();
        told.configure(options);
        System.out.println(options.dsn + " " + options.release);
    }
    public static void captureException(Throwable error) { System.out.println(error); }
    public static void close() { System.out.println("closed"); }
}
""",
    "SentryOptions": """package io.sentry;

public class SentryOptions {
    String dsn;
    String release;
    public void setDsn(String dsn) { this.dsn = dsn; }
    public void setRelease(String release) { this.release = release; }
}
""",
}


def test_go(server: ServerHandle, tmp_path: Path) -> None:
    """With Debian's golang-github-getsentry-sentry-go-dev."""
    needed("go", "golang-go and golang-github-getsentry-sentry-go-dev")
    (tmp_path / "main.go").write_text(section("sentry", "Go"), encoding="utf-8")
    packages = {"GO111MODULE": "off", "GOPATH": GOPATH, "GOCACHE": str(tmp_path / "cache"), "GOFLAGS": ""}
    run(tmp_path, "go", "build", "-o", "report", **packages)
    with server.client() as client:
        shop = Shop(client, server)
        run(tmp_path, "./report", **variables(shop.project["sdks"]))
        assert shop.titles() == ["*errors.errorString: Payment 17 failed"]


def test_php(tmp_path: Path) -> None:
    """It gives the SDK the DSN and the release, and then the exception."""
    needed("php", "php-cli")
    (tmp_path / "vendor").mkdir()
    (tmp_path / "vendor" / "autoload.php").write_text(PHP, encoding="utf-8")
    (tmp_path / "report.php").write_text(section("sentry", "PHP"), encoding="utf-8")
    said = run(tmp_path, "php", "report.php", SENTRY_DSN=DSN)
    assert [json.loads(line) for line in said.splitlines()] == [
        {"init": {"dsn": DSN, "release": "shop@1.2.3"}},
        {"error": "RuntimeException", "message": "Payment 17 failed"},
    ]


def test_java(tmp_path: Path) -> None:
    """The same, and it closes the SDK, which sends what waits."""
    needed("javac", "default-jdk-headless")
    (tmp_path / "io" / "sentry").mkdir(parents=True)
    for name, source in JAVA.items():
        (tmp_path / "io" / "sentry" / f"{name}.java").write_text(source, encoding="utf-8")
    (tmp_path / "Report.java").write_text(section("sentry", "Java"), encoding="utf-8")
    run(tmp_path, "javac", "-Xlint:all", "-Werror", "--release", "11", "Report.java")
    assert run(tmp_path, "java", "Report", SENTRY_DSN=DSN).splitlines() == [
        f"{DSN} shop@1.2.3",
        "java.lang.IllegalStateException: Payment 17 failed",
        "closed",
    ]


@pytest.mark.parametrize(
    ("sdk", "platform", "kind", "module"),
    [
        ("sentry.php", "php", "RuntimeException", None),
        ("sentry.java", "java", "IllegalStateException", "java.lang"),
    ],
)
def test_an_envelope_of_such_an_sdk_is_a_case(
    server: ServerHandle, sdk: str, platform: str, kind: str, module: str | None
) -> None:
    """In the form that these SDKs document: the exception with its module, one frame, and the name of the SDK."""
    value: dict[str, Any] = {"type": kind, "value": "Payment 17 failed"}
    value |= {"module": module} if module else {}
    value["stacktrace"] = {"frames": [{"filename": "Report", "function": "main", "lineno": 9, "in_app": True}]}
    event = {
        "event_id": uuid.uuid4().hex,
        "platform": platform,
        "level": "error",
        "release": "shop@1.2.3",
        "sdk": {"name": sdk, "version": "8.0.0"},
        "exception": {"values": [value]},
    }
    with server.client() as client:
        shop = Shop(client, server)
        dsn = shop.project["sdks"]["sentry_dsn"]
        key, number = dsn.partition("://")[2].partition("@")[0], dsn.rpartition("/")[2]
        answer = client.post(
            f"/api/{number}/envelope/", params={"sentry_key": key, "sentry_version": "7"}, content=of_event(event)
        )
        assert answer.status_code == 200, answer.text
        assert shop.titles() == [f"{kind}: Payment 17 failed"]
