"""Query parameters that an operation does not know: ignored, counted, and named to whoever sent them (G-005, G-178)."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from service.auth.authenticator import QUERY_DSN_PATHS
from service.http.edge.declare.operations import Operation

HEADER = "x-service-ignored"
MOST_NAMED = 10
MOST_LOOKED_AT = 100  # parameters; of more, each counts, and none is named
AS_OF = "as_of"
_NAME = re.compile(rb"[a-z0-9_]{1,40}")


class Ignored(NamedTuple):
    """How many parameters were ignored, and their names; none of many, or when one is no plain name."""

    total: int
    names: tuple[str, ...]

    @property
    def header(self) -> str:
        """An integer with the names as its parameter: a structured field (RFC 9651)."""
        return f'{self.total};names="{" ".join(self.names)}"' if self.names else str(self.total)


def known_parameters(operation: Operation) -> frozenset[bytes] | None:
    """The parameters that an operation reads or refuses, as they are spelt. None: its handler alone knows them."""
    if operation.reads_query and operation.query is None:
        return None
    known = {*(() if operation.query is None else operation.query.__struct_encode_fields__)}
    if not operation.reads_query:
        known.add(AS_OF)
    if operation.path in QUERY_DSN_PATHS:
        known.add("dsn")
    if operation.protocol is not None:
        known.update(operation.protocol.parameters)
    return frozenset(name.encode() for name in known)


def find_ignored(query_string: bytes, known: frozenset[bytes]) -> Ignored:
    """Find the parameters of a query string that are not known, well-formed or not."""
    pieces = query_string.count(b"&") + 1
    if pieces > MOST_LOOKED_AT:
        return Ignored(pieces, ())
    names = {unquote_to_bytes(piece.partition(b"=")[0]) for piece in query_string.split(b"&") if piece} - known
    plain = len(names) <= MOST_NAMED and all(map(_NAME.fullmatch, names))
    return Ignored(len(names), tuple(sorted(name.decode() for name in names)) if plain else ())
