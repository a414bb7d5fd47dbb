"""Stack traces of Elixir, with the Erlang that it calls. Pure."""

from __future__ import annotations

import re

from service.ingest.stacks.trace import MAX_FOUND, MAX_READ, Reported, Trace, TracedCall, number

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
