"""The alert rules and the dashboard ask for what a real server shows, and Prometheus takes every query of them."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families as parsed

from schemas.kernel.errors import CATALOGUE
from service.ingest.outcomes import KINDS, outcome_of
from service.jobs import declared
from tests.deploy.programs import program
from tests.support.rounds import wait_until
from tests.support.server import ServerHandle, free_port

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
SELECTOR = re.compile(r"\b(?P<name>(?:service_\w+|up))\b(?:\{(?P<labels>[^}]*)\})?")
LABEL = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
GROUPED = re.compile(r"\bby \(([^)]*)\)")
GIVEN = {"job", "instance"}  # Prometheus adds them
COMES_LATER = {  # counters that begin with what they count: their labels
    "service_ingest_records_total": {"kind", "outcome"},
    "service_scrubbed_values_total": {"kind"},
    "service_task_age_seconds": {"task"},
    "service_disk_free_bytes": set(),  # with an embedded database
    "service_copy_lag_seconds": {"table"},  # with a copy of telemetry
    "service_copy_stands_still": {"table"},
}
VALUES = {
    "code": set(CATALOGUE),
    "outcome": {"failed", "done", "suppressed", *(outcome_of(status) for status in (202, 400, 429))},
    "kind": set(KINDS.values()),
    "task": {task.name for task in declared()[0]},
}


def rules() -> list[dict[str, Any]]:
    """The alerts."""
    [group] = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def queries() -> dict[str, str]:
    """Every query, by where it stands; the dashboard's variables filled in."""
    found = {f"alert {rule['alert']}": rule["expr"] for rule in rules()}
    for panel in json.loads((MONITORING / "dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            place = f"panel {panel['title']} {target['refId']}"
            found[place] = target["expr"].replace("$job", "service").replace("$__rate_interval", "1m")
    return found


@pytest.fixture(scope="module")
def shown(server: ServerHandle) -> dict[str, list[dict[str, str]]]:
    """What a scrape shows: labels of the samples by name."""
    with server.client() as client:
        client.get("/v1/projects")
        # The worker begins after the first answer, and reads the log a moment later.
        wait_until(lambda: "service_reader_lag_seconds{" in client.get("/metrics").text, 20)
        text = client.get("/metrics").text
    found: dict[str, list[dict[str, str]]] = {name: [dict.fromkeys(labels, "")] for name, labels in COMES_LATER.items()}
    for family in parsed(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample.labels)
    return found


@pytest.mark.parametrize("place", queries())
def test_a_query_asks_for_what_is_there(place: str, shown: dict[str, list[dict[str, str]]]) -> None:
    """Each metric is in the scrape with the labels that the query selects or groups by; values are ones that occur."""
    query = queries()[place]
    asked = list(SELECTOR.finditer(query))
    assert asked
    labels: set[str] = set(GIVEN)
    for found in asked:
        if found["name"] == "up":
            continue
        assert found["name"] in shown, f"{place} asks for {found['name']}"
        has = set().union(*shown[found["name"]])
        labels |= has
        for name, operator, value in LABEL.findall(found["labels"] or ""):
            assert name in has | GIVEN, f"{place}: {found['name']} has no label {name}"
            if name in VALUES and operator in {"=", "=~"}:
                assert set(value.split("|")) <= VALUES[name], f"{place}: {name} is never {value}"
    for group in GROUPED.findall(query):
        assert {name.strip() for name in group.split(",")} <= labels, f"{place} groups by {group}"


def test_alerts_say_what_to_do() -> None:
    """Each has a severity, a summary and an action."""
    for rule in rules():
        assert rule["labels"]["severity"] in {"page", "ticket"}, rule["alert"]
        assert set(rule["annotations"]) == {"summary", "action"}, rule["alert"]


@pytest.fixture(scope="module")
def prometheus(server: ServerHandle, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    """A Prometheus with our configuration that has scraped the server."""
    directory, port = tmp_path_factory.mktemp("prometheus"), free_port()
    text = (MONITORING / "prometheus.yml").read_text()
    assert text.count("127.0.0.1:8000") == 1
    text = text.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}").replace("interval: 15s", "interval: 1s")
    (directory / "prometheus.yml").write_text(text)
    (directory / "alerts.yml").write_text((MONITORING / "alerts.yml").read_text())
    options = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", f"--web.listen-address=127.0.0.1:{port}"]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [program("prometheus", "prometheus"), *options], cwd=directory, stdout=log, stderr=log
        )
    try:
        with httpx2.Client(base_url=f"http://127.0.0.1:{port}/api/v1", timeout=10) as client:
            give_up = time.monotonic() + 30
            while not asked(client, "service_figures_readable"):
                assert time.monotonic() < give_up, (directory / "log").read_text()
                time.sleep(0.2)
            yield client
    finally:
        process.terminate()
        process.wait()


def asked(client: httpx2.Client, query: str) -> list[Any]:
    """The result of a query; none while Prometheus is not up."""
    with suppress(httpx2.TransportError):
        answer = client.get("/query", params={"query": query})
        if answer.status_code != 503:
            assert answer.json()["status"] == "success", f"{query}: {answer.text}"
            return list(answer.json()["data"]["result"])
    return []


def test_prometheus_takes_every_query(prometheus: httpx2.Client) -> None:
    """None is an error, and on what was scraped from a healthy server no alert holds."""
    for place, query in queries().items():
        found = asked(prometheus, query)
        if place.startswith("alert "):
            assert found == [], f"{place}: {found}"
    groups = prometheus.get("/rules").json()["data"]["groups"]
    assert {rule["name"] for group in groups for rule in group["rules"]} == {rule["alert"] for rule in rules()}
    assert {rule.get("lastError", "") for group in groups for rule in group["rules"]} == {""}
    up = asked(prometheus, 'up{job="service"}')
    assert [result["value"][1] for result in up] == ["1"]


def test_promtool_takes_the_files(tmp_path: Path) -> None:
    """Its checker has nothing to say, and what should fire does."""
    promtool = program("promtool", "prometheus")
    for kind, name in (("rules", "alerts.yml"), ("config", "prometheus.yml")):
        done = subprocess.run([promtool, "check", kind, MONITORING / name], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    cases = {
        "ServiceDown": ('up{job="service"}', "0x9"),
        "ServiceDatabaseGone": ('service_database_gone{job="service"}', "1x9"),
        "ServiceLogNotNumbered": ('service_sequencer_lag_seconds{job="service"}', "60+60x9"),
        "ServiceNoWorker": ('service_workers{job="service"}', "0x9"),
        "ServiceSweepStopped": ('service_task_age_seconds{job="service",task="automation.sweep"}', "600+60x9"),
        "ServiceBug": ('service_refusals_total{job="service",code="internal_error"}', "0+1x9"),
        "ServiceDiskFull": ('service_disk_full{job="service"}', "1x9"),
        "ServiceDiskLow": ('service_disk_free_bytes{job="service"}', "1000000000x9"),
        "ServiceJobsFailing": ('service_job_runs_total{job="service",task="t",outcome="failed"}', "0+1x9"),
        "ServiceInDoubt": ('service_in_doubt_total{job="service",part="loop"}', "0+1x9"),
    }
    tests = [
        {
            "interval": "1m",
            "input_series": [
                {"series": series, "values": values},
                {"series": 'service_ingest_in_doubt_total{job="service"}', "values": "0x9"},
            ],
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}})',
                    "eval_time": "8m",
                    "exp_samples": [{"value": 1}],
                }
            ],
        }
        for alert, (series, values) in cases.items()
    ]
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": [str(MONITORING / "alerts.yml")], "tests": tests}))
    done = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
