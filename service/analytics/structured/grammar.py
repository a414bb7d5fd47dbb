"""The words and the grammar of a provider's dialect, by sqlglot. Import it with `checking.load_grammar` alone.

The dialect is ClickHouse's, but for names with a `$`, comments after `#`, and strings between `$$`: the provider splits
these otherwise.
"""

import logging
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from sqlglot import exp
from sqlglot.dialects.clickhouse import ClickHouse
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.clickhouse import ClickHouseParser
from sqlglot.tokenizer_core import Token, TokenType

from service.analytics.structured.fields import UnfitText

MOST_STEPS: Final = 100_000
"""Steps of the parser, from word to word: about three a word, and very many for a text made to be slow."""


class _TooLong(Exception):
    """The parser has taken MOST_STEPS."""


class _Dialect(ClickHouse):
    """Words and grammar."""

    class Tokenizer(ClickHouse.Tokenizer):
        """Splits a text into words."""

        COMMENTS: ClassVar[list[Any]] = ["--", ("/*", "*/")]
        HEREDOC_STRINGS: ClassVar[list[Any]] = []
        SINGLE_TOKENS: ClassVar[dict[str, TokenType]] = {
            sign: kind for sign, kind in ClickHouse.Tokenizer.SINGLE_TOKENS.items() if sign != "$"
        }
        VAR_SINGLE_TOKENS: ClassVar[set[str]] = {"$"}

    class Parser(ClickHouseParser):
        """Makes a statement of words, in a bounded number of steps."""

        steps = 0

        def _advance(self, times: int = 1) -> None:
            self.steps += 1
            if self.steps > MOST_STEPS:
                raise _TooLong
            super()._advance(times)


class Grammar:
    """The parser, and its harmless nodes."""

    exp = exp
    node = exp.Expr
    refused: ClassVar[Mapping[TokenType, str]] = {
        TokenType.SEMICOLON: "must be one statement",
        TokenType.L_BRACE: "must not hold braces outside of texts",
        TokenType.R_BRACE: "must not hold braces outside of texts",
        TokenType.PARAMETER: "must not hold @ outside of texts",
        **dict.fromkeys(
            (
                TokenType.BIT_STRING,
                TokenType.BYTE_STRING,
                TokenType.HEREDOC_STRING,
                TokenType.HEX_STRING,
                TokenType.NATIONAL_STRING,
                TokenType.RAW_STRING,
                TokenType.UNICODE_STRING,
            ),
            "must write texts between single quotes, without a prefix",
        ),
    }
    no_name: ClassVar[frozenset[TokenType]] = frozenset(
        {TokenType.COMMA, TokenType.DOT, TokenType.FROM, TokenType.JOIN, TokenType.L_PAREN}
    )
    known: ClassVar[tuple[type[exp.Expr], ...]] = (
        exp.Alias, exp.Aliases, exp.Between, exp.Binary, exp.Boolean, exp.Bracket, exp.Column, exp.Condition, exp.Cube,
        exp.DataType, exp.DataTypeParam, exp.Distinct, exp.Func, exp.Group, exp.Having, exp.Identifier, exp.In,
        exp.Interval, exp.Lambda, exp.Limit, exp.Literal, exp.Null, exp.Offset, exp.Order, exp.Ordered, exp.Paren,
        exp.Rollup, exp.Star, exp.Subquery, exp.TableAlias, exp.Tuple, exp.Unary, exp.Var, exp.Where, exp.Window,
        exp.WindowSpec,
    )  # fmt: skip
    never: ClassVar[tuple[type[exp.Expr], ...]] = (
        exp.Command, exp.DDL, exp.DML, exp.Parameter, exp.Placeholder, exp.SessionParameter, exp.SetOperation,
        exp.Unnest,
    )  # fmt: skip

    def __init__(self) -> None:
        self._dialect = _Dialect()
        # It would log texts of callers.
        logging.getLogger("sqlglot").disabled = True

    def tokens(self, text: str) -> list[Token]:
        """Split a text. Semicolons at its end are left out. Raises UnfitText."""
        try:
            tokens = self._dialect.tokenize(text)
        except TokenError:
            raise UnfitText("must be SQL: a text, a name or a comment in it does not end") from None
        while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
            tokens.pop()
        return tokens

    def parse(self, tokens: list[Token]) -> exp.Expr:
        """Parse words into one statement. Raises UnfitText and RecursionError."""
        parser = _Dialect.Parser(dialect=self._dialect)
        try:
            found = parser.parse(tokens, "")
        except ParseError as error:
            place = error.errors[0] if error.errors else {}
            raise UnfitText(f"must be SQL: {_place(place)} is not understood") from None
        except ValueError:  # the library's for `array join ? . events` and its kind
            raise UnfitText("must be SQL: a name in it is not understood") from None
        except _TooLong:
            raise UnfitText("must be shorter, or nest less deeply") from None
        if len(found) != 1 or found[0] is None:
            raise UnfitText("must be one statement")
        statement: exp.Expr = found[0]
        return statement

    def spelled(self, text: str, token: Token) -> str:
        """Spell a word in one way for every reader. Raises UnfitText."""
        if token.token_type == TokenType.STRING:
            escaped = token.text.replace("\\", "\\\\").replace("'", "\\'")
            return f"'{escaped}'"
        written = text[token.start : token.end + 1]
        if token.token_type == TokenType.IDENTIFIER and written[:1] in {'"', "`"}:
            if set(token.text) & set('"`\\') or not token.text.isprintable():
                raise UnfitText("must not have quotes, backslashes or control characters within quoted names")
            return f"`{token.text}`"
        if "$" in written[1:]:  # Some reader might take what stands between two of them for a text.
            raise UnfitText("must have $ at the beginning of a name alone, outside of texts")
        return written


def _place(place: Mapping[str, Any]) -> str:
    line, column = place.get("line"), place.get("col")
    return f"what stands in line {line} by column {column}" if line else "something"
