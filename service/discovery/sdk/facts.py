"""Facts beside the text of each snippet: its title, its file, its package, and notes for the reader."""

from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import resources
from typing import NamedTuple

import msgspec

from schemas.discovery import LANGUAGES, Language, SdkFile, SdkPackage, SdkSnippet, SdkVariable
from statemachines.kernel.machine import Rejection

DSN_ON_SERVER = SdkVariable("SERVICE_DSN", secret=True, where="server")
DSN_IN_BROWSER = SdkVariable("SERVICE_DSN", secret=False, where="browser")
MARKER_ON_SERVER = SdkVariable("SERVICE_ONBOARDING_PROOF", secret=True, where="server")
MARKER_IN_CI = SdkVariable("SERVICE_ONBOARDING_PROOF", secret=True, where="ci")
PROJECT_IN_CI = SdkVariable("SERVICE_PROJECT_ID", secret=False, where="ci")
CI_KEY = SdkVariable("SERVICE_CI_API_KEY", secret=True, where="ci")

_BACKGROUND = (
    "Reports are sent in the background, at most 100 wait in memory, and more are dropped. A request takes at most 5 "
    "seconds."
)
_RETRIES = (
    "After a 429 or a 503 the snippet waits for the seconds in Retry-After, at most 30, and sends the report again. It "
    "sends a report at most three times, then drops it without an error."
)
_EXIT = "At its end, the program waits at most 10 seconds for reports."
_MARKER = (
    "While a proof of the onboarding is open, set SERVICE_ONBOARDING_PROOF to its runtime marker, and each report has "
    "it. Unset it afterwards."
)
_NO_VARIABLE = "Without SERVICE_DSN the snippet reports nothing."
_MARKER_IN_PAGE = (
    "While a proof of the onboarding is open, set the session storage item service_onboarding_proof to its runtime "
    "marker, and each report has it. Never put it into the bundle."
)
_PUBLIC = (
    "Use the public DSN of the project: anybody can send reports with it, and read nothing. Put no other credential of "
    "this service into a page."
)
_AFTER_SCRIPT = (
    "Reports are sent when the script has ended: under FPM your visitor has the whole answer by then. At most 50 are "
    "kept, and more are dropped."
)
_WITHIN_SCRIPT = (
    "After a 429 or a 503 the snippet waits for the seconds in Retry-After, and sends the report again. It sends a "
    "report at most three times, and spends at most 15 seconds on all reports of a request."
)
_USUAL = (_BACKGROUND, _RETRIES, _EXIT, _NO_VARIABLE, _MARKER)


class LanguageFacts(NamedTuple):
    """Facts of one language. `file` is the name to save the snippet by."""

    title: str
    file: str
    notes: tuple[str, ...]
    package: SdkPackage | None = None
    install_command: str | None = None


FACTS: Mapping[Language, LanguageFacts] = {
    "node": LanguageFacts(
        "Node.js 18 and later, with fetch",
        "service-reports.mjs",
        (_BACKGROUND, _RETRIES, "Call flush() before process.exit(), or reports are lost.", _NO_VARIABLE, _MARKER),
    ),
    "browser": LanguageFacts(
        "Browsers, with fetch and sendBeacon",
        "service-reports.js",
        (
            _PUBLIC,
            "At most 30 reports wait in memory, and more are dropped. A request takes at most 5 seconds.",
            _RETRIES,
            "A page that is closed hands reports that have not been sent to sendBeacon.",
            "Without window.SERVICE_DSN the snippet reports nothing.",
            _MARKER_IN_PAGE,
        ),
    ),
    "python": LanguageFacts("Python 3.8 and later, with urllib", "service_reports.py", _USUAL),
    "ruby": LanguageFacts("Ruby 2.7 and later, with net/http", "service_reports.rb", _USUAL),
    "go": LanguageFacts(
        "Go 1.19 and later, with net/http",
        "main.go",
        (_BACKGROUND, _RETRIES, "Call Flush before the program ends, or reports are lost.", _NO_VARIABLE, _MARKER),
    ),
    "php": LanguageFacts(
        "PHP 8.0 and later, with ext-curl",
        "ServiceReports.php",
        (
            _AFTER_SCRIPT,
            _WITHIN_SCRIPT,
            _NO_VARIABLE,
            _MARKER,
        ),
        SdkPackage("composer", "ext-curl"),
        "composer require ext-curl",
    ),
    "java": LanguageFacts("Java 11 and later, with java.net.http", "ServiceReports.java", _USUAL),
    "dotnet": LanguageFacts("C# on .NET 6 and later, with HttpClient", "Program.cs", _USUAL),
    "rust": LanguageFacts(
        "Rust 1.63 and later, with ureq",
        "src/main.rs",
        (
            _BACKGROUND,
            _RETRIES,
            "Call flush before the program ends, or reports are lost.",
            _NO_VARIABLE,
            _MARKER,
        ),
        SdkPackage("cargo", "ureq"),
        "cargo add ureq@2 --features native-certs && cargo add serde_json@1",
    ),
    "elixir": LanguageFacts(
        "Elixir 1.13 and later on OTP 25, with httpc",
        "service_reports.exs",
        (
            _BACKGROUND,
            _RETRIES,
            "In an application, put ServiceReports into the supervision tree and leave out the lines after the module.",
            "Call ServiceReports.flush before a script ends, or reports are lost.",
            _NO_VARIABLE,
            _MARKER,
        ),
    ),
    "curl": LanguageFacts(
        "Shell scripts, with curl 7.71 and later",
        "service-reports.sh",
        (
            "A report is sent in the foreground. A request takes at most 5 seconds, two retries at most 30 more.",
            "curl waits for the seconds in Retry-After before each retry. The script goes on when a report is lost.",
            _NO_VARIABLE,
            _MARKER,
        ),
    ),
}
"""One entry for each language of the path parameter."""


