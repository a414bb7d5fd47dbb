"""Texts of others as code: a request as a command for curl, and lines of source in colours."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup, escape

from service.console.kit.texts import spend

# A request as a command. Its telemetry is hostile, and a person pastes it into a shell. So each text of others is one
# quoted word without a control character, no word is read as an option or as the name of a file, and curl asks no
# other scheme than those of the web.

Json = Mapping[str, Any]
MOST_BODY = 16_384
"""Characters of a body in a command. A longer one is left out."""
MOST_HEADERS = 60
_WEB = re.compile(r"https?://[^/?#\s]", re.IGNORECASE)
_TOKEN = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_METHOD = re.compile(r"[A-Z]{1,20}")
_PLAIN = re.compile(r"[A-Za-z0-9 _@%+=:,./?&#<>()\[\]{}|;~^*$\"`-]*")
_OF_CONNECTION = frozenset(
    {"host", "content-length", "connection", "accept-encoding", "transfer-encoding", "te", "trailer", "upgrade"}
)
"""Headers that curl makes itself."""


class CurlCommand(NamedTuple):
    """A command, and whether the body was left out for its length."""

    text: str
    bodiless: bool


def curl(request: Json) -> CurlCommand | None:
    """The request of an error as a command. None for an address that is none of the web.

    What was hidden before the error was stored stays hidden: the command has what is stored and nothing else.
    """
    address = request.get("url")
    if not isinstance(address, str) or _WEB.match(address) is None:
        return None
    body = _body(request.get("data"))
    parts = [address, *(value for pair in _pairs(request.get("headers")) for value in pair), body or ""]
    spend(sum(map(len, parts)))
    bodiless = body is not None and len(body) > MOST_BODY
    words = ["curl --globoff --proto '=http,https'", *_head(request), *_headers(request)]
    if body is not None and not bodiless:
        words.append(f"--data-raw {quoted(body)}")
    words.append(f"--url {quoted(_with_query(address, request.get('query_string')))}")
    return CurlCommand(" \\\n  ".join(words), bodiless)


def quoted(text: str) -> str:
    """A text as one word of bash and zsh. What a terminal or the history acts on is written as an escape."""
    if _PLAIN.fullmatch(text):
        return f"'{text}'"
    return "$'" + "".join(map(_escaped, text)) + "'"


def _escaped(character: str) -> str:
    if _PLAIN.fullmatch(character):
        return character
    if character.isascii() or unicodedata.category(character)[0] in "CZ":
        return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "replace"))
    return character


def _head(request: Json) -> list[str]:
    method = request.get("method")
    found = method.upper() if isinstance(method, str) else ""
    if found == "HEAD":
        return ["--head"]
    return [f"--request {found}"] if _METHOD.fullmatch(found) and found != "GET" else []


def _headers(request: Json) -> list[str]:
    """The headers of a request as options: a name that is none of HTTP is left out, as it may begin with an @."""
    told = [(name, value) for name, value in _pairs(request.get("headers")) if _TOKEN.fullmatch(name)]
    cookies = "; ".join(f"{name}={value}" for name, value in _pairs(request.get("cookies")))
    if cookies and "cookie" not in {name.lower() for name, _ in told}:
        told.append(("Cookie", cookies))
    shown = [(name, " ".join(value.split())) for name, value in told if name.lower() not in _OF_CONNECTION]
    return [f"--header {quoted(f'{name}: {value}' if value else f'{name};')}" for name, value in shown[:MOST_HEADERS]]


def _pairs(sent: Any) -> list[tuple[str, str]]:
    """Pairs of texts, as an object or as a list of two each."""
    listed: Iterable[Any] = sent.items() if isinstance(sent, dict) else sent if isinstance(sent, list) else ()
    both = 2
    pairs = [one for one in listed if isinstance(one, (tuple, list)) and len(one) == both]
    return [(name, str(value)) for name, value in pairs if isinstance(name, str) and isinstance(value, (str, int))]


def _body(sent: Any) -> str | None:
    if sent is None or sent == "":
        return None
    return sent if isinstance(sent, str) else json.dumps(sent)


def _with_query(address: str, query: Any) -> str:
    if "?" in address:
        return address
    told = query.lstrip("?") if isinstance(query, str) else urlencode(_pairs(query))
    path, mark, fragment = address.partition("#")
    return f"{path}?{told}{mark}{fragment}" if told else address


# Lines of source in colours. A line is told apart by itself, by one pattern that looks at each character a bounded
# number of times, and its text stays as it is: only its parts have classes.

LONGEST_LINE = 400
"""Characters of a line in colours. A longer one is plain: no person wrote it."""
_ENDING = re.compile(r"\.(\w{1,8})(?::\d+){0,2}$")
_HASH = re.compile("exs?|jl|php|pl|ps1|py|r|rb|sh|toml|ya?ml")
_SLASHES = re.compile("c|cc|cpp|cs|cxx|dart|go|groovy|h|hpp|java|kts?|m|[cm]?jsx?|php|rs|scala|svelte|swift|tsx?|vue")
"""The ends of names of files, by how a comment begins in them."""
_WORD = re.compile(
    "abstract|and|as|assert|async|await|begin|break|case|catch|class|const|continue|def|default|defer|del|do|elif|else|"
    "elsif|end|ensure|enum|except|export|extends|[Ff]alse|final|finally|fn|for|from|func|function|go|goto|if|impl|"
    "implements|import|in|instanceof|interface|is|lambda|let|loop|match|mod|module|mut|namespace|new|nil|[Nn]one|not|"
    "null|or|package|pass|private|protected|pub|public|raise|range|require|rescue|return|select|self|static|struct|"
    "super|switch|this|throws?|trait|[Tt]rue|try|type|typeof|undefined|unless|until|use|using|val|var|void|when|where|"
    "while|with|yield"
)


class SourcePart(NamedTuple):
    """A part of a line: its text, and its kind ("" for none)."""

    kind: str
    text: str


@cache
def _pattern(comment: str) -> re.Pattern[str]:
    begin = rf"(?P<c>(?:{comment}).*)|" if comment else ""
    texts = "|".join(rf"{quote}(?:[^{quote}\\]|\\.)*+{quote}?" for quote in "\"'`")
    numbers_and_words = r"(?P<n>\b[0-9][0-9A-Fa-f_xob.]*+)|(?P<k>\b[A-Za-z]\w*+)"
    return re.compile(f"{begin}(?P<s>{texts})|{numbers_and_words}", re.DOTALL)


def parts_of(line: str, place: str) -> list[SourcePart]:
    """The parts of a line of the source at a place such as `shop/pay.py:17`. Their texts together are the line."""
    if len(line) > LONGEST_LINE:
        return [SourcePart("", line)]
    named = _ENDING.search(place)
    ending = named[1].lower() if named else ""
    begins = [begin for begin, files in (("#", _HASH), ("//", _SLASHES)) if files.fullmatch(ending)]
    found: list[SourcePart] = []
    at = 0
    for one in _pattern("|".join(begins)).finditer(line):
        kind = one.lastgroup or ""
        if kind == "s" and not _is_closed(one[0]):
            break  # An apostrophe is no text, and without an end nothing after it is known.
        if kind == "k" and _WORD.fullmatch(one[0]) is None:
            continue
        found += [SourcePart("", line[at : one.start()]), SourcePart(kind, one[0])]
        at = one.end()
    return [part for part in (*found, SourcePart("", line[at:])) if part.text]


def _is_closed(text: str) -> bool:
    """Whether a text in quotes ends with the one that it begins with."""
    return len(text) > 1 and text[-1] == text[0] and (len(text) - len(text[:-1].rstrip("\\"))) % 2 == 1


def coloured(line: str, place: str) -> Markup:
    """A line of source as safe HTML, its parts with the classes `c`, `s`, `n` and `k`."""
    spend(min(len(line), LONGEST_LINE))
    return Markup("").join(
        Markup('<span class="{}">{}</span>').format(part.kind, part.text) if part.kind else escape(part.text)
        for part in parts_of(line, place)
    )
