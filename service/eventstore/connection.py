"""Connections that write, with every timeout that bounds what a stalled peer can hold."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.numeric import Int8Dumper

Connection = psycopg.Connection[tuple[Any, ...]]

# A host that is gone without a word is noticed after about five seconds; the kernel's own patience is a quarter of an
# hour. (milliseconds for tcp_user_timeout, else seconds)
NOTICE_SILENCE: dict[str, Any] = {
    "keepalives_idle": 2,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 5000,
}
TRANSACTION_TIMEOUT_FROM = 170000  # the first server version that has transaction_timeout


def connect(conninfo: str, *, application: str, transaction_timeout_ms: int = 2000) -> Connection:
    """Open a connection for writing; `conninfo` is a libpq string or URL.

    Raises psycopg.OperationalError when the database is not there.
    """
    connection = psycopg.connect(
        conninfo, autocommit=True, application_name=application, connect_timeout=2, **NOTICE_SILENCE
    )
    # Without this the array type changes with its values, and every statement is prepared again and again.
    connection.adapters.register_dumper(int, Int8Dumper)
    connection.prepared_max = None
    settings = {
        "default_transaction_isolation": "read committed",
        "statement_timeout": "3s",
        "lock_timeout": "1s",
        "idle_in_transaction_session_timeout": "1s",
        "client_connection_check_interval": "1s",
        # Statements are planned once, while the tables are small; these plans stay right when they are large.
        "plan_cache_mode": "force_generic_plan",
        "enable_seqscan": "off",
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
    }
    if connection.info.server_version >= TRANSACTION_TIMEOUT_FROM:
        settings["transaction_timeout"] = f"{transaction_timeout_ms}ms"
    for name, value in settings.items():
        connection.execute(sql.SQL("set {} = {}").format(sql.Identifier(name), sql.Literal(value)))
    return connection
