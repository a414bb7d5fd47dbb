"""Where the secret of a session is read: at the pages of the console alone.

It is the only credential there. Any other one of the request is dropped.
"""

from __future__ import annotations

from service.auth.secrets import session_secret
from service.http.edge.declare.headers import Head

OF_CREDENTIALS = frozenset({"authorization", "x-service-dsn"})


def with_session(head: Head, base_url: str) -> Head:
    """The head of a request to a page, whose only credential is the session in its cookie."""
    kept = {name: value for name, value in head.headers.items() if name not in OF_CREDENTIALS}
    secret = session_secret(head.headers, base_url)
    if secret is not None:
        kept["authorization"] = f"Bearer {secret}"
    return head._replace(headers=kept, repeated=head.repeated - OF_CREDENTIALS)
