"""Ask ClickHouse in process. Runs in the environment of requirements/chdb.txt.

Reads lines of JSON, each a statement, and writes a line of JSON for each: {"rows": […]}, or {"error": "…"}.
"""

from __future__ import annotations

import json
import sys

_WHOLE_NUMBERS = " settings output_format_json_quote_64bit_integers = 0"


def main() -> None:
    """Answer statement after statement, until there is none."""
    from chdb.session import Session

    session = Session()
    for line in sys.stdin:
        statement = json.loads(line)
        reads = statement.lstrip().lower().startswith("select")
        try:
            found = session.query(statement + _WHOLE_NUMBERS * reads, "JSONCompactEachRow")
            answer = {"rows": [json.loads(row) for row in bytes(found.bytes()).splitlines()] if reads else []}
        except RuntimeError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
