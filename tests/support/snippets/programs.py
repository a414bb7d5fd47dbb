"""How the program of each language is laid out, compiled, run, and told which authority to trust."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.server import clean_environment

ROOT = Path(__file__).parents[3]
COMPILE_SECONDS = 240
CARGO_TOML = """[package]
name = "try"
version = "0.1.0"
edition = "2021"

[dependencies]
ureq = { version = "2", features = ["native-certs"] }
serde_json = "1"
"""
CARGO_CONFIG = """[source.crates-io]
replace-with = "debian"

[source.debian]
directory = "/usr/share/cargo/registry"
"""


class Needed(NamedTuple):
    """A program of the system and the Debian package that has it."""

    program: str
    package: str


class Toolchain(NamedTuple):
    """What a language needs here. Commands run in the folder of the program; `{ca}` is the authority's file."""

    file: str
    run: tuple[str, ...]
    needs: tuple[Needed, ...] = ()
    compile: tuple[tuple[str, ...], ...] = ()
    trusting: Mapping[str, str] = {}
    prepare: Callable[[Path, Path], None] | None = None


def _php(folder: Path, ca: Path) -> None:
    (folder / "ini").mkdir()
    (folder / "ini" / "ca.ini").write_text(f"curl.cainfo={ca}\n")


def _java(folder: Path, ca: Path) -> None:
    run(folder, "keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", str(ca), *_STORE)


_STORE = ("-keystore", "ca.p12", "-storetype", "PKCS12", "-storepass", "changeit")


def _cargo(folder: Path, _: Path) -> None:
    (folder / "Cargo.toml").write_text(CARGO_TOML)
    (folder / ".cargo").mkdir()
    (folder / ".cargo" / "config.toml").write_text(CARGO_CONFIG)


def _mono(folder: Path, ca: Path) -> None:
    """Mono has no variable for an authority, but a store below the home of the user."""
    run(folder, "cert-sync", "--user", "--quiet", str(ca), HOME=str(folder))


def node() -> str:
    """The Node of `make clients`, else that of the system."""
    packed = ROOT / ".clients" / "venv" / "bin" / "node"
    return str(packed) if packed.exists() else "node"


TOOLCHAINS: Mapping[str, Toolchain] = {
    "node": Toolchain("service-reports.mjs", (node(), "service-reports.mjs"), trusting={"NODE_EXTRA_CA_CERTS": "{ca}"}),
    "python": Toolchain(
        "service_reports.py",
        ("python3", "service_reports.py"),
        (Needed("python3", "python3"),),
        trusting={"SSL_CERT_FILE": "{ca}"},
    ),
    "ruby": Toolchain(
        "service_reports.rb",
        ("ruby", "-w", "service_reports.rb"),
        (Needed("ruby", "ruby"),),
        trusting={"SSL_CERT_FILE": "{ca}"},
    ),
    "php": Toolchain(
        "ServiceReports.php",
        ("php", "ServiceReports.php"),
        (Needed("php", "php-cli, with php-curl"),),
        trusting={"PHP_INI_SCAN_DIR": ":{folder}/ini"},
        prepare=_php,
    ),
    "curl": Toolchain(
        "service-reports.sh",
        ("sh", "service-reports.sh"),
        (Needed("curl", "curl"),),
        trusting={"CURL_CA_BUNDLE": "{ca}"},
    ),
    "go": Toolchain(
        "main.go",
        ("./main",),
        (Needed("go", "golang-go"),),
        (("go", "vet", "main.go"), ("go", "build", "main.go")),
        {"SSL_CERT_FILE": "{ca}"},
    ),
    "java": Toolchain(
        "ServiceReports.java",
        ("java", "ServiceReports"),
        (Needed("javac", "default-jdk-headless"),),
        (("javac", "-Xlint:all", "-Werror", "--release", "11", "ServiceReports.java"),),
        {"JDK_JAVA_OPTIONS": "-Djavax.net.ssl.trustStore={folder}/ca.p12 -Djavax.net.ssl.trustStorePassword=changeit"},
        _java,
    ),
    "rust": Toolchain(
        "src/main.rs",
        ("target/debug/try",),
        (Needed("cargo", "rustc, cargo, librust-ureq-dev and librust-serde-json-dev"),),
        (("cargo", "build", "--offline", "--quiet"),),
        {"SSL_CERT_FILE": "{ca}"},
        _cargo,
    ),
    "elixir": Toolchain(
        "service_reports.exs",
        ("elixir", "service_reports.exs"),
        (Needed("elixir", "elixir"),),
        trusting={"ELIXIR_ERL_OPTIONS": '-eval public_key:cacerts_load("{ca}")'},
    ),
    "dotnet": Toolchain(
        "Program.cs",
        ("mono", "Program.exe"),
        (Needed("mcs", "mono-mcs"), Needed("cert-sync", "ca-certificates-mono")),
        (("mcs", "-warnaserror", "-r:System.Net.Http.dll", "Program.cs"),),
        {"HOME": "{folder}"},
        _mono,
    ),
}
"""Every language but the browser, which has a page instead of a program."""
NOT_AS_READERS: Mapping[str, str] = {
    "dotnet": "Debian, PyPI and npm have no SDK of .NET 6 or later; Mono compiles and runs it.",
}
"""Languages that are run by something else than the title of their snippet names."""


def needed(program: str, package: str) -> str:
    """The path of a program. Fails without it, but where .ci/run says that nothing can be installed."""
    found = shutil.which(program)
    if found is None:
        reason = f"{program} is not installed (Debian package {package})"
        if os.environ.get("CI") == "false":
            pytest.skip(reason)
        pytest.fail(reason)
    return found


def run(folder: Path, *command: str, seconds: float = COMPILE_SECONDS, **environment: str) -> str:
    """Run a command in a folder; returns its words. Fails with all of them unless it ends well and in time."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout + done.stderr


def lay_out(folder: Path, language: str, snippet: str, ca: Path) -> Toolchain:
    """Write the snippet into a folder as its notes say, and compile it. Fails without the toolchain."""
    toolchain = TOOLCHAINS[language]
    for program, package in toolchain.needs:
        needed(program, package)
    file = folder / toolchain.file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(snippet, encoding="utf-8")
    if toolchain.prepare is not None:
        toolchain.prepare(folder, ca)
    for command in toolchain.compile:
        run(folder, *command)
    return toolchain


def trusting(toolchain: Toolchain, folder: Path, ca: Path) -> dict[str, str]:
    """The variables by which a program trusts the authority."""
    return {name: value.format(ca=ca, folder=folder) for name, value in toolchain.trusting.items()}