# The snippet of a language on the wire, with the address of this service in it (R-DISC-11, G-015).

ADDRESS = "{base_url}"
"""Stands in a text for the service's own address."""

_WAY_NOTE = (
    "A product that reports to an analytics provider keeps that provider's official SDK, and needs no snippet: "
    "{base_url}/install.md#choose-a-way shows that way first. The snippet is for the other way, with the DSN."
)
_ON_SERVER_AND_IN_CI = (DSN_ON_SERVER, MARKER_ON_SERVER, PROJECT_IN_CI, CI_KEY, MARKER_IN_CI)
_CI_NOTE = (
    "record-deploy.sh is for the CI job that deploys: run it once, after a deploy has succeeded. Never call it from "
    "your product. A bound workflow of GitHub Actions or GitLab CI exchanges the token of its job, and stores no "
    "SERVICE_CI_API_KEY."
)


class SdkLanguageNotFound(Rejection):
    """No snippet is written in this language."""

    code = "sdk_language_not_found"


@lru_cache(maxsize=4 * len(LANGUAGES))
def rendered(base_url: str, language: str) -> bytes:
    """The answer for a language as JSON, the same bytes each time. Raises SdkLanguageNotFound."""
    for known in LANGUAGES:
        if known == language:
            return msgspec.json.encode(_snippet(base_url, known))
    raise SdkLanguageNotFound("There is no snippet for this language.", languages=list(LANGUAGES))


def _snippet(base_url: str, language: Language) -> SdkSnippet:
    facts = FACTS[language]
    in_browser = language == "browser"
    saved = f"Save the snippet as {facts.file}."
    notes = [_WAY_NOTE.replace(ADDRESS, base_url), saved, *facts.notes]
    return SdkSnippet(
        language=language,
        title=facts.title,
        package=facts.package,
        install_command=facts.install_command,
        snippet=_text(base_url, language),
        files=[_page(base_url) if in_browser else _deploying(base_url)],
        env_vars=[DSN_IN_BROWSER] if in_browser else list(_ON_SERVER_AND_IN_CI),
        docs_url=f"{base_url}/install.md",
        notes=notes if in_browser else [*notes, _CI_NOTE],
        next_action=(
            f"Set SERVICE_DSN to the project's {'public DSN' if in_browser else 'DSN'} and run the snippet. Then list "
            "the project's cases and event names: both reports are there."
        ),
    )


def _page(base_url: str) -> SdkFile:
    return SdkFile("service-reports.html", _text(base_url, "page"), where="browser")


def _deploying(base_url: str) -> SdkFile:
    return SdkFile("record-deploy.sh", _text(base_url, "record-deploy"), where="ci")


def _text(base_url: str, name: str) -> str:
    return _stored(name).replace(ADDRESS, base_url)


@cache
def _stored(name: str) -> str:
    return resources.files(__package__).joinpath("texts", f"{name}.txt").read_text(encoding="utf-8")
