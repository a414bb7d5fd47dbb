"""The snippet of a language on the wire, with the address of this service in it (R-DISC-11, G-015)."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib import resources

import msgspec

from schemas.discovery import LANGUAGES, Language, SdkFile, SdkSnippet
from service.discovery.sdk.facts import CI_KEY, DSN_IN_BROWSER, DSN_ON_SERVER, FACTS, MARKER_IN_CI, MARKER_ON_SERVER
from statemachines.kernel.machine import Rejection

ADDRESS = "{base_url}"
"""Stands in a text for the service's own address."""

_WAY_NOTE = (
    "A product that reports to an analytics provider keeps that provider's official SDK, and needs no snippet: "
    "{base_url}/install.md#choose-a-way shows that way first. The snippet is for the other way, with the DSN."
)
_CI_NOTE = (
    "record-deploy.sh is for the CI job that deploys: run it once, after a deploy has succeeded. Never call it from "
    "your product."
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
        env_vars=[DSN_IN_BROWSER] if in_browser else [DSN_ON_SERVER, MARKER_ON_SERVER, CI_KEY, MARKER_IN_CI],
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
