"""Plain words where people meet the service: pages, messages, settings and command help (CONTRIBUTING, Words)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from schemas.kernel.errors import CATALOGUE
from scripts.pages.reference import command_line
from service.http.app import schema_documents
from service.settings import settings_table

ROOT = Path(__file__).parents[2]
ROOMS = ("service", "statemachines", "projections", "schemas")
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")),
    *(page for part in ("tutorial", "how-to", "explanation") for page in sorted((ROOT / "docs" / part).glob("*.md"))),
    *sorted((ROOT / "service" / "discovery" / "texts").rglob("*.*")),
]
WORST = re.compile(
    r"nobody's word|whether anybody|as may (?:run )?at once|has to be done|(?:has|have) to be at (?:least|most)"
    r"|what became of|what is new|what was too new|takes? a DSN only|who asks|whoever|whatever is|goes on by itself"
    r"|in the place of|is to be had|may do nothing else|stands? behind|turns by itself|not looked at again"
    r"|has moved on|the wish still|are taken in|is taken apart|so long an|out of attention|gave it up"
    r"|\bhas to (?:be|equal|name|fire)\b"
    r"|is no (?:archive|page|member|source map|text)\b|sign of life|could be had|cannot be had",
    re.IGNORECASE,
)


@cache
def schema() -> dict[str, Any]:
    return schema_documents().at("http://127.0.0.1")


def said() -> Iterator[tuple[str, str]]:
    """Every text, by where it stands."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        yield page.name, text.partition("## Words")[0] + text.partition("tests/docs/test_words.py")[2]
    for code, error in CATALOGUE.items():
        for text in error.texts:
            yield code, f"{text.message} {text.next_action}"
    yield from sentences()
    yield "settings", settings_table()
    yield "command line", command_line()
    yield from described(schema())


def sentences() -> Iterator[tuple[str, str]]:
    """Every text of three words or more in the code, docstrings aside: messages, advice, help and lines of output."""
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            tree = ast.parse(file.read_text(encoding="utf-8"))
            stated = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
            for node in ast.walk(tree):
                match node:
                    case ast.Constant(value=str(text)) if id(node) not in stated and text.count(" ") >= 2:
                        yield f"{file.relative_to(ROOT)}:{node.lineno}", text


def described(part: object, place: str = "schema") -> Iterator[tuple[str, str]]:
    """Every summary and description of an API schema, by the key above it."""
    match part:
        case dict():
            for key, value in part.items():
                if key == "example":
                    continue  # an answer of the service, whose texts are those of the code
                if key in {"summary", "description"} and isinstance(value, str):
                    yield place, value
                else:
                    yield from described(value, key)
        case list():
            for item in part:
                yield from described(item, place)


def test_the_worst_phrases_stay_out() -> None:
    assert [(place, found[0]) for place, text in said() for found in WORST.finditer(text)] == []


@pytest.mark.parametrize("phrase", ["Unset: nobody's word is.", "As many back-tests run as may run at once."])
def test_they_are_known(phrase: str) -> None:
    assert WORST.search(phrase)


def test_the_schema_names_things() -> None:
    """Summaries and descriptions begin with a noun or a verb: "The result of …", never "What became of …"."""
    asked = [text for _, text in described(schema()) if re.match(r"(What|Who|Whether|Where|Why|Which|How)\b", text)]
    assert asked == []
    assert [text for _, text in described(schema()) if ";" in text] == []


def test_messages_are_short_sentences() -> None:
    """One thought a sentence: nothing is strung together with a semicolon."""
    strung = [
        code for code, error in CATALOGUE.items() for text in error.texts if ";" in f"{text.message} {text.next_action}"
    ]
    assert strung == []
