"""The files of deploy/ha are taken by compose, systemd and Patroni, and say what the drill and the page say."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.embedded.programs import wheel_programs
from tests.deploy.programs import check_unit, composed
from tests.failover.hosts import CONFIGURATION, PATRONI

ROOT = Path(__file__).parents[2]
HA = ROOT / "deploy" / "ha"
PAGE = ROOT / "docs" / "how-to" / "survive-a-host.md"
DATABASES = ("database1", "database2", "database3")
UNITS = ("etcd", "patroni", "service-worker")


def composed_services() -> dict[str, Any]:
    """The services of the compose file, which compose accepts, with what its parts share."""
    found: dict[str, Any] = yaml.safe_load((HA / "compose.yaml").read_text())["services"]
    assert set(yaml.safe_load(composed(HA / "compose.yaml"))["services"]) == set(found)
    return found


def test_compose_accepts_three_databases_three_etcd_two_api_machines_and_a_worker() -> None:
    """Each has its own volume and names, and all that serve have the same settings and the same ledger of erasures."""
    services = composed_services()
    keepers = [f"etcd{number}" for number in (1, 2, 3)]
    assert sorted(services) == sorted([*keepers, *DATABASES, "api1", "api2", "worker"])
    for name in DATABASES:
        told = services[name]["environment"]
        assert told["PATRONI_NAME"] == name
        assert told["PATRONI_ETCD3_HOSTS"] == ",".join(f"{keeper}:2379" for keeper in keepers)
        assert (told["PATRONI_RESTAPI_CONNECT_ADDRESS"], told["PATRONI_POSTGRESQL_CONNECT_ADDRESS"]) == (
            f"{name}:8008",
            f"{name}:5432",
        )
        assert services[name]["volumes"] == [f"{name}:/var/lib/postgresql"]
    for name in keepers:
        assert services[name]["environment"]["ETCD_NAME"] == name
        assert services[name]["volumes"] == [f"{name}:/data"]
    serving = [services[name] for name in ("api1", "api2", "worker")]
    assert all(one["environment"] == serving[0]["environment"] for one in serving)
    assert all(one["volumes"] == ["shared:/data"] for one in serving)
    assert all(set(one["depends_on"]) == set(DATABASES) for one in serving[:2])


def test_the_addresses_of_the_secrets_name_all_hosts_and_ask_for_the_one_that_writes() -> None:
    [line] = re.findall(r"secrets/database_url +(\S+)", (HA / "compose.yaml").read_text())
    assert line.endswith(f"@{','.join(DATABASES)}/service?target_session_attrs=read-write")


@pytest.mark.parametrize("name", UNITS)
def test_systemd_accepts_a_unit(name: str, tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to say, once its program is one that is here."""
    unit = tmp_path / f"{name}.service"
    text = re.sub(
        r"^ExecStart=\S+", f"ExecStart={sys.executable}", (HA / f"{name}.service").read_text(), flags=re.MULTILINE
    )
    unit.write_text(text.replace("file:/opt/service", "file:/"))
    check_unit(unit)


def test_the_worker_is_hardened_as_the_api_is() -> None:
    """Its unit differs in what it starts and how it tells that it has."""
    differs = ("#", "Description=", "After=", "Type=", "NotifyAccess=", "ExecStart=")
    api, worker = (
        [line for line in path.read_text().splitlines() if not line.startswith(differs)]
        for path in (HA.parent / "service.service", HA / "service-worker.service")
    )
    assert worker == api


def test_the_drill_and_the_page_tell_the_values_of_the_file() -> None:
    """What an operator runs is what was drilled."""
    told = yaml.safe_load((HA / "patroni.yml").read_text())["bootstrap"]["dcs"]
    assert told == CONFIGURATION
    page = PAGE.read_text()
    for name, value in told.items():
        if name != "postgresql":
            written = json.dumps(value).strip('"')
            assert f"| `{name}` | {written} |" in page, name


def test_patroni_accepts_its_file(tmp_path: Path) -> None:
    """With the environment of a host, `patroni --validate-config` misses nothing but the etcd of the test."""
    if not PATRONI.is_file():
        pytest.skip("`make failover` installs Patroni")
    told = {
        "PATRONI_NAME": "database1",
        "PATRONI_ETCD3_HOSTS": "127.0.0.1:2379",
        "PATRONI_RESTAPI_CONNECT_ADDRESS": "database1:8008",
        "PATRONI_POSTGRESQL_CONNECT_ADDRESS": "database1:5432",
        "PATRONI_POSTGRESQL_BIN_DIR": str(wheel_programs()),
        **{f"PATRONI_{role}_PASSWORD": "word" for role in ("SUPERUSER", "REPLICATION", "REWIND")},
    }
    done = subprocess.run(
        [str(PATRONI), "--validate-config", "--ignore-listen-port", str(HA / "patroni.yml")],
        env={**os.environ, **told},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    assert [line for line in said if not line.endswith("127.0.0.1:2379 is not reachable")] == []
