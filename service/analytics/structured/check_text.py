"""Whether a text is one bounded select over a provider's events, persons or sessions, and nothing else (G-066, G-154).

Only constructs known to be harmless pass. The text to send is written anew from the judged words: comments are gone,
and every string and quoted name has one spelling, so the next reader splits it into the same words. The parser is
large: `load_grammar` alone loads it, with the first text.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from service.analytics.structured.unfit import UnfitText

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokenizer_core import Token

    from service.analytics.structured.grammar import Grammar

TABLES: Final = frozenset({"events", "persons", "sessions"})
MOST_TOKENS: Final = 8_000
_SELECT: Final = frozenset(
    {"distinct", "expressions", "from_", "group", "having", "joins", "limit", "offset", "order", "where", "windows"}
)  # fmt: skip
_TABLE: Final = frozenset({"this", "alias", "joins"})
_CTE: Final = frozenset({"this", "alias", "scalar"})
_REACHING: Final = frozenset(
    {"azureblobstorage", "cluster", "clusterallreplicas", "deltalake", "dictionary", "executable", "file",
     "filecluster", "format", "gcs", "generaterandom", "hdfs", "hdfscluster", "hudi", "iceberg", "input", "jdbc",
     "loop", "merge", "mongodb", "mysql", "numbers", "odbc", "postgresql", "redis", "remote", "remotesecure", "s3",
     "s3cluster", "sleep", "sleepeachrow", "sqlite", "url", "urlcluster", "values", "view", "zeros"}
)  # fmt: skip
"""Functions with a reach beyond the tables, and those that only cost time."""
_REACHING_PREFIXES: Final = ("dict", "joinget")


@cache
def load_grammar() -> Grammar:
    """Load the parser: a third of a second and 16 MB."""
    from service.analytics.structured.grammar import Grammar  # noqa: PLC0415 - see the module's docstring

    return Grammar()


def check_text(text: str) -> str:
    """Return the select in the spelling to send, inside a limit. Pure, and long: run it apart from the event loop.

    Raises UnfitText.
    """
    grammar = load_grammar()
    try:
        tokens = grammar.tokens(text)
        _check_tokens(grammar, tokens)
        statement = grammar.parse(tokens)
        _Judge(grammar).judge(statement)
    except RecursionError:
        raise UnfitText("must nest less deeply") from None
    return " ".join(grammar.spelled(text, token) for token in tokens)


def _check_tokens(grammar: Grammar, tokens: list[Token]) -> None:
    if len(tokens) > MOST_TOKENS:
        raise UnfitText(f"must have at most {MOST_TOKENS} words and signs")
    for token in tokens:
        reason = grammar.refused.get(token.token_type)
        if reason is not None:
            raise UnfitText(reason)
    if any(token.text == "." and before.token_type in grammar.no_name for before, token in pairwise(tokens)):
        raise UnfitText("must have a name before each dot")


class _Judge:
    """Goes through a statement, and refuses every unknown construct."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._exp = grammar.exp
        self._read = False

    def judge(self, statement: exp.Expr) -> None:
        exp = self._exp
        if not isinstance(statement, exp.Select):
            raise UnfitText("must be one select, not a union or another statement")
        named: set[str] = set()
        for part in self._named_before(statement):
            self._judge_part(part.this, frozenset(named))
            if not part.args.get("scalar"):  # The name of a value is none of a table.
                named.add(part.alias)
        self._judge_part(statement, frozenset(named))
        if not self._read:
            raise UnfitText(f"must read {', '.join(sorted(TABLES))} or several of them")

    def _named_before(self, statement: exp.Expr) -> Iterator[Any]:
        """The parts of the statement's own `with`, in order: each may name the earlier ones."""
        exp = self._exp
        clause = statement.args.get("with_")
        if clause is None:
            return
        if clause.args.get("recursive"):
            raise UnfitText("must not be recursive")
        for part in clause.expressions:
            if not isinstance(part, exp.CTE) or _given(part) - _CTE or not part.alias:
                raise UnfitText("must give each part of `with` a name and nothing else")
            yield part

    def _judge_part(self, part: exp.Expr, named: frozenset[str]) -> None:
        """Judge all of a select but the `with` of the statement itself."""
        waiting = [*_children(part, without="with_")] if isinstance(part, self._exp.Select) else [part]
        if isinstance(part, self._exp.Select):
            self._judge_select(part, _SELECT | {"with_"})
        while waiting:
            node = waiting.pop()
            if isinstance(node, self._exp.Select):
                self._judge_select(node, _SELECT)
            elif isinstance(node, self._grammar.node):
                self._judge_node(node, named)
            elif not isinstance(node, str | bool | int | Enum):
                raise UnfitText(f"must not use {type(node).__name__.lower()}")
            else:
                continue
            waiting += _children(node)

    def _judge_select(self, node: exp.Expr, may: frozenset[str]) -> None:
        if extra := _given(node) - may:
            raise UnfitText(f"must not use {', '.join(sorted(part.strip('_') for part in extra))} here")

    def _judge_node(self, node: exp.Expr, named: frozenset[str]) -> None:
        exp = self._exp
        if isinstance(node, exp.From | exp.Join):
            self._judge_source(node)
        elif isinstance(node, exp.Table):
            self._judge_table(node, named)
        elif isinstance(node, exp.In) and node.args.get("field") is not None:
            raise UnfitText("must name the values of `in` in brackets")
        elif not isinstance(node, self._grammar.known) or isinstance(node, self._grammar.never):
            raise UnfitText(f"must not use {type(node).__name__.lower()}")
        if isinstance(node, exp.Func):
            name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).replace("_", "").lower()
            if name in _REACHING or name.startswith(_REACHING_PREFIXES):
                raise UnfitText(f"must not use the function {name}")

    def _judge_source(self, node: exp.Expr) -> None:
        """The source of rows is a table, or a select in brackets. An array join has columns."""
        exp = self._exp
        source = node.this
        array = isinstance(node, exp.Join) and node.args.get("kind") == "ARRAY"
        if not array and not isinstance(source, exp.Table | exp.Subquery):
            raise UnfitText("must read tables by their names, or a select in brackets")

    def _judge_table(self, node: exp.Table, named: frozenset[str]) -> None:
        exp = self._exp
        if not isinstance(node.this, exp.Identifier):
            raise UnfitText("must not use a table function")
        if _given(node) - _TABLE:
            raise UnfitText("must name tables alone: no database, no option")
        if node.name in named:
            return
        if node.name not in TABLES:
            raise UnfitText(f"must read no other table than {', '.join(sorted(TABLES))}")
        self._read = True


def _given(node: exp.Expr) -> set[str]:
    """The names of the parts of a node."""
    return {key for key, value in node.args.items() if value is not None and value is not False and value != []}


def _children(node: exp.Expr, without: str = "") -> Iterator[Any]:
    """The parts of a node."""
    for key, value in node.args.items():
        if key != without and value is not None:
            yield from value if isinstance(value, list) else [value]
