"""Renders a chart by Helm's own code and holds what it renders against the schemas of Kubernetes.

It runs in the environment of `requirements/charts.txt`: a line of JSON in (the chart, values, versions of Kubernetes),
a line out: the manifests by template, or why there are none, then what lint and schemas say.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

PYTHON = Path(__file__).parents[2] / ".charts" / "venv" / "bin" / "python"
RELEASE = "example"
WARNING = 2


def rendered(chart: Any, values: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The manifests of each template that has some."""
    import yaml

    chart.validate_schema(values)
    files = chart.render(values, name=RELEASE, namespace="default")
    found = {
        Path(name).name: [one for one in yaml.safe_load_all(text) if one]
        for name, text in files.items()
        if not name.endswith((".tpl", ".txt"))
    }
    return {name: manifests for name, manifests in found.items() if manifests}


def refusals(manifests: dict[str, list[dict[str, Any]]], versions: list[str]) -> list[str]:
    """What the strict schemas of these versions refuse: unknown members too."""
    import kubernetes_validate

    refused = []
    for version in versions:
        for name, several in manifests.items():
            for manifest in several:
                try:
                    kubernetes_validate.validate(manifest, version, strict=True)
                except kubernetes_validate.ValidationError as error:
                    refused.append(f"{version} {name} {manifest['kind']}: {error.message}")
    return refused


def answer(asked: dict[str, Any]) -> dict[str, Any]:
    """Carry out one question."""
    import helm_python as helm

    linted = helm.lint(asked["chart"], asked["values"], strict=True)
    said = [message["error"] for message in linted["messages"] if message["severity"] >= WARNING]
    try:
        with helm.Chart.load(asked["chart"]) as chart:
            manifests = rendered(chart, asked["values"])
    except helm.HelmError as error:
        return {"refused": str(error), "lint": said, "manifests": {}, "schemas": []}
    return {
        "refused": None,
        "lint": said,
        "manifests": manifests,
        "schemas": refusals(manifests, asked["versions"]),
    }


def main() -> None:
    """Answer each line until there are no more."""
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
