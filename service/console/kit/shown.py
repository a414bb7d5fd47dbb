"""A visit as templates see it. It goes along to where a page is rendered, so it holds plain values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import urlencode


class ShownVisit:
    """The place of a visit, its query, the values entered, the token in its forms, and whether an operator makes it."""

    __slots__ = ("base_url", "csrf", "entered", "of_operator", "place", "query")

    def __init__(
        self,
        place: str,
        query: Mapping[str, str],
        entered: Mapping[str, str],
        csrf: str,
        base_url: str,
        *,
        of_operator: bool,
    ) -> None:
        self.place = place
        self.query = query
        self.entered = entered
        self.csrf = csrf
        self.base_url = base_url
        self.of_operator = of_operator

    def next_query(self, cursor: str) -> str:
        """The query string of the same page, further on in its list."""
        return urlencode({**{name: value for name, value in self.query.items() if name != "done"}, "cursor": cursor})

    def asking(self, path: str, body: str = "", key: str = "") -> str:
        """A command that asks the API, with a body in JSON or an Idempotency-Key. The API key is in the environment."""
        more = [f'  -H "idempotency-key: {key}" \\\n'] if key else []
        more += [f"  -H \"content-type: application/json\" -d '{body}' \\\n"] if body else []
        return f'curl -H "authorization: Bearer $SERVICE_API_KEY" \\\n{"".join(more)}  {self.base_url}{path}'


class Permitted:
    """Whether an operation is open to the person of a page, by its id."""

    __slots__ = ("_operations",)

    def __init__(self, operations: Collection[str]) -> None:
        self._operations = frozenset(operations)

    def __call__(self, operation_id: str) -> bool:
        """Whether it is."""
        return operation_id in self._operations
