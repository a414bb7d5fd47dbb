"""A rebuild with an unrelated line more opens no new case, whatever bundled it, when its map was uploaded (G-174)."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import httpx2
import pytest

from service.cases.sourcemaps.frames import parse_stack
from tests.clients.test_generators import HERE, MODULES, pytestmark, run
from tests.support.accounts import bearer, create_project, sign_in
from tests.support.server import ServerHandle

__all__ = ["pytestmark"]

URL = "https://shop.example/assets/app.js"
PAY = """
export function describe(order) {
  return order.lines.map((line) => line.name + " x" + line.count).join(", ");
}

export class Till {
  constructor(currency) {
    this.currency = currency;
  }

  charge(order) {
    if (order.total < 0) {
      throw new RangeError("Order " + order.id + " cannot be charged: " + describe(order));
    }
    return order.total + this.currency;
  }
}
"""
MAIN = """
import { Till } from "./pay.js";

const till = new Till(process.argv[2]);
for (const id of [1, 2]) {
  try {
    till.charge({ id, total: id - 2, lines: [{ name: "tea", count: id }] });
  } catch (error) {
    console.log(JSON.stringify({ type: error.constructor.name, message: error.message, stack: error.stack }));
  }
}
"""
UNRELATED = """
export function refund(order) {
  return { ...order, total: -order.total };
}
"""


def build(folder: Path, bundler: str, *, changed: bool) -> dict[str, Any]:
    """Build the product and run it; returns the error of its bundle."""
    (folder / "src").mkdir(parents=True)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "src" / "pay.js").write_text(UNRELATED + PAY if changed else PAY)
    main = "import { refund } from './pay.js';\nglobalThis.refund = refund;\n" + MAIN if changed else MAIN
    (folder / "src" / "main.js").write_text(main)
    run(folder, "node", HERE / "src" / "bundle.cjs", bundler, folder, NODE_PATH=str(MODULES))
    error: dict[str, Any] = json.loads(run(folder, "node", folder / "dist" / "app.js", "EUR").splitlines()[0])
    return error


def upload(client: httpx2.Client, project_id: str, release: str, dist: Path) -> None:
    """Upload the bundle and its map."""
    for kind, name in (("source_map", "app.js.map"), ("minified_source", "app.js")):
        client.put(
            f"/v1/projects/{project_id}/source-maps",
            params={"release": release, "source_url": "~/assets/app.js", "kind": kind},
            content=(dist / name).read_bytes(),
        ).raise_for_status()


def report(client: httpx2.Client, dsn: str, release: str, error: dict[str, Any]) -> dict[str, Any]:
    """Report the error of a bundle as a browser would; returns the case that it is in."""
    frames = [
        {"file": URL, "line": frame.line, "column": frame.column, "function": frame.function, "in_app": True}
        for frame in parse_stack(error["stack"])
        if frame.source_url is not None and frame.source_url.endswith("app.js")
    ]
    exception = {"type": error["type"], "frames": frames}
    body = {"message": error["message"], "release": release, "extra": {"exception": exception}}
    while True:  # The first error after a start may find its map late.
        sent = client.post("/v1/logs/", json=body, headers=bearer(dsn)).raise_for_status().json()
        case: dict[str, Any] = client.get(f"/v1/cases/{sent['case_id']}").raise_for_status().json()
        if "map_late" not in case["grouping"]["evidence"]:
            return case
        body["message"] += " "


@pytest.mark.parametrize("bundler", ["esbuild", "rollup", "webpack", "terser"])
def test_a_rebuild_opens_no_new_case(server: ServerHandle, tmp_path: Path, bundler: str) -> None:
    errors = {release: build(tmp_path / release, bundler, changed=release == "2.0") for release in ("1.0", "2.0")}
    bundles = [(tmp_path / release / "dist" / "app.js").read_text() for release in errors]
    assert bundles[0] != bundles[1]
    assert errors["1.0"]["stack"] != errors["2.0"]["stack"].replace("/2.0/", "/1.0/")
    with server.client() as client:
        key = sign_in(client, server.internal_token, f"rebuild-{uuid.uuid4().hex[:8]}")
        client.headers.update(bearer(key))
        project = create_project(client, key)
        cases = []
        for release, error in errors.items():
            upload(client, project["id"], release, tmp_path / release / "dist")
            cases.append(report(client, project["dsn"], release, error))
        assert cases[0]["id"] == cases[1]["id"]
        assert cases[0]["grouping"]["evidence"] == ["type", "frames"]
        frames = client.post(f"/v1/cases/{cases[0]['id']}/unmangle", json={}).raise_for_status().json()["frames"]
        assert frames[0]["original_source"].endswith("src/pay.js")
        assert "cannot be charged" in frames[0]["context_line"]
