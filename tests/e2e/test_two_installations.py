"""Two whole installations cosign each other's logs, and one that rewrites its history loses the other's word (P20)."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx2
import psycopg

from service.tlog.notes import Checkpoint, KeyPair, TlogPolicy, VerifierKey, parse_checkpoint, parse_note, parse_policy
from service.tlog.signing import ORIGIN_PREFIX
from service.witness.server import read_pair
from tests.support.accounts import create_project, sign_in
from tests.support.cluster import TestCluster
from tests.support.server import ServerFactory, ServerHandle, clean_environment

PATIENCE = 120.0
REWRITTEN = 2
"""The position of the event that `REWRITE` alters."""
REWRITE = """
alter table events disable trigger all;
alter table log_checkpoints disable trigger all;
alter table log_cosignatures disable trigger all;
update events set leaf = sha256('another history') where seq = (select seq from log_index where position = 2);
delete from log_cosignatures;
delete from log_checkpoints;
alter table events enable trigger all;
alter table log_checkpoints enable trigger all;
alter table log_cosignatures enable trigger all;
"""


class Watcher(NamedTuple):
    """A running witness."""

    address: str
    keys: tuple[VerifierKey, ...]

    def newest(self, origin: str) -> Checkpoint:
        """The newest checkpoint that it has cosigned of a log."""
        answer = httpx2.get(f"{self.address}/{hashlib.sha256(origin.encode()).hexdigest()}/checkpoint")
        assert answer.status_code == 200
        return parse_checkpoint(parse_note(answer.content).text)


def size_of(note: bytes) -> int:
    """How many events a checkpoint covers; 0 for no checkpoint."""
    return parse_checkpoint(parse_note(note).text).size if note else 0


class Installation(NamedTuple):
    """A server on a database of its own, with what an outsider knows of its log."""

    server: ServerHandle
    url: str
    origin: str
    keys: tuple[VerifierKey, ...]

    def note(self) -> bytes:
        """The newest checkpoint, as anybody reads it."""
        with self.server.client() as client:
            answer = client.get("/v1/log/checkpoint")
            return answer.content if answer.status_code == 200 else b""

    def size(self) -> int:
        """How many events the newest checkpoint covers; 0 before the first."""
        return size_of(self.note())

    def grow(self) -> None:
        """Append some events."""
        with self.server.client() as client:
            key = sign_in(client, self.server.internal_token)
        with self.server.client(key) as client:
            create_project(client, key)


@contextmanager
def watching(directory: Path, name: str, log: tuple[VerifierKey, ...]) -> Iterator[Watcher]:
    """Run `service witness serve` for a log."""
    command = [sys.executable, "-m", "service", "witness"]
    common = ["--state", str(directory / name), "--name", name]
    environment = clean_environment()
    logs = [word for key in log for word in ("--log", key.vkey)]
    with subprocess.Popen(
        [*command, "serve", *common, *logs, "--port", "0"], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith(f"Witness {name} on "), line
            yield Watcher(line.split()[-1], read_pair(directory / name).as_witness(name))
        finally:
            process.terminate()


def prepared(factory: ServerFactory, url: str, admin_url: str, secret: str, policy: Path) -> Installation:
    """Make its keys, and an origin that is not that of the databases' template. It is not started."""
    origin = f"{ORIGIN_PREFIX}{secret[:32]}"
    with psycopg.connect(admin_url, autocommit=True) as sql:
        sql.execute("alter table log_origins disable trigger all")
        sql.execute("update log_origins set origin = %s", (origin,))
        sql.execute("alter table log_origins enable trigger all")
    env = {
        "SERVICE_SIGNING_KEY": secret,
        "SERVICE_WITNESS_POLICY": str(policy),
        "SERVICE_WITNESS_ALLOW_PRIVATE": "1",
    }
    keys = KeyPair.derive(bytes.fromhex(secret), "log").as_log(origin)
    return Installation(factory.prepare(database_url=url, env=env), url, origin, keys)


def policy_about(witness: Watcher) -> str:
    """The lines about a witness, both of whose keys must have cosigned."""
    first, second = witness.keys
    return (
        f"witness e {first.vkey} {witness.address}\nwitness m {second.vkey} {witness.address}\n"
        "group both all e m\nquorum both\n"
    )


def outsiders(log: Installation, witness: Watcher) -> TlogPolicy:
    """The policy of somebody who trusts a log under the eyes of the other installation."""
    return parse_policy(f"log {log.keys[0].vkey}\n{policy_about(witness)}".encode())


def has_grown(log: Installation, policy: TlogPolicy) -> bool:
    """Is its newest checkpoint a cosigned one of events? That of the empty log is cosigned as well."""
    note = log.note()
    return size_of(note) > REWRITTEN and policy.accepts(parse_note(note))


def wait_until(holds: Callable[[], bool], what: Callable[[], str]) -> None:
    give_up = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < give_up, what()
        time.sleep(0.1)


def test_each_cosigns_the_other_and_refuses_its_fork(
    cluster: TestCluster, server_factory: ServerFactory, tmp_path: Path
) -> None:
    """B rewrites an event that A's witness has cosigned, with the rights of the owner of its machine."""
    policies = tmp_path / "a.policy", tmp_path / "b.policy"
    with cluster.database() as first, cluster.database() as second:
        a = prepared(server_factory, first, cluster.admin_url(first), "aa" * 32, policies[0])
        b = prepared(server_factory, second, cluster.admin_url(second), "bb" * 32, policies[1])
        assert a.origin != b.origin
        with watching(tmp_path, "a.example", b.keys) as of_a, watching(tmp_path, "b.example", a.keys) as of_b:
            for policy, other in zip(policies, (of_b, of_a), strict=True):
                policy.write_text(policy_about(other))
            a.server.begin()
            b.server.begin()
            for one, other in ((a, of_b), (b, of_a)):
                one.server.wait_until_ready(PATIENCE)
                one.grow()
                wait_until(partial(has_grown, one, outsiders(one, other)), one.server.log)
            b.server.stop()
            seen = of_a.newest(b.origin)
            with psycopg.connect(cluster.admin_url(b.url), autocommit=True) as admin:
                admin.execute(REWRITE)
                [[size]] = admin.execute("select size from log_state").fetchall()
            [beside] = Path(b.server.env["SERVICE_DATA_DIR"]).glob("*.checkpoint")
            beside.unlink()
            assert size >= seen.size > 0

            b.server.begin()
            b.server.wait_until_ready(PATIENCE)
            b.grow()
            refusal = '"status": 422'
            wait_until(lambda: "witness_refused" in b.server.log() and refusal in b.server.log(), b.server.log)
            wait_until(lambda: b.size() > seen.size, lambda: "B itself sees nothing wrong")
            forked = parse_note(b.note())
            assert not outsiders(b, of_a).accepts(forked)
            assert of_a.newest(b.origin) == seen, "A stands by the history that it saw"

            before = of_b.newest(a.origin).size
            a.grow()
            wait_until(lambda: of_b.newest(a.origin).size > before, a.server.log)
            a.server.stop()
            b.server.stop()
