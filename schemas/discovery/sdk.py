"""Wire shapes of the snippets that report errors and events from a product (R-DISC-11, G-015)."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

Language = Literal["node", "browser", "python", "ruby", "go", "php", "java", "dotnet", "rust", "elixir", "curl"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

Place = Literal["server", "browser", "ci"]
"""The environment that a variable is set in, or that a file belongs to."""


class SdkPackage(msgspec.Struct, frozen=True):
    """The package that the snippet needs beside the standard library."""

    manager: str
    name: str


class SdkFile(msgspec.Struct, frozen=True):
    """A further file for the product's repository. `where` is the environment that runs it."""

    path: str
    contents: str
    where: Place


class SdkVariable(msgspec.Struct, frozen=True):
    """An environment variable. `secret` tells whether its value must stay hidden."""

    name: str
    secret: bool
    where: Place


class SdkSnippet(msgspec.Struct, frozen=True):
    """A program for one language. It reports one error and one event, and retries a 429 within bounds.

    `package` and `install_command` are null where the standard library is enough.
    """

    language: Language
    title: str
    package: SdkPackage | None
    install_command: str | None
    snippet: str
    files: list[SdkFile]
    env_vars: list[SdkVariable]
    docs_url: str
    notes: list[str]
    next_action: str
