"""Three generators make a client from the schema document, and each client carries out two paths (R-DISC-13).

One signs in, makes a project, records an error, reads its case, makes a credential, and repeats what it made. The other
goes through onboarding and a whole self-healing run, to a verified repair.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.server import ServerHandle

HERE = Path(__file__).parent
INSTALLED = HERE.parents[1] / ".clients"  # by `make clients`
MODULES = INSTALLED / "node_modules"
SCRIPTS = INSTALLED / "venv" / "bin"
SECONDS = 120

pytestmark = [
    pytest.mark.clients,
    pytest.mark.skipif(not (INSTALLED / ".installed").exists(), reason="`make clients` installs the generators"),
]


@pytest.fixture(scope="module")
def document(server: ServerHandle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The schema document as the service serves it."""
    path = tmp_path_factory.mktemp("schema") / "openapi.json"
    with server.client() as client:
        path.write_bytes(client.get("/v1/openapi.json").raise_for_status().content)
    return path


def run(folder: Path, *command: str | Path, **environment: str) -> str:
    """Run a program in a folder; returns what it said. Fails with all of it unless it ends well."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-6000:]}\n{done.stderr[-6000:]}"
    return done.stdout + done.stderr


def told(server: ServerHandle) -> dict[str, str]:
    """What a client's program needs to know."""
    return {
        "CLIENT_BASE_URL": server.base_url,
        "CLIENT_INTERNAL_TOKEN": server.internal_token,
        "CLIENT_TEST_TOKEN": server.test_token,
        "CLIENT_SUBJECT": f"user-{secrets.token_hex(6)}",
    }


def typescript(folder: Path, *programs: str) -> None:
    """Lay out a folder for TypeScript programs, which have their generated code in `generated`."""
    (folder / "node_modules").symlink_to(MODULES)
    for name in (*(f"src/{program}.ts" for program in programs), "src/given.ts", "src/story.json", "tsconfig.json"):
        shutil.copy(HERE / name, folder)


def test_openapi_python_client(server: ServerHandle, document: Path, tmp_path: Path) -> None:
    """Strict: the generator gives up at the first operation or schema that it does not take whole."""
    bytes_of = "application/octet-stream"  # a file and a browser's report are bytes to it
    overrides = f"content_type_overrides: {{application/x-tar: {bytes_of}, application/csp-report: {bytes_of}}}"
    (tmp_path / "config.yml").write_text(f"post_hooks: []\npackage_name_override: generated\n{overrides}\n")
    said = run(
        tmp_path,
        SCRIPTS / "openapi-python-client",
        *("generate", "--path", document, "--config", "config.yml"),
        *("--meta", "none", "--output-path", "generated", "--fail-on-warning"),
    )
    assert "warning" not in said.lower(), said
    for name in ("openapi_python_client.py", "openapi_python_repair.py", "story.json"):
        shutil.copy(HERE / "src" / name, tmp_path)
    run(tmp_path, SCRIPTS / "python", "openapi_python_client.py", **told(server))
    run(tmp_path, SCRIPTS / "python", "openapi_python_repair.py", **told(server))


def test_openapi_typescript_with_openapi_fetch(server: ServerHandle, document: Path, tmp_path: Path) -> None:
    """With the generator's own defaults; the program and all generated types pass the strict compiler."""
    typescript(tmp_path, "openapi_fetch", "openapi_fetch_repair")
    run(tmp_path, MODULES / ".bin" / "openapi-typescript", document, "--output", "generated/schema.ts")
    run(tmp_path, MODULES / ".bin" / "tsc", "--project", ".")
    run(tmp_path, "node", "built/openapi_fetch.js", **told(server))
    run(tmp_path, "node", "built/openapi_fetch_repair.js", **told(server))


def test_hey_api(server: ServerHandle, document: Path, tmp_path: Path) -> None:
    """With the generator's own defaults; the program and all generated code pass the strict compiler."""
    typescript(tmp_path, "hey_api", "hey_api_repair")
    run(tmp_path, MODULES / ".bin" / "openapi-ts", "--input", document, "--output", "generated/hey")
    run(tmp_path, MODULES / ".bin" / "tsc", "--project", ".")
    run(tmp_path, "node", "built/hey_api.js", **told(server))
    run(tmp_path, "node", "built/hey_api_repair.js", **told(server))
