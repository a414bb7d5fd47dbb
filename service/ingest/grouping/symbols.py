"""Functions in a grouping of version 3: the owner and the name (G-198). Pure functions.

A symbol is read by its language: as an SDK, a debugger or a stack trace tells it, with its module
where that stands apart. Arguments and type arguments go with all stops in them. So do the numbers and hashes of a
build. A function without a name counts as the one around it.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from service.ingest.grouping.first import bare_name

MAX_SYMBOL = 500
"""Characters of a symbol, at most."""
KNOWN = 4096
"""Remembered symbols."""


class Symbol(NamedTuple):
    """The class, the receiver or the module of a function, and its name. Each may be empty."""

    owner: str
    name: str


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*+\Z")
_OBJECTIVE_C = re.compile(r"[-+]\[([^\s()\[\]]{1,200})(?:\([^\s()]{0,100}\))? ([^\s\]]{1,200})\]")
_RUST_HASH = re.compile(r"::h[0-9a-f]{16}\Z")
_CLONE = re.compile(r"(?: \[clone [^\]]{0,100}\]|\.(?:cold|isra|part|constprop|lto_priv|llvm)\b(?:\.[0-9]{1,20})?)+\Z")
_KINDS = re.compile(r"^(?:(?:async|new|get|set|static|specialized|merged|@objc|partial apply for|thunk for) )+")
_ALIAS = re.compile(r" \[as [^\[\]]*\]\Z")
_CLOSURE_OF = re.compile(r"\{closure:([^{}]{1,400}?)(?:\(\))?:[0-9]{1,9}\}")
_PHP_CLASS = re.compile(r"@anonymous[^:]{0,400}(?::[0-9]{1,9}[$][0-9a-f]{1,8})?")
_PHP_CLOSURE = re.compile(r"(?:\w{1,100}\\){1,20}\{closure\}")
_STATES = re.compile(r"<(\w{1,200})>(?:d|b|g)_{0,2}(?:(?<=g__)(\w{1,200})\|)?[\w|]{0,50}")
_AS = " as "
_ERLANG = re.compile(r"\"?-([^/\"-]{1,200})/[0-9]{1,3}-(?:fun|lc|bc|inlined)-[0-9]{1,4}-\"?")
_EFFECTS = re.compile(r"(?: async| throws| rethrows){1,3}\Z")
_DOM = re.compile(
    r"HTML\w{0,40}|(?:XMLHttpRequest|EventTarget|WebSocket|IDBRequest|FileReader|Socket|Timeout|EventEmitter)\Z"
)
_RUBY_TOP = "<top (required)>"
_OPERATOR = re.compile(r"operator(<=>|<<=?|<=?|>>=?|>=?|->|/=?|[+]{1,2}|\[\])(?=[( ]|$)")
_BRACES = re.compile(r"\{+(?!main\})[^{}]{0,200}\}+")
_ANONYMOUS = re.compile(r"(?:\(anonymous namespace\)|`anonymous namespace')::")
_ARITY = re.compile(r"`[0-9]{1,3}")
_DISPLAY = re.compile(r"[+.]<>c[\w<>]{0,100}")
_OCAML = re.compile(r"_[0-9]{1,9}\Z")
_HOSTS = frozenset({"Object", "Module", "Function", "Array", "Window", "Promise", "Generator", "global", "window"})
"""Objects of JavaScript engines before functions without a name."""
_SEPARATOR = re.compile(r"::|->|[.#\\/+]")
_GROOVY = re.compile(r"_(\w{1,200})_closure[0-9]{1,9}")
_NAMELESS = re.compile(
    r"[0-9]+|[$]?func[0-9]+|b__[0-9_]+|(?:go|defer)wrap[0-9]+|glob|operator|<|\(fun\)|fun|"
    r"<(?:list|dict|set)comp>|<genexpr>|"
    r"<(?:fn|T|anonymous|anonymous closure|lambda|locals|unknown|ScriptBlock|c[\w<>]*)>[\w]*|<>c[\w<>]{0,50}|"
    r"\(?anonymous\)?|\{main\}|\?|"
    r"(?:getter|setter|modify|read|willset|didset|unsafeMutableAddressor)|\$_[0-9]+|"
    r"lambda(?:[$_-]?[0-9]+)?|anonfun|Lambda|inlined|sam|adapted|fn__[0-9]+|eval[0-9]+|reify__[0-9]+|auto__[0-9]+"
)
_GENERATED = re.compile(
    r"(?:GeneratedMethodAccessor|GeneratedConstructorAccessor|GeneratedSerializationConstructorAccessor"
    r"|ExternalSyntheticLambda|[$]Proxy|LambdaForm|EnhancerBySpringCGLIB|FastClassBySpringCGLIB|EnhancerByCGLIB"
    r"|SpringCGLIB|Castle\.Proxies\.|FastClassByGuice|EnhancerByGuice|HibernateProxy|MockitoMock|ByteBuddy|[$]auxiliary[$]|WeldClientProxy"
    r"|_jvst|[$]{2}Lambda)[\w$/]*"
)
_EXPRESSION = re.compile(r"(?:DynamicClass\.)?lambda_method[0-9]{0,9}(?:\(|\Z)")
"""What .NET compiles of an expression while a program runs."""
_FUNCTION_OBJECT = re.compile(
    r"(?:const )?(?:std::(?:__\w{1,20}::){0,3}|boost::)(?:function\w{0,40}|__function::\w|_Function_handler"
    r"|_{0,2}invoke|_{0,2}bind|_Bind|_bi::|_mfi::|mem_fn|detail::function::|(?:__)?packaged_task|__thread_proxy|detail::thread_data"
    r"|thread::_Invoker|thread::_State_impl)"
)
"""What C++ has for calls of other functions."""
_TEMPLATE = re.compile(r"(_(?:erb|haml|slim|builder|jbuilder|ruby|rabl|rhtml))_{1,3}[0-9]{1,20}_[0-9]{1,20}\Z")
"""Ends the function that Rails makes of a template."""
_VALUE_CLASS = re.compile(r"-[A-Za-z0-9_-]{7}\Z")
"""Stands behind functions of Kotlin with value classes among their arguments."""
_RUST_CRATE = re.compile(r"Cs[0-9A-Za-z]{1,16}_(?=[0-9])")
_RUST = ("_RNv", "_RNC", "_RINv", "_RINC")
_INVOKERS = frozenset(
    {*("invoke", "invokeSuspend", "invokeStatic", "doInvoke", "applyTo", "doCall", "call", "run", "apply", "accept")}
    | {*("test", "emit", "execute", "get", "create", "invokePrim")}
)
_PAIRS = (("(", ")"), ("[", "]"), ("<", ">"))
_READ = ("(", "<", "[", ".func", "{", ".1", ".2", ".3")
"""A symbol without any of these is shown as it always was."""
_CLOSURE = re.compile(r"func[0-9]{1,9}|[0-9]{1,9}|<fn>|<anonymous closure>|<T>|(?:go|defer)wrap[0-9]{1,9}")
_MANGLED = ("_Z", "__Z", "caml", "$s", "_$s")
_IN = " in "
_OPENING, _CLOSING = {"(": ")", "[": "]", "<": ">"}, frozenset(")]>")
_LENGTHS = re.compile(r"([0-9]{1,3})(?=[A-Za-z_])")


def read_symbol(symbol: str, module: str = "") -> Symbol:
    """Read a function, with its module or class where that stands apart from it."""
    return _known(symbol[:MAX_SYMBOL], module[:MAX_SYMBOL])


def shown_name(symbol: str) -> str:
    """A function as it is shown: its last name, with its owner where it has none of its own. Empty for none."""
    return _known_shown(symbol[:MAX_SYMBOL])


def _shown(symbol: str) -> str:
    if not any(sign in symbol for sign in _READ):
        return bare_name(symbol)
    plain = bare_name(symbol)
    if "::" not in symbol and (" (" in plain or any(plain.count(one) != plain.count(two) for one, two in _PAIRS)):
        plain = bare_name(without_arguments(_ALIAS.sub("", symbol.strip())))
    if _CLOSURE.fullmatch(plain) is None:
        return plain
    parts = symbol.split(".")
    begin = len(parts) - 1
    while begin > 0 and _CLOSURE.fullmatch(parts[begin]):
        begin -= 1
    return ".".join(parts[begin:])


def is_generated(module: str, function: str) -> bool:
    """Whether a call only leads to another: of what is made while a program runs, and of objects for calls."""
    return (
        _GENERATED.search(module) is not None
        or _GENERATED.search(function) is not None
        or _EXPRESSION.match(function) is not None
        or _FUNCTION_OBJECT.match(function) is not None
    )


def _read(symbol: str, module: str) -> Symbol:
    text = symbol.strip()
    if text[-1:].isdigit() and "_" in text:
        text = _TEMPLATE.sub(r"\1", text)
    if text.startswith(_RUST):
        text = _RUST_CRATE.sub("C", text)
    if _PLAIN.match(text) and "$" not in module and "<" not in module and not text.startswith(_MANGLED):
        return Symbol(module, "" if _NAMELESS.fullmatch(text) else text)
    module = module.removeprefix("Elixir.")
    if text == _RUBY_TOP:
        return Symbol("", "<main>")
    objective = _OBJECTIVE_C.search(text)
    if objective is not None:
        return Symbol(objective[1], objective[2])
    owner, name = _split(_simplified(text))
    # A state machine of .NET, a coroutine or a lambda of the JVM: the class tells whose it is.
    module = _DISPLAY.sub("", module)
    if "<" in module and (states := _STATES.search(module)) is not None:
        return Symbol(module[: states.start()].rstrip("+."), states[2] or states[1])
    return _of_classes(module, owner, name)


def _simplified(text: str) -> str:
    """A symbol without arguments and additions of a compiler or a build."""
    if text.startswith(_MANGLED):
        text = _demangled(text)
    text = _CLONE.sub("", _RUST_HASH.sub("", text))
    text = _ALIAS.sub("", text.removesuffix(" { <lambda> }"))
    if "{closure:" in text and (found := _CLOSURE_OF.search(text)) is not None:
        text = f"{found[1]}::{{closure}}"
    if "@anonymous" in text:
        text = _PHP_CLASS.sub("@anonymous", text)
    if "operator" in text:
        text = _OPERATOR.sub(lambda found: "operator" + "".join(f"_{ord(sign)}" for sign in found[1]), text)
    if "{" in text:
        text = _PHP_CLOSURE.sub("{closure}", text) if "{closure}" in text else text
        text = _BRACES.sub("", text)
    text = _ANONYMOUS.sub("", text)
    text = _ERLANG.sub(r"\1", text)
    if text.startswith("<") and _AS in text:
        text = _implementing(text)
    if ">" in text:
        text = text.removesuffix(".MoveNext") if ">d" in text else text
        text = _STATES.sub(lambda found: found[2] or found[1], text)
    text = without_arguments(text)
    text = text[text.rfind(_IN) + len(_IN) :] if _IN in text else text
    return _KINDS.sub("", _EFFECTS.sub("", text.partition(" ->")[0]).partition(" : ")[0].strip()).removesuffix(
        "+MoveNext"
    )


def _implementing(text: str) -> str:
    """A function of a trait by the type that has it: `<Cart<T> as Total>::total`."""
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "<") - (sign == ">" and text[place - 1] != "-")
        if depth == 0:
            return text[1:place].partition(_AS)[0].lstrip("<&") + text[place + 1 :]
    return text


def without_arguments(text: str) -> str:
    """A symbol without its arguments and type arguments. A receiver and a bracket of a name stay."""
    kept: list[str] = []
    closing: list[str] = []
    for place, sign in enumerate(text):
        if closing:
            if sign in _OPENING and sign != "<":
                closing.append(_OPENING[sign])
            elif sign == closing[-1] and not (sign == ">" and text[place - 1] in "-="):
                closing.pop()
            elif sign == "<" and closing[-1] == ">":
                closing.append(">")
        elif sign in _OPENING and kept and _opens(text, place):
            closing.append(_OPENING[sign])
        else:
            kept.append(sign)
    return _ARITY.sub("", "".join(kept)).removesuffix(" const").rstrip()


def _opens(text: str, place: int) -> bool:
    """Whether a bracket opens arguments."""
    before = text[place - 1]
    if text[place] == "<":
        return before.isalnum() or before == "_" or text[place - 2 : place] == "::"
    if text[place] == "(" and before in "./:":
        return text.startswith(("(anonymous", "(*"), place) is False
    return True


def _split(text: str) -> Symbol:
    """The last named part, and those before it."""
    parts = [part.strip("()*& ") for part in _SEPARATOR.split(text)]
    named = [part for part in parts if part and _NAMELESS.fullmatch(part) is None]
    if not named:
        return Symbol("", "")
    # A return type may stand before the first part.
    named[0] = named[0].rpartition(" ")[2] or named[0]
    if len(named) == 1 < len(parts) and (named[0] in _HOSTS or _DOM.match(named[0])):
        return Symbol("", "")
    return Symbol(".".join(named[:-1]), named[-1].removesuffix("-fm"))


def _of_classes(module: str, owner: str, name: str) -> Symbol:
    """The owner and the name for lambdas, closures and coroutines of the JVM's languages."""
    if "$" in name:
        parts = [part for part in name.split("$") if part and _NAMELESS.fullmatch(part) is None]
        name = next((part for part in parts if part not in {"access", "default"}), "")
    if "-" in name and "." in module:
        name = _VALUE_CLASS.sub("", name)
    held = owner if owner.startswith(module) else ".".join(filter(None, (module, owner)))
    if "$" not in held:
        return Symbol(held, name)
    package, stop, classes = held.rpartition(".")
    parts = [part for part in _GENERATED.sub("", classes).split("$") if part]
    named = [part for part in parts if _NAMELESS.fullmatch(part) is None]
    is_lambda = len(named) < len(parts) or not named[-1:] or (name in _INVOKERS and named[-1][:1].islower())
    if is_lambda and name in _INVOKERS | {""} and len(named) > 1:
        name = named.pop()
    closure = _GROOVY.fullmatch(named[-1]) if named else None
    if closure is not None and name in _INVOKERS:
        named, name = named[:-1], closure[1]
    return Symbol(f"{package}{stop}{'$'.join(named)}", name)


def _demangled(symbol: str) -> str:
    """The nested names of a mangled symbol: lengths, each with a name behind it. Of OCaml, two signs between them."""
    if symbol.startswith("caml"):
        return _OCAML.sub("", symbol.removeprefix("caml")).replace("__", ".")
    swift = symbol.find("$s")
    begin = symbol.find("Z") + 1 if swift < 0 else swift + 2
    parts: list[str] = []
    text = symbol[begin:].lstrip("NKVr")
    while (found := _LENGTHS.match(text)) is not None:
        end = found.end() + int(found[1])
        parts.append(text[found.end() : end])
        text = text[end:]
        if swift >= 0 and text[:1].isupper():
            text = text[1:]  # Says what the name is of: a class, an enumeration.
    return "::".join(parts) or symbol


_known, _known_shown = lru_cache(KNOWN)(_read), lru_cache(KNOWN)(_shown)
