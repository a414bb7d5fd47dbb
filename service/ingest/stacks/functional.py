"""Stack traces of Haskell, OCaml, Clojure, Elixir and Erlang. Pure.

Haskell says of a function where it was called, so the place of each line is in the function of the next one.
"""

from __future__ import annotations

import re

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Reported, Trace, TracedCall, number

# Stack traces of Haskell, OCaml and of Clojure's data. Pure.

_HASKELL = re.compile(
    r"^ {2,6}([^\s,]{1,200}), called at ([^\n:]{1,300}):([0-9]{1,9}):([0-9]{1,9})"
    r" in ([^\s:]{1,200}):([\w.]{1,200})$",
    re.MULTILINE,
)
_PROFILED = re.compile(
    r"^ {2,6}([\w.']{1,300}) \(([^\n():]{1,300}):\(?([0-9]{1,9})[:,]([0-9]{1,9})[^\n]{0,40}\)$", re.MULTILINE
)
_HASKELL_BEGIN = "CallStack (from "
_HASKELL_LIBRARY = re.compile(r"(?:libraries/|\.stack/|dist-newstyle/src/)")
_HASKELL_UNIT = re.compile(r"(?:base|ghc-[\w.-]{1,40}|containers|text|bytestring|mtl|transformers)(?:-[0-9]|\Z)")
_OCAML = re.compile(
    r"^(Raised|Re-raised|Called)(?: (?:at|from|by primitive operation at))"
    r"(?: ([^\s\"]{1,300}))?(?: in)? file \"([^\"\n]{1,300})\"(?: \(inlined\))?, lines? ([0-9]{1,9})[^\n]{0,60}$",
    re.MULTILINE,
)
_OCAML_LIBRARY = re.compile(
    r"(?:Stdlib|Camlinternal\w{1,20}|Printexc|Lwt\w{0,20}|Base|Core|Async\w{0,20}|Eio\w{0,20}|Cohttp\w{0,20})(?:__|\.|\Z)"
)
_CLOJURE = re.compile(r'\[([\w.$!?*<>+=/-]{1,300}) ([\w$<>]{1,100}) "([^"\n]{1,200})" (-?[0-9]{1,9})\]')
_CLOJURE_TRACE = ":trace"
_CLOJURE_LIBRARY = re.compile(r"(?:clojure|java|javax|jdk|nrepl|leiningen|sun)\.")


def find_haskell(stack: str) -> Trace:
    """Read a call stack of GHC. A profiled program prints the latest call last."""
    text = stack[:MAX_READ].partition(_HASKELL_BEGIN)[2]
    found = [match.groups() for match in _HASKELL.finditer(text)][:MAX_FOUND]
    if not found:
        calls = [
            TracedCall(file, name, number(line), number(column), in_app=_HASKELL_LIBRARY.match(file) is None)
            for name, file, line, column in (match.groups() for match in _PROFILED.finditer(text))
        ]
        return Trace(calls[::-1][:MAX_FOUND])
    around = [*[name for name, *_ in found[1:]], None]
    return Trace([
        TracedCall(file, name or module, number(line), number(column), module, _is_own_haskell(file, unit))
        for name, (_, file, line, column, unit, module) in zip(around, found, strict=True)
    ])  # fmt: skip


def _is_own_haskell(file: str, unit: str) -> bool:
    return _HASKELL_LIBRARY.match(file) is None and _HASKELL_UNIT.match(unit) is None


def find_ocaml(stack: str) -> Trace:
    """Read a backtrace. An exception raised again counts from its first place."""
    text = stack[:MAX_READ]
    calls: list[TracedCall] = []
    for match in _OCAML.finditer(text) if 'file "' in text else ():
        _, name, file, line = match.groups()
        own = _OCAML_LIBRARY.match(name or "") is None
        calls.append(TracedCall(file, name and name.replace("__", "."), number(line), in_app=own))
    return Trace(calls[:MAX_FOUND])


def find_clojure(stack: str) -> Trace:
    """Read an exception as data, of which the trace comes last."""
    text = stack[:MAX_READ].partition(_CLOJURE_TRACE)[2]
    calls = [
        TracedCall(file, function, number(line.lstrip("-")), module=name, in_app=_CLOJURE_LIBRARY.match(name) is None)
        for name, function, file, line in (match.groups() for match in _CLOJURE.finditer(text))
    ]
    return Trace(calls[:MAX_FOUND])


# Stack traces of Elixir, with the Erlang that it calls. Pure.

_CALL = re.compile(
    r"^[ \t]{1,8}(?:\(([\w.]{1,100})(?: [^()\s]{1,50})?\) )?"
    r"(?:([^\s:()][^\n:()]{0,300}\.(?:exs?|erl|hrl|eex|heex|leex)):(\d{1,9}): |(?=:\w))([^\n]{1,400})$",
    re.MULTILINE,
)
_HEAD = re.compile(r"^\*\* \(([\w.]{1,300})\) ", re.MULTILINE)
_ARITY = re.compile(r"/\d{1,3}$")
_PLATFORM = re.compile(
    r"(?:asn1|common_test|compiler|crypto|debugger|dialyzer|diameter|edoc|eex|eldap|elixir|erl_interface|erts|et"
    r"|eunit|ex_unit|ftp|iex|inets|kernel|logger|megaco|mix|mnesia|observer|os_mon|parsetools|public_key"
    r"|reltool|runtime_tools|sasl|snmp|ssh|ssl|stdlib|syntax_tools|tftp|tools|wx|xmerl)\Z"
)
_DEPENDENCY = "deps/"
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\Z)')
_OPENING, _CLOSING = "([{<", ")]}>"


def find(stack: str) -> Trace:
    """Read the calls of an exception, and the exception where it is printed before them."""
    text = stack[:MAX_READ]
    matches = list(_CALL.finditer(text)) if ".ex" in text or ".erl" in text else []
    if not matches:
        return Trace()
    head = _HEAD.search(text)
    told = Reported(None, None)
    if head is not None and head.end() <= matches[0].start():
        told = Reported(head[1], text[head.end() : matches[0].start()].strip() or None)
    return Trace([_call(match) for match in matches[:MAX_FOUND]], *told)


def _call(match: re.Match[str]) -> TracedCall:
    application, file, line, printed = match.groups()
    function = _with_arity(printed)
    module = function.rpartition(" in ")[2].rpartition(".")[0] or None
    own = (
        (application is None or _PLATFORM.match(application) is None)
        and file is not None
        and not file.startswith(_DEPENDENCY)
    )
    return TracedCall(file, function, number(line), module=module, in_app=own)


def _with_arity(function: str) -> str:
    """A function by the number of its arguments: these stand in its place where none of its clauses took them."""
    if _ARITY.search(function) or not function.endswith(")") or "(" not in function[1:]:
        return function
    name, _, given = function[:-1].partition("(")
    depth = 0
    arity = int(bool(given.strip()))
    for sign in _TEXT.sub("", given):
        depth += (sign in _OPENING) - (sign in _CLOSING)
        arity += sign == "," and depth == 0
    return f"{name}/{arity}"
