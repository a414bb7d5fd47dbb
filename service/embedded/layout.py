"""Where the embedded database has its files and secrets, and who owns them."""

import base64
import hashlib
import os
import pwd
import re
import secrets
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

# Whether a path can be the data directory, and if not, why, in one sentence.

_OF_POSTGRES = "PG_VERSION"


def unfit(data_dir: Path, *, makes: bool) -> str | None:
    """Why this cannot be the data directory; None when it can, or when it is not there and could be made.

    With `makes` what is missing is to be made, so that whoever asks has to be allowed to. An answer names the path.
    """
    there = next(path for path in (data_dir, *data_dir.parents) if _exists(path))
    who = f"user {os.geteuid()}"
    if not there.is_dir():
        return f"{data_dir} cannot be the data directory: {there} is a file."
    if not os.access(there, os.X_OK):
        return f"{data_dir} cannot be the data directory: {there} is closed to {who}, who runs this."
    if (data_dir / _OF_POSTGRES).exists():
        return f"{data_dir} is the directory of PostgreSQL itself. The data directory is the one above it."
    if makes and not os.access(there, os.W_OK):
        return f"{data_dir} cannot be the data directory: {who}, who runs this, may not write to {there}."
    return None


def _exists(path: Path) -> bool:
    """Whether a path is there, or hidden in a directory that may not be entered: then that one is what is wrong."""
    try:
        return path.exists()
    except OSError:  # below a file, or in a directory that may not be entered
        return False


# What goes wrong with the embedded server.


class EmbeddedError(Exception):
    """The embedded server cannot be made, started or reached; the message says why and what to do."""


# The user that the embedded server runs as: ourselves, and somebody else when we are root, as PostgreSQL is never.

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


# The paths of the embedded mode under the data directory, and the addresses of its server.

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
    def upgraded(self) -> Path:
        """The files of a newer PostgreSQL, about to replace `cluster`. Under this name they are whole."""
        return self.data_dir / "postgres.upgraded"

    @property
    def begun(self) -> bool:
        """Whether there is a database."""
        return self.cluster.is_dir() or self.upgraded.is_dir()

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


# Secrets made by embedded mode for itself: one file each, readable by their owner alone.


def stored_secret(layout: Layout, name: str, size: int) -> str:
    """Read the secret `name`, made first (`size` random bytes as base64) when there is none.

    Two processes that start at once get the same one: the file appears whole, by a link that fails when the name is
    taken. Raises OSError when the directory cannot be written.
    """
    path = layout.secrets / name
    with suppress(FileNotFoundError):
        return path.read_text(encoding="ascii").strip()
    layout.make()
    layout.secrets.mkdir(mode=0o700, exist_ok=True)
    draft = layout.secrets / f".{name}.{os.getpid()}.{secrets.token_hex(4)}"
    _write_private(draft, base64.b64encode(secrets.token_bytes(size)) + b"\n")
    try:
        with suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
    _sync_directory(layout.secrets)
    return path.read_text(encoding="ascii").strip()


def _write_private(path: Path, content: bytes) -> None:
    """Write a new file with mode 0600 and bring it to disk: a lost key makes sealed data unreadable."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    """Bring new names in a directory to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
