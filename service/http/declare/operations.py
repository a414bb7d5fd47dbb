"""The words of declarations: kinds of callers, classes of limits, and the object of a path."""

from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple

from litestar.types import HTTPScope

from projections.kernel import Table
from service.auth.authority import PrincipalKind
from service.http.answer.errors import Failure
from service.http.answer.reply import Reply

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Presence = Literal["required", "optional", "none"]
Rate = Literal[
    "key",
    "project_credential",
    "ingest",
    "public_query",
    "log",
    "device_start",
    "device_poll",
    "ci_exchange",
    "internal",
    "none",
]

KEY = OWNER = frozenset({PrincipalKind.KEY})  # the role is checked by `owner=True`
SESSION = frozenset({PrincipalKind.SESSION})
"""People in the console. Their browsers send the secret of a session in a cookie. No other operation reads it."""
ANYONE = frozenset({PrincipalKind.ANONYMOUS})
RUNNER = frozenset({PrincipalKind.RUNNER})
KEY_OR_RUNNER = KEY | RUNNER
CI = frozenset({PrincipalKind.CI})
SENDERS = frozenset({PrincipalKind.DSN, PrincipalKind.PUBLIC_DSN})
"""What products report with: the DSN of their servers, and the public one of their pages."""


RESTS = frozenset({"place", "tile"})
"""Parameters that take all that is left of a path, its slashes too."""


FailurePage = Callable[[Failure, HTTPScope], Reply]


class Subject(NamedTuple):
    """The object a path names without its project: the edge finds its project, or answers `not_found`.

    `find` takes the place of the look-up in the table: of the store, the id and the principal it makes a row, or None.

    With `located` a credential's request may be given the row as this process last knew it. It is right for handlers
    that take from the row only what never changes, or decide again under the locks and raise Moved.
    """

    path_param: str
    table: Table[Any]
    not_found: str  # error code
    located: bool = False
    find: Callable[[Any, str, Any], Awaitable[Any]] | None = None
