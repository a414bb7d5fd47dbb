"""No text of ours installs a package of strangers: pages, recipes, guides, snippets, messages and files of deploy/."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXTS = {".md", ".py", ".html", ".yml", ".yaml", ".toml", ".json", ".sh", ".mjs", ".js", ".txt", ".service", ""}
TRUSTED = {
    "pip": {
        "sentry-sdk",
        "posthog",
        "opentelemetry-sdk",
        "opentelemetry-exporter-otlp-proto-http",
        "cryptography",
        "fencework-core",  # with an extra, where the core is installed: pip takes the extra alone
    },
    "npm": {"@sentry/node", "@sentry/nextjs", "@sentry/browser", "posthog-node", "posthog-js"},
    "apk": {"curl", "jq"},
    "apt-get": {"nodejs", "etcd-server", "python3-venv", "make", "git"},
    "go": {"github.com/getsentry/sentry-go"},
    "composer": {"ext-curl", "sentry/sentry"},
    "cargo": {"ureq", "serde_json"},
}
"""Packages that belong to those whose name we use. The names `service` and `service-runner` belong to strangers."""
VERBS = {
    "pip3?": "install",
    "pipx": "install|run",
    "uv": "pip install|tool install|add",
    "npm": "install|i|ci|add|exec",
    "(?:yarn|pnpm)": "add|dlx",
    "(?:uvx|npx)": "",
    "gem": "install",
    "go": "get|install",
    "apk": "add",
    "apt(?:-get)?": "install",
    "composer": "require",
    "cargo": "add|install",
    "brew": "install",
    "docker": "run|pull",
}
"""Commands that fetch a package by its name."""
STARTS = re.compile(
    "|".join(rf"(?<![\w./-])(?:{tool}) {f'(?:{verbs}) ' if verbs else ''}" for tool, verbs in VERBS.items())
)
END = re.compile(r"[`|;)}]|(?<!\w)\]|(?<=\w)\](?=$|,)|&&| #|\\\\n|(?<=[a-z'\"])[.,:](?: |$)")
"""Where the arguments end: at another command, at the end of a code span, or at that of a sentence."""
RUNNERS = {"npx", "uvx", "docker"}
"""Of their words, the first names the package; the others are for its program."""
VALUED = {"-r", "--requirement", "-c", "--constraint", "-e", "--editable", "--features", "-d", "--index-url"}
"""Options that take the next word. Of these, none names a package of a registry."""
LOCAL = re.compile(r"^(\.|/|\$|\{|git\+https://git\.example/)")
"""A path, a variable that the reader sets, or an address that is an example."""


def texts() -> Iterator[Path]:
    """Every file of ours that a person or a program may read an install line from. The tests are none."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if name.split("/")[0] not in {"tests", "requirements"} and path.suffix in TEXTS and path.is_file():
            yield path


def installed(line: str) -> Iterator[tuple[str, str]]:
    """The packages that a line of text installs, each with its tool."""
    for start in STARTS.finditer(line):
        command = re.split(END, line[start.end() :])[0]
        try:
            words = shlex.split(command)
        except ValueError:
            words = command.replace("'", " ").replace('"', " ").split()
        values = {words[at + 1] for at, word in enumerate(words[:-1]) if word in VALUED}
        named = [word for word in words if not word.startswith("-") and word not in values]
        tool = start[0].split()[0].rstrip("3")
        yield from ((tool, word) for word in (named[:1] if tool in RUNNERS else named))


def bare(tool: str, word: str) -> str:
    """The name of a package without its version and extras."""
    name = re.split(r"[=<>~!\[]", word.strip("'\"."))[0]
    return name[0] + name[1:].partition("@")[0] if tool in {"npm", "cargo", "go"} else name


def strangers(text: str) -> list[str]:
    """The packages of a text that are not trusted, with their tools."""
    found = []
    for line in text.splitlines():
        for tool, word in installed(line):
            if not LOCAL.match(word) and bare(tool, word) not in TRUSTED.get(tool, set()):
                found.append(f"{tool} {word}")
    return found


def test_every_install_line_names_packages_that_are_known() -> None:
    """Each install line of every text installs from a path, from a variable, or a package of the list above."""
    found = {
        str(path.relative_to(ROOT)): names
        for path in texts()
        if (names := strangers(path.read_text(encoding="utf-8", errors="replace")))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("- run: pip install service && service-runner --project", ["pip service"]),
        ("    - pip install service", ["pip service"]),
        ("`pip install 'service[testing]'`", ["pip service[testing]"]),
        ("pip install --quiet -r requirements.txt service-runner==1.0", ["pip service-runner==1.0"]),
        ("pipx install service", ["pipx service"]),
        ("uv pip install service", ["uv service"]),
        ("npm i -g service-runner", ["npm service-runner"]),
        ("npx service-runner --project P", ["npx service-runner"]),
        ("docker run service:latest", ["docker service:latest"]),
        ("cargo add ureq@2 --features native-certs && cargo add serde_json@1", []),
        ("In Python, `pip install sentry-sdk`. The SDK", []),
        ("pip install '.[testing]'", []),
        ('pip install --no-deps "$PACKAGE"', []),
        ("npm ci --no-fund --no-audit --ignore-scripts", []),
    ],
)
def test_a_stranger_is_found(text: str, named: list[str]) -> None:
    """The reader of install lines sees the packages that people would install."""
    assert strangers(text) == named
