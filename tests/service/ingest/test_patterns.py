"""Every regular expression that telemetry reaches takes linear time, or bounded text: none holds up a process (P25)."""

from __future__ import annotations

import importlib
import pkgutil
import re
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import service.cases
import service.ingest
from service.http.cases.intake import otlp_form as otlp
from service.http.cases.intake import several
from service.http.edge.body import adjusting
from service.http.edge.body import gate as body_gate
from service.http.edge.declare import forms
from service.ingest.foreign import common
from service.ingest.foreign.common import ForeignError, ForeignEvent, Frame
from service.ingest.grouping import templates
from service.ingest.scrub import scrubbing
from service.ingest.scrub.forms import SecretForm
from service.ingest.scrub.looking import EVERYTHING
from service.ingest.stacks import reading, trace

LARGEST = 1024 * 1024
"""Characters of the longest text of a record, however it came."""
CROSSED = 64 * 1024
SECONDS = 4
"""A linear search of the largest text takes some 50 ms, a quadratic one minutes."""

ROOMS = (service.ingest, service.cases)
EDGE = (adjusting, body_gate, forms, otlp, several)


class Worst(NamedTuple):
    """What is repeated to make the worst texts for a pattern, the most that it is given, and how it is asked."""

    units: tuple[str, ...]
    most: int = LARGEST
    ask: str = "finditer"


