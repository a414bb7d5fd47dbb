"""`sentry-cli` of both versions uploads here, and a second resolver agrees with what comes out (G-141, R-CASE-04)."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from service.cases.sourcemaps.resolving import ReadyMap, SourcePlace, inside
from tests.clients.test_generators import INSTALLED, MODULES, run
from tests.support import accounts
from tests.support.server import ServerHandle

BUNDLE = Path(__file__).parents[1] / "service" / "cases" / "bundle"
URL = "https://shop.example/shop.min.js"
CLIS = {"3": "@sentry/cli", "2": "@sentry/cli-2"}
TRACE = """
import { TraceMap, originalPositionFor } from "@jridgewell/trace-mapping";
import { readFileSync } from "node:fs";
const { file, places } = JSON.parse(readFileSync(0, "utf8"));
const map = new TraceMap(readFileSync(file, "utf8"));
console.log(JSON.stringify(places.map(([line, column]) => {
  const found = originalPositionFor(map, { line, column: column - 1 });
  return [found.source, found.line, found.column];
})));
"""

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(not (INSTALLED / ".installed").exists(), reason="`make clients` installs the programs"),
]


@pytest.mark.parametrize("version", CLIS)
@pytest.mark.parametrize("injected", [False, True])
def test_sentry_cli_uploads_what_unmangling_uses(server: ServerHandle, tmp_path: Path, version: str, injected: bool):
    folder = tmp_path / "dist"
    folder.mkdir()
    for name in ("shop.min.js", "shop.min.js.map"):
        shutil.copy(BUNDLE / name, folder)
    with server.client() as client:
        key = accounts.sign_in(client, server.internal_token, f"cli-{version}-{injected}")
        client.headers["authorization"] = f"Bearer {key}"
        made = client.post("/v1/projects", json={"name": "cli"}).raise_for_status().json()
        program = ["node", MODULES / CLIS[version] / "bin" / "sentry-cli", "sourcemaps"]
        told = {"SENTRY_URL": server.base_url, "SENTRY_AUTH_TOKEN": key}
        release = ["--release", "1.0"] if not injected else []
        if injected:
            run(tmp_path, *program, "inject", folder, **told)
        upload = [*program, "upload", "--org", "any", "--project", made["id"], *release, folder]
        assert "~/shop.min.js" in run(tmp_path, *upload, **told)
        run(tmp_path, *upload, **told)  # again: nothing changes
        stored = client.get(f"/v1/projects/{made['id']}/source-maps").raise_for_status().json()
        assert {one["kind"] for one in stored["source_maps"]} == {"source_map", "minified_source"}
        assert stored["count"] == 2
        frame: dict[str, Any] = {"file": URL, "line": 1, "column": 73}
        if injected:
            script = (folder / "shop.min.js").read_text()
            frame["debug_id"] = stored["source_maps"][0]["debug_id"]
            lines = script.split("\n")
            [frame["line"]] = [number for number, text in enumerate(lines, 1) if "nobody to share" in text]
            frame["column"] = lines[frame["line"] - 1].index("throw new RangeError") + 1 + len("throw ")
        error = {"message": "boom", "extra": {"exception": {"frames": [frame]}}} | (
            {} if injected else {"release": "1.0"}
        )
        sent = client.post("/v1/logs/", json=error, headers={"authorization": f"Bearer {made['dsn']}"})
        case_id = sent.raise_for_status().json()["case_id"]
        [found] = client.post(f"/v1/cases/{case_id}/unmangle", json={}).raise_for_status().json()["frames"]
    assert (found["verdict"], found["original_source"].endswith("src/money.ts")) == ("resolved", True)
    assert (found["original_line"], found["original_function"]) == (6, "Purse.divided")


PACKAGES = ["preact/dist/preact.mjs", "preact/hooks/dist/hooks.mjs", "preact/compat/dist/compat.mjs"]


def test_a_second_resolver_agrees_on_published_packages(tmp_path: Path):
    """Every place of the files of a published package, as `@jridgewell/trace-mapping` sees it."""
    (tmp_path / "node_modules").symlink_to(MODULES)
    (tmp_path / "trace.mjs").write_text(TRACE)
    looked_at = 0
    for name in PACKAGES:
        script, source_map = MODULES / name, MODULES / f"{name}.map"
        ready = ReadyMap(source_map.read_bytes(), b"")
        places = [
            (number, column)
            for number, text in enumerate(script.read_text().split("\n"), 1)
            for column in range(1, len(text) + 1, 7)
        ]
        asked = json.dumps({"file": str(source_map), "places": places})
        said = subprocess.run(
            ["node", "trace.mjs"], cwd=tmp_path, input=asked, capture_output=True, text=True, check=True, timeout=60
        )
        for (line, column), (source, original_line, original_column) in zip(
            places, json.loads(said.stdout), strict=True
        ):
            found = ready.look_up(line, column)
            if source is None:
                assert not isinstance(found, SourcePlace), (name, line, column)
                continue
            assert isinstance(found, SourcePlace), (name, line, column, found)
            assert (found.source, found.line, found.column) == (inside(source), original_line, original_column + 1)
            looked_at += 1
    assert looked_at > 1000


def test_a_second_resolver_agrees_on_a_fresh_bundle(tmp_path: Path):
    """esbuild, not minified too: there, lines begin with what the line before ended with."""
    (tmp_path / "node_modules").symlink_to(MODULES)
    (tmp_path / "trace.mjs").write_text(TRACE)
    for more in (["--minify"], []):
        script = tmp_path / "out.js"
        command = [MODULES / ".bin" / "esbuild", BUNDLE / "src" / "shop.ts", "--bundle", "--sourcemap"]
        run(tmp_path, *command, f"--outfile={script}", "--format=esm", *more)
        ready = ReadyMap((tmp_path / "out.js.map").read_bytes(), script.read_bytes())
        places = [(n, c) for n, text in enumerate(script.read_text().split("\n"), 1) for c in range(1, len(text) + 1)]
        asked = json.dumps({"file": str(tmp_path / "out.js.map"), "places": places})
        said = subprocess.run(
            ["node", "trace.mjs"], cwd=tmp_path, input=asked, capture_output=True, text=True, check=True, timeout=60
        )
        for place, (source, line, column) in zip(places, json.loads(said.stdout), strict=True):
            found = ready.look_up(*place)
            if source is None:
                assert not isinstance(found, SourcePlace), place
            else:
                assert isinstance(found, SourcePlace), (place, found)
                assert (found.source, found.line, found.column) == (inside(source), line, column + 1)
    assert re.search("sourceMappingURL", script.read_text())
