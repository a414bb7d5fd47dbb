"""The DSN of a project: verified, rotated, and the copy of it that can be read again (R-PROJ-03 to R-PROJ-06, G-026).

Of a DSN the log keeps a hash. A copy that can be read again is sealed with the encryption key and kept beside the
project; without such a key (None) there is none.
"""

from __future__ import annotations

from typing import NamedTuple

from projections.projects.project import DSN_COPIES, DsnCopyRow
from service.auth.sealing import DSN_COPY, seal
from service.auth.secrets import SecretKind, digest, equal, make, parse_dsn
from service.eventstore.declare.commands import Unit
from service.eventstore.declare.intents import Intent
from statemachines.kernel.machine import Stream
from statemachines.projects import project as projects
from statemachines.projects.project import decide_rotate


class IssuedDsn(NamedTuple):
    """A project with a DSN that was just made; `key` is its secret part, `issued_at` in epoch seconds."""

    project_id: str
    name: str
    key: str
    prefix: str
    recoverable: bool
    issued_at: int


class CheckedDsn(NamedTuple):
    """Whether a text is the project's DSN.

    `sent_project_id` is the project that the text names, if it names one: by its id, or another's by the alias.
    """

    project_id: str
    matches: bool
    prefix: str
    sent_project_id: str | None
    copied: bool


def verify(project_id: str, dsn: str, encryption_key: bytes | None) -> Intent[CheckedDsn]:
    """Compare a DSN, or its bare key, with the project's, and keep a missing copy of it; never rotates (R-PROJ-04)."""
    project, sent = projects.stream(project_id), parse_dsn(dsn)
    sent_hash = digest(sent.key)
    copy = seal(encryption_key, DSN_COPY, project_id, sent.key)

    def decide(unit: Unit) -> CheckedDsn:
        state = unit.state(project)
        matches = equal(sent_hash, state.dsn_hash) and sent.names(project_id)
        if matches and copy is not None:
            # Also over a copy that exists: it may have been sealed under an earlier key.
            keep_copy(unit, project, sent_hash, copy)
        named = project_id if sent.named is not None and sent.names(project_id) else sent.named
        return CheckedDsn(project_id, matches, state.dsn_prefix, named, matches and copy is not None)

    return Intent([project], decide)


def rotate(project_id: str, encryption_key: bytes | None) -> Intent[IssuedDsn]:
    """Replace the DSN (R-PROJ-06). Raises ProjectNotFound, ProjectDeletionInProgress.

    A fence of the project: nothing that rests on the DSN before commits after the answer.
    """
    project, secret = projects.stream(project_id), make(SecretKind.DSN)
    copy = seal(encryption_key, DSN_COPY, project_id, secret.text)

    def decide(unit: Unit) -> IssuedDsn:
        state = unit.append(project, decide_rotate(unit.state(project), secret.hash, secret.prefix, unit.now))
        keep_copy(unit, project, secret.hash, copy)
        return IssuedDsn(project_id, state.name, secret.text, secret.prefix, copy is not None, unit.now)

    return Intent([project], decide, fence=True)


def keep_copy(unit: Unit, project: Stream, dsn_hash: str, copy: str | None) -> None:
    """Put the sealed copy beside the project; None takes the place of a copy that no longer counts."""
    row = DsnCopyRow(project_id=project.id, id=project.id, dsn_hash=dsn_hash, ciphertext=copy)
    unit.put(project, DSN_COPIES, row)
