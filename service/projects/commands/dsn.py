"""The DSNs of a project: verified, rotated, and the copies that can be read again.

R-PROJ-03 to R-PROJ-06, G-026, G-184.

Of a DSN the log keeps a hash. A copy that can be read again is sealed with the encryption key and kept beside the
project; without such a key (None) there is none.
"""

from __future__ import annotations

from typing import NamedTuple

from projections.projects.project import DSN_COPIES, PUBLIC, DsnCopyRow
from service.auth.sealing import DSN_COPY, PUBLIC_DSN_COPY, seal
from service.auth.secrets import SecretKind, digest, equal, kind_of, make, parse_dsn
from service.eventstore.declare.commands import Unit
from service.eventstore.declare.intents import Intent
from statemachines.kernel.machine import Stream
from statemachines.projects import project as projects
from statemachines.projects.project import decide_rotate, decide_rotate_public


class IssuedDsn(NamedTuple):
    """A project with a DSN that was just made; `key` is its secret part, `issued_at` in epoch seconds.

    `public_key` is the key of the public DSN where both were made together.
    """

    project_id: str
    name: str
    key: str
    prefix: str
    recoverable: bool
    issued_at: int
    public_key: str | None = None


class CheckedDsn(NamedTuple):
    """Whether a text is a DSN of the project, and whether it is the public one.

    `sent_project_id` is the project that the text names, if it names one: by its id, or another's by the alias.
    """

    project_id: str
    matches: bool
    prefix: str
    sent_project_id: str | None
    copied: bool
    public: bool = False


def verify(project_id: str, dsn: str, encryption_key: bytes | None) -> Intent[CheckedDsn]:
    """Compare a DSN, or its bare key, with the project's, and keep a missing copy of it. Never rotates (R-PROJ-04)."""
    project, sent = projects.stream(project_id), parse_dsn(dsn)
    sent_hash, public = digest(sent.key), kind_of(sent.key) is SecretKind.PUBLIC_DSN
    copy = seal_copy(encryption_key, project_id, sent.key, public=public)

    def decide(unit: Unit) -> CheckedDsn:
        state = unit.state(project)
        dsn_hash, prefix = (
            (state.public_dsn_hash, state.public_dsn_prefix) if public else (state.dsn_hash, state.dsn_prefix)
        )
        matches = equal(sent_hash, dsn_hash) and sent.names(project_id)
        if matches and copy is not None:
            # Also over a copy that exists: it may have been sealed under an earlier key.
            keep_copy(unit, project, sent_hash, copy, public=public)
        named = project_id if sent.named is not None and sent.names(project_id) else sent.named
        shown = prefix if matches else state.dsn_prefix
        return CheckedDsn(project_id, matches, shown, named, matches and copy is not None, matches and public)

    return Intent([project], decide)


def rotate(project_id: str, encryption_key: bytes | None, *, public: bool = False) -> Intent[IssuedDsn]:
    """Replace the DSN (R-PROJ-06), or the public one (G-184). Raises ProjectNotFound, ProjectDeletionInProgress.

    A fence of the project: nothing that rests on the DSN before commits after the answer.
    """
    project, secret = projects.stream(project_id), make(SecretKind.PUBLIC_DSN if public else SecretKind.DSN)
    copy = seal_copy(encryption_key, project_id, secret.text, public=public)
    decide_new = decide_rotate_public if public else decide_rotate

    def decide(unit: Unit) -> IssuedDsn:
        state = unit.append(project, decide_new(unit.state(project), secret.hash, secret.prefix, unit.now))
        keep_copy(unit, project, secret.hash, copy, public=public)
        return IssuedDsn(project_id, state.name, secret.text, secret.prefix, copy is not None, unit.now)

    return Intent([project], decide, fence=True)


def seal_copy(encryption_key: bytes | None, project_id: str, key: str, *, public: bool = False) -> str | None:
    """Seal the key of a DSN, or of the public one. None without an encryption key."""
    return seal(encryption_key, PUBLIC_DSN_COPY if public else DSN_COPY, project_id, key)


def keep_copy(unit: Unit, project: Stream, dsn_hash: str, copy: str | None, *, public: bool = False) -> None:
    """Put the sealed copy beside the project; None takes the place of a copy that no longer counts."""
    name = PUBLIC if public else project.id
    unit.put(project, DSN_COPIES, DsnCopyRow(project_id=project.id, id=name, dsn_hash=dsn_hash, ciphertext=copy))
