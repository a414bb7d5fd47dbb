"""The paths of the embedded mode under the data directory, and the addresses of its server."""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from service.embedded.errors import EmbeddedError
from service.embedded.owner import owner_of
from service.embedded.place import unfit

# A socket address holds 107 bytes, and PostgreSQL appends "/.s.PGSQL.5432" to the directory.
SOCKET_DIR_BYTES = 90
SOCKET_NAME = ".s.PGSQL.5432"
PORT = 5432  # only names the socket: the server listens on no network address
ADMIN = "postgres"
ROLE = "service"
DATABASE = "service"
SHORTEST_TEMPORARY = Path("/tmp")  # noqa: S108 - whoever uses it checks whose directory it is


@dataclass(frozen=True)
class Layout:
    """Paths under one data directory (absolute)."""

    data_dir: Path

    @property
    def secrets(self) -> Path:
        """Generated secrets, one file each."""
        return self.data_dir / "secrets"

    @property
    def cluster(self) -> Path:
        """The PostgreSQL data directory."""
        return self.data_dir / "postgres"

    @property
    def rules(self) -> Path:
        """Who may connect as whom (the server's hba_file). Ours, not the server's, which could be made to write it."""
        return self.data_dir / "pg_hba.conf"

    @property
    def names(self) -> Path:
        """Which users of the machine are which roles (its ident_file)."""
        return self.data_dir / "pg_ident.conf"

    @property
    def user(self) -> pwd.struct_passwd:
        """The user that the server runs as. Raises EmbeddedError when there is none."""
        return owner_of(self.data_dir, self.cluster)

    @property
    def log(self) -> Path:
        """The log of the PostgreSQL server."""
        return self.data_dir / "postgres.log"

    @property
    def ballast(self) -> Path:
        """A file without content, given up first when the disk fills."""
        return self.data_dir / "ballast"

    @property
    def locks(self) -> Path:
        """Lock files; empty, and never removed."""
        return self.data_dir / "locks"

    @cached_property
    def socket_dir(self) -> Path:
        """Directory of the server's socket: in the data directory, or among temporary files when that does not fit."""
        inside = self.data_dir / "run"
        short = f"service-{hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:16]}"
        places = (inside, Path(tempfile.gettempdir()) / short)
        return next(filter(_fits_a_socket, places), SHORTEST_TEMPORARY / short)

    @property
    def socket_dir_is_temporary(self) -> bool:
        """Whether the socket's directory lies outside of the data directory."""
        return self.socket_dir.parent != self.data_dir

    @property
    def socket(self) -> Path:
        """The server's socket."""
        return self.socket_dir / SOCKET_NAME

    @property
    def url(self) -> str:
        """Address of the service's database, as the service's role."""
        return self.address(ROLE, DATABASE)

    @property
    def admin_url(self) -> str:
        """Address of the maintenance database, as the superuser."""
        return self.address(ADMIN, "postgres")

    def address(self, role: str, database: str) -> str:
        """URL of a database of this server. Who connects to it refuses a socket that another user listens on."""
        host, user = quote(str(self.socket_dir), safe=""), quote(self.user.pw_name, safe="")
        return f"postgresql://{role}@/{database}?host={host}&port={PORT}&requirepeer={user}"

    def make(self) -> None:
        """Create the data directory and its plain parts.

        Others may pass through the data directory but not list it: started as root, the server runs as another user
        and has to reach its own directory inside. Raises EmbeddedError.
        """
        if problem := unfit(self.data_dir, makes=True):
            raise EmbeddedError(problem)
        try:
            if not self.data_dir.is_dir():
                self.data_dir.mkdir(parents=True, exist_ok=True)
                self.data_dir.chmod(0o711)
            self.locks.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise EmbeddedError(f"The data directory {self.data_dir} cannot be made: {error.strerror}.") from error


def temporary_directory(prefix: str) -> Path:
    """Make a temporary directory for data directories: started as root, their servers' user has to pass through it."""
    directory = Path(tempfile.mkdtemp(prefix=prefix))
    directory.chmod(0o711)
    return directory


def _fits_a_socket(directory: Path) -> bool:
    """Whether the path is short enough, and free of characters that mean something in PostgreSQL's list."""
    return len(os.fsencode(directory)) <= SOCKET_DIR_BYTES and bool(
        re.fullmatch(r"[\w/.+@=-]+", str(directory), re.ASCII)
    )
