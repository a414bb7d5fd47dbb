"""Every statement on a table with rows of tenants names `project_id` (design, 4.9), but where that is listed.

What distributes a PostgreSQL by a column (docs/how-to/kubernetes.md) sends a statement to one place by it. Here the
lint costs nothing, and a statement that forgot its tenant is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import psycopg
import pytest

from service.sql import load_blocks, load_query
from tests.support.cluster import TestCluster
from tests.test_sql import FILES, FOREIGN

PROVIDERS = {*FOREIGN}
"""In the language of the customer's provider, whose table of events has another name for its tenant."""

ACROSS = {
    "auth/asked": "by the id of the scope, which may be an account with many projects",
    "auth/former": "by the digest of a key, before anybody knows whose it is",
    "billing/usage_of_account": "what an account pays for, over all its projects",
    "cli/rebuilds": "an operator's list: a rebuild is of all tenants at once",
    "cli/unnumbered": "an operator's look at the log, which is one for all tenants",
    "copy/erasures_of_day": "the copy is one for all tenants",
    "copy/forget_copy": "an operator gives up the copy of all tenants",
    "deletion/forget_feedback": "a person's texts stay, whichever projects they name",
    "deletion/forget_rebuild": "a rebuild is of all tenants at once",
    "discovery/unnumbered": "the log is one for all tenants",
    "history/begin_rebuild": "a rebuild is of all tenants at once",
    "history/count_folded": "a rebuild is of all tenants at once",
    "history/counts": "the size of the log, which is one for all tenants",
    "history/log_names_no_event": "the log is one for all tenants",
    "history/purging": "an audit goes over all tenants",
    "history/queue_names_no_event": "the log is one for all tenants",
    "ingest/purge_kinds": "retention goes by day over all tenants",
    "ingest/purge_usage_days": "retention goes by day over all tenants",
    "ingest/purge_usage_deploys": "retention goes by day over all tenants",
    "runs/background/forget_turns": "the sweep forgets its turns by time over all tenants",
    "tlog/all_leaves": "the tree is one over all tenants",
    "tlog/leaves_between": "the tree is one over all tenants",
    "tlog/tiles": "the tree is one over all tenants",
    "webhooks/forget_old": "retention goes by time over all tenants",
    "webhooks/forget_mail_days": "counts go by the day over all tenants",
    "webhooks/forget_turns": "retention goes by time over all tenants",
}
"""Statements without it, and why."""

NAMED = re.compile(r"(?:\b(?:from|join|update|into|using)\s+(?:only\s+)?\(?|,\s*)(\w+)", re.IGNORECASE)


def tables_named(statement: str, tenants: set[str]) -> set[str]:
    """The tables of tenants that a statement reads or writes."""
    return set(NAMED.findall(statement)) & tenants


@pytest.fixture(scope="module")
def tenants(cluster: TestCluster) -> set[str]:
    """The tables with a column `project_id`."""
    with cluster.database() as url, psycopg.connect(url) as connection:
        rows = connection.execute(
            "select table_name from information_schema.columns where column_name = 'project_id' "
            "and table_schema = current_schema()"
        ).fetchall()
    return {name for (name,) in rows}


def statements() -> Iterator[tuple[str, str]]:
    """Every statement of ours with its name."""
    for file in FILES:
        if file not in PROVIDERS:
            for name, block in load_blocks(file).items():
                if not block.is_part:
                    yield f"{file}/{name}", str(load_query(file, name))


def test_every_statement_on_a_tenants_table_names_the_tenant(tenants: set[str]) -> None:
    """And no exception is listed in vain."""
    without = {name for name, text in statements() if tables_named(text, tenants) and "project_id" not in text}
    assert without == set(ACROSS)


def test_most_statements_are_of_one_tenant(tenants: set[str]) -> None:
    """The lint sees what it should: dozens of tables and hundreds of statements."""
    of_tenants = [name for name, text in statements() if tables_named(text, tenants)]
    assert len(tenants) > 50
    assert len(of_tenants) > 10 * len(ACROSS)


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        ("select 1 from cases c where c.id = 'x'", {"cases"}),
        ("delete from only cases where true", {"cases"}),
        ("select 1 from deploys d, cases c", {"cases", "deploys"}),
        ("insert into deploys values (1)", {"deploys"}),
        ("update cases set title = ''", {"cases"}),
        ("with due as (select 1 from cases) select 1 from due left join deploys using (id)", {"cases", "deploys"}),
        ("select service_now()", set()),
    ],
)
def test_the_tables_of_a_statement_are_seen(statement: str, found: set[str]) -> None:
    assert tables_named(statement, {"cases", "deploys"}) == found
