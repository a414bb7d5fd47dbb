"""`service feedback list`: what people report, as text that gives a terminal no orders (G-158)."""

from __future__ import annotations

import psycopg

from tests.service.cli.test_commands import Console
from tests.service.cli.test_commands import console as console  # noqa: PLC0414 (a fixture is found by name)


def test_an_operator_lists_feedback_latest_first(console: Console) -> None:
    made = console.json("keys", "create", "--email", "one@example.com")
    assert console.json("feedback", "list") == []
    with psycopg.connect(console.env["SERVICE_DATABASE_URL"], autocommit=True) as connection:
        for number, title in ((1, "Old"), (2, "\x1b[2JNew")):
            connection.execute(
                "insert into feedback (project_id, id, kind, fingerprint, title, details, occurrences, created_at, "
                "last_at) values (%s, %s, 'bug', 'fingerprint', %s, '{\"a\": 1}', %s, 1, %s)",
                (made["user_id"], f"fb_{number}", title, number, number),
            )
    new, old = console.json("feedback", "list")
    assert (new["id"], new["user_id"], new["occurrences"], new["details"]) == ("fb_2", made["user_id"], 2, {"a": 1})
    assert (old["title"], old["body_md"]) == ("Old", None)
    assert [row["id"] for row in console.json("feedback", "list", "--limit", "1")] == ["fb_2"]
    shown = console.run("feedback", "list").stdout
    assert "New" in shown
    assert "\x1b" not in shown