WORST: Mapping[str, Worst] = {
    "FORMS.basic": Worst(("basic ", "basic", "basic aaaaaa")),
    "FORMS.bearer": Worst(("bearer ", "bearer", "bearer" + " " * 9, "bearer aaaaaaaa=")),
    "FORMS.card_number": Worst(("4", "4000-", "4000 ", "3000 000000 ", "4" * 20 + "a")),
    "FORMS.chat_key": Worst(("xoxb-", "/webhooks/1", "hooks.slack.com/services/TAAAAAA/BAAAAAA/", "1:AA", "/bot1")),
    "FORMS.cloud_key": Worst(("AKIA", "sk-proj-", "AccountKey=", "ya29.", "sk-" + "a" * 39 + "_")),
    "FORMS.code_host_key": Worst(("ghp_", "github_pat_", "glpat-", "npm_aaaa")),
    "FORMS.jwt": Worst(("eyJ", "eyJ" + "a" * 13, "eyJaaaaaaaaaaaaa.", "eyJ.", "eyJaaaaaaaaaaaaa.aaaa.")),
    "FORMS.payment_key": Worst(("sk_live_", "whsec_", "sq0csp-", "whsec_" + "a" * 23 + " ")),
    "FORMS.private_key": Worst(
        ("-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "-", "-----BEGIN A")
    ),
    "FORMS.url_credentials": Worst(("://", "://a", ":", "://[scrubbed")),
    "adjusting._ODD_CHARACTERS": Worst(("a", "\x00")),
    "adjusting._STRINGS_AND_BRACKETS": Worst(('"', '"\\', "\\", '["')),
    "bundles._DEBUG_ID": Worst(("a", "a-", "0" * 8 + "-"), ask="fullmatch"),
    "chunks._ESCAPED": Worst(("\\",), 1024),
    "chunks._PARAMETER": Worst((";", ' ;a="', "; ", ';a="\\'), 1024),
    "names._ARGUMENTS": Worst(("a(", "(", ")", "a()", "a() const"), 500),
    "names._COMPILED": Worst((".cold", ".cold.1", ".", "."), 500),
    "names._CONTENT_HASH": Worst((".", "-", ".a", "-aaaaaaaa", "-0aaaaaaa", "a", "0")),
    "names._NAME_PREFIX": Worst(("async ", "new get ", "set", " ")),
    "names._NAME_SUFFIX": Worst((" [as ", " [as a", "[", " [as a] ")),
    "common._OF_LIBRARY": Worst(("/", "/lib", "/lib/python3", "lib/python3", "node:")),
    "names._TAIL": Worst(("?", "#", "a")),
    "evidence._DEFAULT": Worst(("{{ ", "{{ default "), ask="fullmatch"),
    "templates._DATE_IN_WORDS": Worst(("mon, ", "1 jan", "jan 1 ", "1 january ", "jan 1 10:00:00.1"), 8192),
    "templates._EMAIL": Worst(("a", "a@", "a@a.", ".", "a.a@"), 8192),
    "templates._IPV6": Worst((":", "0:", "a:", "0", "a"), 8192),
    "templates._QUOTED": Worst(("“", "‘", "„", "«", "‹", "「", "『", "“„"), 8192),
    "templates._URL": Worst(("a", "a://", "a://a", "a://a/", "://", "a+"), 8192),
    "templates._VARIABLE": Worst(('"', "'", "`", "0", "0x", "a", "1.", "aaaaaaaa-", "'a", " 'a"), 8192),
    "templates._VARIABLE_2": Worst(
        ('"', "'", "`", "0", "0x", "a", "1.", "aaaaaaaa-", "'a", " 'a", "+", "+1", "1e", "1e+1", "0000-", " 0a"), 8192
    ),
    "forms.ARRAY": Worst((" ", "\n"), ask="match"),
    "forms.MAY_BE_CARD": Worst(("4", "4000 ", "3000-000000", "2")),
    "forms._ISSUERS": Worst(("4", "6011"), ask="fullmatch"),
    "forms._JSON": Worst(("application/", "a+", "application/a+"), 8192, ask="fullmatch"),
    "frames._DEBUG_ID": Worst(("a", "a-"), ask="fullmatch"),
    "gate._INTEGER": Worst(("9", "-", "9.", "9" * 15 + "e", "-9")),
    "gate._NUL": Worst(("\\", "\\\\u000", "\\u0000")),
    "looking._ADDRESS": Worst(("://", "://a", ":", "://@")),
    "looking._ESCAPED_ASCII": Worst(("\\", "\\u00", "\\u")),
    "otlp_form.OTLP_JSON": Worst((" ", "{ "), ask="match"),
    "places._RUN_OF_DIGITS": Worst(("0", "0 ", "0" + " " * 12, "-", "0a")),
    "resolving._DRIVE": Worst(("a", "a:")),
    "resolving._SCHEME": Worst(("a", "a:", "a://"), ask="match"),
    "sentry_event._EVENT_ID": Worst(("0",), ask="fullmatch"),
    "surrogates._LONE": Worst(("\\", "\\u", "\\ud83c", "\\ud83c\\udf89", "\\ud8", "a")),
    "several._LINE": Worst(("a", "\n", " ")),
    "several._TOKENS": Worst(('"', "\\", '"\\', "[")),
    "reading._CAUSED": Worst(("\n", "\n\nThe above exception was the direct cause", "\n\n"), trace.MAX_READ),
    "reading._JAVA": Worst(("\n at a", "\n at a(", "\n at a/", " \t"), trace.MAX_READ),
    "reading._JAVASCRIPT": Worst(("\n at a", "\n at a (", ":1", "\n at " + ":1" * 400, "a:"), trace.MAX_READ),
    "reading._OF_JAVA": Worst(("java", "java."), 300),
    "reading._PYTHON": Worst(('\n  File "', '\n  File "a", line 1, in ' + "a" * 290, '  File "'), trace.MAX_READ),
}


def _modules() -> Iterator[ModuleType]:
    for room in ROOMS:
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            if not found.name.endswith(".trial"):  # a program, for a process of its own
                yield importlib.import_module(found.name)
    yield from EDGE


def _patterns() -> dict[str, re.Pattern[Any]]:
    """Every pattern of those modules by the module that made it, those of forms by their kinds."""
    found: dict[re.Pattern[Any], str] = {}
    for module in _modules():
        for name, value in vars(module).items():
            for held in value if isinstance(value, tuple) else (value,):
                if isinstance(held, re.Pattern):
                    found.setdefault(held, f"{module.__name__.rpartition('.')[2]}.{name}")
                elif isinstance(held, SecretForm):
                    found[held.pattern] = f"FORMS.{held.kind}"
                elif isinstance(held, forms.Form) and held.begins is not None:
                    found.setdefault(held.begins, f"{module.__name__.rpartition('.')[2]}.{name}")
    return {name: pattern for pattern, name in found.items()}


PATTERNS = _patterns()


@contextmanager
def in_time() -> Iterator[None]:
    """Give up on a search that does not end; the engine looks for signals while it searches."""

    def give_up(*_: object) -> None:
        pytest.fail("this takes more than linear time", pytrace=False)

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def search(pattern: re.Pattern[Any], text: str, ask: str) -> None:
    given = text.encode() if isinstance(pattern.pattern, bytes) else text
    if ask == "finditer":
        for _ in pattern.finditer(given):
            pass
    else:
        getattr(pattern, ask)(given)


def test_each_pattern_has_its_worst_texts() -> None:
    """A new pattern needs an entry above: somebody has to think of what its worst text is."""
    assert sorted(PATTERNS) == sorted(WORST)


@pytest.mark.parametrize("name", sorted(WORST))
def test_a_pattern_is_linear_in_its_worst_texts(name: str) -> None:
    worst = WORST[name]
    for unit in worst.units:
        with in_time():
            search(PATTERNS[name], (unit * worst.most)[: worst.most], worst.ask)


@pytest.mark.parametrize("name", sorted(name for name, worst in WORST.items() if worst.most > CROSSED))
def test_a_pattern_is_linear_in_the_worst_texts_of_the_others(name: str) -> None:
    for unit in sorted({unit for worst in WORST.values() for unit in worst.units}):
        with in_time():
            search(PATTERNS[name], (unit * CROSSED)[:CROSSED], WORST[name].ask)


UNITS = (
    " [as ",
    "a.",
    "/",
    "\\",
    "a/",
    "async ",
    "?",
    "-0aaaaaaa",
    "\n at a (",
    '"',
    "'",
    "eyJaaaaaaaaaaaaa.",
    "4000 ",
)


@pytest.mark.parametrize(
    "read",
    [
        lambda text: common.to_log(
            ForeignEvent("error", text, [ForeignError(text, text, [Frame(text, text, text, text, context_line=text)])])
        ),
        reading.frames_of,
        lambda text: templates.template_1(text[:8192]),
        lambda text: templates.template_2(text[:8192]),
        lambda text: scrubbing.Scrubber().tree({text[:1000]: text}, EVERYTHING, scrubbing.Findings()),
    ],
    ids=["to_log", "frames_of", "template_1", "template_2", "scrub"],
)
def test_what_reads_them_is_linear_too(read: Callable[[str], object]) -> None:
    for unit in UNITS:
        with in_time():
            read((unit * LARGEST)[:LARGEST])
