"""The Helm chart of deploy/kubernetes, rendered by Helm's own code and held against the schemas of Kubernetes."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.http.measure.gauges import GAUGES
from service.settings import VARIABLES
from tests.deploy.charts import PYTHON, RELEASE
from tests.support import few_or_many

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "kubernetes"
VERSIONS = ["1.25", "1.33", "1.37"]
NEEDED: dict[str, Any] = {
    "image": {"repository": "registry.example/service", "tag": "3.1.0"},
    "baseUrl": "https://service.example.com",
    "secret": "service",
    "ledger": "service-ledger",
}
Render = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture(scope="module")
def render() -> Iterator[Render]:
    """Asks Helm's code, which runs in an environment of its own."""
    if not PYTHON.is_file():
        pytest.skip("`make .charts/.installed` installs Helm's code")
    command = [str(PYTHON), str(Path(__file__).with_name("charts.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asking, answering = process.stdin, process.stdout

        def ask(values: dict[str, Any]) -> dict[str, Any]:
            asking.write(json.dumps({"chart": str(CHART), "values": values, "versions": VERSIONS}) + "\n")
            asking.flush()
            found: dict[str, Any] = json.loads(answering.readline())
            return found

        yield ask
        asking.close()


def all_of(answer: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    """The manifests by kind and name. Fails when there are none, or when lint or a schema has something to say."""
    assert (answer["refused"], answer["lint"], answer["schemas"]) == (None, [], [])
    several = [manifest for manifests in answer["manifests"].values() for manifest in manifests]
    return {(one["kind"], one["metadata"]["name"]): one for one in several}


def test_it_renders_what_kubernetes_takes(render: Render) -> None:
    """With the four values that it needs; three versions of Kubernetes know every member."""
    found = all_of(render(NEEDED))
    assert set(found) == {
        ("Deployment", f"{RELEASE}-api"),
        ("Deployment", f"{RELEASE}-worker"),
        ("Job", f"{RELEASE}-migrate"),
        ("Service", f"{RELEASE}-api"),
        ("PodDisruptionBudget", f"{RELEASE}-api"),
        ("HorizontalPodAutoscaler", f"{RELEASE}-api"),
        ("NetworkPolicy", RELEASE),
    }
    assert "replicas" not in found["Deployment", f"{RELEASE}-api"]["spec"], "the autoscaler decides"


def test_its_selectors_find_the_pods_of_their_part_alone(render: Render) -> None:
    """The Service and the budget are those of the API; the policy is that of all pods."""
    found = all_of(render(NEEDED))
    api, worker = (found["Deployment", f"{RELEASE}-{part}"]["spec"] for part in ("api", "worker"))
    assert api["selector"]["matchLabels"] == api["template"]["metadata"]["labels"]
    assert worker["selector"]["matchLabels"] == worker["template"]["metadata"]["labels"]
    assert api["selector"] != worker["selector"]
    assert found["Service", f"{RELEASE}-api"]["spec"]["selector"] == api["selector"]["matchLabels"]
    assert found["PodDisruptionBudget", f"{RELEASE}-api"]["spec"]["selector"] == api["selector"]
    policy = found["NetworkPolicy", RELEASE]["spec"]["podSelector"]["matchLabels"].items()
    job = found["Job", f"{RELEASE}-migrate"]["spec"]
    for workload in (api, worker, job):
        assert policy <= workload["template"]["metadata"]["labels"].items()


def test_no_secret_stands_in_a_manifest(render: Render) -> None:
    """Secrets are files of a Secret that the operator made; each file is a setting that may be one."""
    found = all_of(render(NEEDED))
    assert not any(kind in {"Secret", "ConfigMap"} for kind, _ in found)
    secret = {variable.name for variable in VARIABLES if variable.secret}
    for name in ("api", "worker"):
        [container] = found["Deployment", f"{RELEASE}-{name}"]["spec"]["template"]["spec"]["containers"]
        told = {one["name"]: one["value"] for one in container["env"]}
        assert not secret & set(told)
        files = {name.removesuffix("_FILE"): path for name, path in told.items() if name.endswith("_FILE")}
        assert set(files) <= secret
        text = (CHART / "values.yaml").read_text()
        assert all(Path(path).parent == Path("/run/secrets/service") for path in files.values())
        assert all(Path(path).name in text for path in files.values()), "the values name the keys of the Secret"


def test_every_pod_is_held_to_the_restricted_standard(render: Render) -> None:
    """Not root, no capability, no privilege, a root that nobody writes to, and no token of the cluster."""
    found = all_of(render(NEEDED))
    for kind, name in [("Deployment", "api"), ("Deployment", "worker"), ("Job", "migrate")]:
        pod = found[kind, f"{RELEASE}-{name}"]["spec"]["template"]["spec"]
        assert pod["automountServiceAccountToken"] is False
        assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["seccompProfile"]) == (
            True,
            {"type": "RuntimeDefault"},
        )
        [container] = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        user = re.search(r"useradd .*--uid (\d+)", (ROOT / "deploy" / "Dockerfile").read_text())
        assert user is not None
        assert pod["securityContext"]["runAsUser"] == int(user[1])


def test_it_scales_by_what_waits_in_the_queues(render: Render) -> None:
    """The figures are gauges of `/metrics`."""
    scaler = all_of(render(NEEDED))["HorizontalPodAutoscaler", f"{RELEASE}-api"]["spec"]
    figures = {metric["pods"]["metric"]["name"] for metric in scaler["metrics"]}
    assert figures == {"service_commands_waiting", "service_reads_waiting", "service_ingest_waiting"}
    assert figures <= {gauge.name for gauge in GAUGES}


def test_what_is_switched_off_is_absent(render: Render) -> None:
    """Without autoscaling the API has its number of replicas, and without a policy there is none."""
    values = {**NEEDED, "autoscaling": {"enabled": False}, "network": {"enabled": False}, "api": {"replicas": 3}}
    found = all_of(render(values))
    assert {kind for kind, _ in found} == {"Deployment", "Job", "Service", "PodDisruptionBudget"}
    assert found["Deployment", f"{RELEASE}-api"]["spec"]["replicas"] == 3


@pytest.mark.parametrize("absent", NEEDED)
def test_what_it_needs_is_asked_for(render: Render, absent: str) -> None:
    """A value that is missing or empty is named, before anything reaches a cluster."""
    refused = render({name: value for name, value in NEEDED.items() if name != absent})["refused"]
    assert refused is not None
    assert absent in refused


@pytest.mark.parametrize("wrong", [{"replica": 2}, {"settings": {"PATH": "/"}}, {"api": {"replicas": -1}}])
def test_what_it_does_not_know_is_refused(render: Render, wrong: dict[str, Any]) -> None:
    """A misspelt value does not pass silently."""
    assert render({**NEEDED, **wrong})["refused"] is not None


TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=12)
NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
VALUES = st.fixed_dictionaries(
    {
        "image": st.fixed_dictionaries({"repository": NAMES, "tag": NAMES}),
        "baseUrl": st.builds("https://{}.example".format, NAMES),
        "secret": NAMES,
        "ledger": NAMES,
    },
    optional={
        "settings": st.dictionaries(
            st.from_regex(r"SERVICE_[A-Z][A-Z_]{0,10}", fullmatch=True),
            st.one_of(TEXTS, st.integers(0, 10**12), st.booleans()),
            max_size=3,
        ),
        "api": st.fixed_dictionaries({"replicas": st.integers(0, 1000)}),
        "autoscaling": st.fixed_dictionaries(
            {"enabled": st.booleans(), "min": st.integers(1, 9), "max": st.integers(9, 10**6)}
        ),
        "minAvailable": st.integers(0, 100),
        "podAnnotations": st.dictionaries(NAMES, TEXTS, max_size=2),
        "nodeSelector": st.dictionaries(NAMES, NAMES, max_size=2),
    },
)


@few_or_many(15, 150)
@given(values=VALUES)
def test_whatever_the_values_kubernetes_takes_it(render: Render, values: dict[str, Any]) -> None:
    """Generated values that the schema allows: settings arrive as they were written, in all three workloads."""
    found = all_of(render(values))
    for kind, name in [("Deployment", "api"), ("Deployment", "worker"), ("Job", "migrate")]:
        [container] = found[kind, f"{RELEASE}-{name}"]["spec"]["template"]["spec"]["containers"]
        told = {one["name"]: one["value"] for one in container["env"]}
        for setting, value in values.get("settings", {}).items():
            assert told[setting] == (json.dumps(value) if isinstance(value, bool | int) else value)
