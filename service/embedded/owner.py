"""The user that the embedded server runs as: ourselves, and somebody else when we are root, as PostgreSQL is never."""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from pathlib import Path

from service.embedded.errors import EmbeddedError

USUAL = "postgres"


def owner_of(data_dir: Path, cluster: Path) -> pwd.struct_passwd:
    """The user of a server, made already or not. Raises EmbeddedError when there is none that it could run as.

    Whoever owns an existing `cluster` goes on owning it. A new one is ours. When we are root it is that of the owner
    of `data_dir`, so that a later start as that user finds its own, or else of the user `postgres`. A user that other
    programs share, as `nobody` is, could be reached by all of them and is not taken.
    """
    with suppress(FileNotFoundError):
        return _named(cluster.stat().st_uid, cluster)
    if os.geteuid() != 0:
        return _named(os.geteuid(), data_dir)
    with suppress(FileNotFoundError):
        if (uid := data_dir.stat().st_uid) != 0:
            return _named(uid, data_dir)
    with suppress(KeyError):
        return pwd.getpwnam(USUAL)
    raise EmbeddedError(
        f"PostgreSQL does not run as root, and there is no user named {USUAL}. Make one (useradd --system {USUAL}), "
        "start the service as another user, or set SERVICE_DATABASE_URL."
    )


def _named(uid: int, path: Path) -> pwd.struct_passwd:
    """The user with that number. PostgreSQL looks its name up, and refuses to run as root."""
    if uid == 0:
        raise EmbeddedError(
            f"{path} belongs to root, but PostgreSQL does not run as root. Give it to another user (chown -R)."
        )
    with suppress(KeyError):
        return pwd.getpwuid(uid)
    raise EmbeddedError(f"The user {uid} of {path} has no name, and PostgreSQL needs one. Add it to /etc/passwd.")
