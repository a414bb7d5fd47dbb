"""A repair may write anything anywhere, and the service may say anything: neither moves the runner (R-GEN-13)."""

from __future__ import annotations

import fcntl
import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from service.runner import wall
from service.runner.change import KeptChange, Notes
from service.testing.loopback import Given
from tests.service.runner.conftest import Open
from tests.service.runner.test_loop import KINDS, assert_delivered
from tests.service.runner.test_wall import HAS_NAMESPACES
from tests.support import long_after
from tests.support.runner.host import TOKEN
from tests.support.runner.workplace import REPAIR, Workplace, git

pytestmark = pytest.mark.shares_server
KILLED = -signal.SIGKILL
PACKAGE = Path(wall.__file__).parent
OPEN = ("--isolate", "never")
"""Without the wall: the rest has to hold by itself."""
MARK = """#!/bin/sh
env > "{directory}/ran-$$"
[ "$1" = pass ] && exec cat
exit 1
"""
CONFIG = """
[core]
	fsmonitor = {mark}
	hooksPath = {directory}/hooks
	sshCommand = {mark}
	alternateRefsCommand = {mark}
	pager = {mark}
	editor = {mark}
	askPass = {mark}
[filter "evil"]
	clean = {mark} pass
	smudge = {mark} pass
	process = {mark}
	required = true
[diff "evil"]
	command = {mark}
	textconv = {mark} pass
[diff]
	external = {mark}
[credential]
	helper = {mark}
[uploadpack]
	packObjectsHook = {mark}
[include]
	path = {directory}/nowhere
"""
"""Each setting by which git starts a program or goes elsewhere."""


def armed(place: Workplace) -> None:
    """Lay out the program that leaves a mark, hooks with it, and the settings that name it."""
    directory = place.directory
    mark = directory / "mark"
    (directory / "hooks").mkdir()
    names = ("pre-commit", "post-checkout", "reference-transaction", "pre-push", "post-index-change", "pre-auto-gc")
    for path in (mark, *(directory / "hooks" / name for name in names)):
        path.write_text(MARK.format(directory=directory))
        path.chmod(0o755)
    (directory / "evil.config").write_text(CONFIG.format(mark=mark, directory=directory))


def marks(place: Workplace) -> list[str]:
    """What the program that leaves a mark saw, each time that it ran."""
    return [path.read_text() for path in place.directory.glob("ran-*")]


def changed_by(place: Workplace) -> set[str]:
    """The paths that the branches at the code host change."""
    listed = [git(place.bare, "diff", "--name-only", "main", branch).splitlines() for branch in place.branches]
    return {path for paths in listed for path in paths}


def assert_untouched(place: Workplace) -> None:
    """Nothing ran, and nothing but the two files of the repair was pushed."""
    assert marks(place) == []
    assert changed_by(place) <= {"src/cart.py", "tests/test_cart.py"}


STORES = """
beside=$(dirname "$(cat .git/objects/info/alternates 2>/dev/null)")
for store in "$CHECKOUT"/.git/service-runner/*/ "$beside"; do
  [ -e "$store/HEAD" ] && { PLANT; }
done
"""
PLANTS = {
    "commondir": STORES.replace(
        "PLANT",
        'mkdir -p "$D/common"; cp -r "$store"/. "$D/common"; cp "$D/evil.config" "$D/common/config"; '
        'echo "$D/common" > "$store/commondir"',
    ),
    "configuration of the store": STORES.replace(
        "PLANT", 'cat "$D/evil.config" >> "$store/config"; cp "$D/evil.config" "$store/config.worktree"'
    ),
    "attributes, replacements and grafts of the store": STORES.replace(
        "PLANT",
        'mkdir -p "$store/info" "$store/refs/replace"; echo "* filter=evil diff=evil" > "$store/info/attributes"; '
        'git rev-parse HEAD > "$store/info/grafts"; '
        'git rev-parse HEAD > "$store/refs/replace/$(git rev-parse HEAD)"; '
        'echo "$(git rev-parse HEAD) refs/base/main" > "$store/packed-refs"; '
        'echo "$D/objects" > "$store/objects/info/alternates"',
    ),
    "a store that is a link": """
      rm -rf "$CHECKOUT/.git/service-runner/objects.git"; git init -q --bare "$D/other.git"
      cat "$D/evil.config" >> "$D/other.git/config"; mkdir -p "$CHECKOUT/.git/service-runner"
      ln -s "$D/other.git" "$CHECKOUT/.git/service-runner/objects.git"
    """,
    "configuration of the checkout": 'cat "$D/evil.config" >> "$CHECKOUT/.git/config"',
    "configuration of the copy": 'cat "$D/evil.config" >> .git/config; cp "$D/evil.config" .git/config.worktree',
    "settings of the user": """
      cp "$D/evil.config" "$HOME/.gitconfig"; mkdir -p "$HOME/.config/git"
      cp "$D/evil.config" "$HOME/.config/git/config"; echo '* filter=evil' > "$HOME/.config/git/attributes"
    """,
    "a submodule with a filter": """
      git init -q src/sub; cat "$D/evil.config" >> src/sub/.git/config; echo x > src/sub/a
      GIT="git -C src/sub -c core.fsmonitor= -c core.hooksPath=/dev/null -c user.name=a -c user.email=a@b"
      $GIT -c filter.evil.clean=cat add a; $GIT commit -qm x
      echo '* filter=evil' > src/sub/.gitattributes; echo y > src/sub/a
    """,
    "a known submodule with a filter": """
      rm -rf src/vendored; git clone -q "$D/lib" src/vendored; cat "$D/evil.config" >> src/vendored/.git/config
      git config --file src/vendored/.git/config core.fsmonitor false
      echo '* filter=evil' > src/vendored/.git/info/attributes; echo y > src/vendored/a
    """,
    "a submodule by a file": """
      git init -q "$D/elsewhere"; cat "$D/evil.config" >> "$D/elsewhere/.git/config"; mkdir src/sub
      echo "gitdir: $D/elsewhere/.git" > src/sub/.git; echo x > src/sub/a
    """,
    "a copy whose .git is a file": """
      mv .git "$D/moved.git"; cat "$D/evil.config" >> "$D/moved.git/config"; echo "gitdir: $D/moved.git" > .git
    """,
    "attributes of the change": "mkdir -p src; echo '* filter=evil diff=evil' > src/.gitattributes",
    "index with hidden files": """
      git update-index --skip-worktree src/cart.py; git update-index --assume-unchanged Makefile
      git config core.sparseCheckout true; echo '/src/' > .git/info/sparse-checkout; echo 'all:' > Makefile
    """,
}
"""What a repair plants, by its name. `D` is a directory of its own."""


def _seed(place: Workplace, name: str) -> None:
    """Have the base know a submodule, where the plant is in one."""
    if "known submodule" not in name:
        return
    lib, seed = place.directory / "lib", place.directory / "seed"
    lib.mkdir()
    (lib / "a").write_text("x\n")
    git(lib, "init", "--quiet")
    git(lib, "add", "a")
    git(lib, "commit", "--quiet", "--message", "Begin")
    git(seed, "update-index", "--add", "--cacheinfo", f"160000,{git(lib, 'rev-parse', 'HEAD')},src/vendored")
    git(seed, "commit", "--quiet", "--message", "Add a library")
    git(seed, "push", "--quiet", str(place.bare), "main")


@pytest.mark.parametrize("name", long_after(2, PLANTS))
def test_nothing_that_a_repair_plants_is_carried_out(opened: Open, name: str) -> None:
    """By this start, by the next one, and around a crash. What is pushed is what the contract allows."""
    place = opened()
    armed(place)
    _seed(place, name)
    told = f"D={place.directory}\nCHECKOUT={place.checkout}\nHOME={place.directory}\nset +e\n"
    attributes = "echo '* filter=evil' > src/.gitattributes" if "store" in name or name == "commondir" else ""
    once = f'[ -e "$D/planted" ] || {{ touch "$D/planted"; kill -9 $(cat {place.pid_file}); sleep 900; }}'
    place.repairs(f"{told}{PLANTS[name]}\n{attributes}\nset -e\n{REPAIR}\n{once}")
    agent = {"SSH_AUTH_SOCK": f"{place.directory}/agent"}
    assert place.start(*OPEN, **agent) == KILLED
    for _ in range(3):
        if place.start(*OPEN, **agent) == 0:
            break
    assert_untouched(place)
    assert place.run()["status"] in {"draft_pr_opened", "escalated"}, place.output


FORGE = """
WF=.github/workflows/evil.yml
mkdir -p .github/workflows && echo 'on: push' > $WF
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git add -A && git commit -qm 'Refuse an empty cart'
SHA=$(git rev-parse HEAD)
HOME_OF_RUNNER=CHECKOUT/.git/service-runner
for store in $HOME_OF_RUNNER/*.git; do
  [ -e $store/HEAD ] && git push -q $store HEAD:refs/runs/$SERVICE_RUN_ID
done
mkdir -p $HOME_OF_RUNNER/runs
git bundle create -q $HOME_OF_RUNNER/runs/$SERVICE_RUN_ID.bundle HEAD
printf 'HEAD\\n' | git pack-objects -q --revs --stdout > $HOME_OF_RUNNER/runs/$SERVICE_RUN_ID.pack
cat > $HOME_OF_RUNNER/runs/$SERVICE_RUN_ID.json <<EOF
{"attempts": 1, "change": {"repository": "https://code.example/acme/shop", "base_branch": "main",
 "head_branch": "repair/$SERVICE_RUN_ID", "head_sha": "$SHA", "delivery_mode": "review_required",
 "files_changed": ["src/cart.py"], "changed_lines": 3, "tests": [{"command": "make test", "passed": true}],
 "title": "Refuse an empty cart"}}
EOF
"""
"""A commit outside of the scope in every store, and the note of a judged change beside it."""


def test_a_forged_note_pushes_nothing(opened: Open) -> None:
    """The repair writes the note of a change that nobody judged, and kills the runner before it notices."""
    place = opened()
    flag = place.directory / "forged"
    kill = f"touch {flag}; kill -9 $(cat {place.pid_file}); sleep 900"
    forge = FORGE.replace("CHECKOUT", str(place.checkout))
    place.repairs(f"[ -e {flag} ] || {{ {forge}\n{kill}; }}\n{REPAIR}")
    assert place.start(*OPEN) == KILLED
    assert flag.exists()
    codes = place.until_done(*OPEN)
    assert codes[-1] == 0
    assert_untouched(place)
    assert_delivered(place)


@pytest.mark.parametrize("puts_back", long_after(1, [False, True]))
def test_no_attempt_is_free_of_charge(opened: Open, puts_back: bool) -> None:
    """A repair that removes the note, or puts the first one back, and kills the runner, has three attempts like any."""
    place = opened()
    notes, first = place.home / "runs", place.directory / "first"
    back = f"[ -e {first} ] || cp -r {notes} {first}; rm -rf {notes}/*; cp {first}/* {notes}/"
    script = back if puts_back else f"rm -rf {notes}/*"
    place.repairs(f"{script}\nkill -9 $(cat {place.pid_file}); sleep 900")
    codes = [place.start(*OPEN) for _ in range(4)]
    assert codes == [KILLED, KILLED, KILLED, 1]
    assert "3 attempts were broken off." in place.output
    assert place.run()["charges"]["turns"] == 3


@pytest.mark.skipif(not HAS_NAMESPACES, reason="this machine has no namespaces of users")
@pytest.mark.parametrize("by", ["the repair", "a test"])
def test_behind_the_wall_nothing_of_the_runner_is_reached(opened: Open, by: str) -> None:
    """Neither the checkout, nor the runner's files, nor a remote on this machine, nor an agent, nor a secret."""
    place = opened()
    checkout, runtime = place.checkout, place.directory / "runtime"
    runtime.mkdir()
    (runtime / "bus").write_text("bus")
    script = f"""
    set +e
    for path in {checkout}/.git/config {checkout}/src/cart.py {checkout}/new {place.home}/new {place.home}/runs/new \\
        {place.bare}/config {place.bare}/hooks/pre-receive {runtime}/bus {runtime}/new {PACKAGE}/new; do
      echo evil >> $path
    done
    git push -q {place.bare} HEAD:refs/heads/evil; git push -q {checkout} HEAD:refs/heads/evil
    cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline {place.home}/runs/* {runtime}/bus > {place.directory}/seen
    [ -S {place.directory}/agent ] && echo agent >> {place.directory}/seen
    set -e
    """
    if by == "the repair":
        place.repairs(script + REPAIR)
    else:
        seed = place.directory / "seed"
        (seed / "Makefile").write_text(f"test:\n\t@sh {place.directory}/script.sh; grep -q 'if not cart' src/cart.py\n")
        (place.directory / "script.sh").write_text(script)
        git(seed, "commit", "--quiet", "--all", "--message", "Test more")
        git(seed, "push", "--quiet", str(place.bare), "main")
    before = tree_of(checkout) | tree_of(place.bare)
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(place.directory / "agent"))
        more = {"SSH_AUTH_SOCK": str(place.directory / "agent"), "XDG_RUNTIME_DIR": str(runtime)}
        assert place.start("--isolate", "always", **more) == 0, place.output
    assert_delivered(place)
    after = tree_of(checkout) | tree_of(place.bare)
    assert {path: text for path, text in before.items() if after.get(path) != text} == {}
    assert {path for path in after.keys() - before.keys() if "evil" in path.name or path.name == "new"} == set()
    assert not (PACKAGE / "new").exists()
    seen = (place.directory / "seen").read_text()
    assert {word for word in (place.secret, TOKEN, "agent", "bus", "seal", str(place.home)) if word in seen} == set()
    assert (runtime / "bus").read_text() == "bus"


def tree_of(directory: Path) -> dict[Path, bytes]:
    """The files below a directory, without the runner's own."""
    found = [path for path in directory.rglob("*") if path.is_file() and "service-runner" not in path.parts]
    return {path: path.read_bytes() for path in found}


def evil_change(place: Workplace, kind: str) -> tuple[KeptChange, bytes]:
    """A change that the note says was judged, and its objects, which say otherwise."""
    note = Notes(place.home, place.secret).of(place.run()["run_id"])
    kept = note.kept
    assert kept is not None
    clone = place.directory / "elsewhere"
    git(place.directory, "clone", "--quiet", str(place.bare), str(clone))
    base = git(clone, "rev-parse", "HEAD")
    if kind == "on another commit":
        git(clone, "commit", "--quiet", "--allow-empty", "--message", "Between")
    path = clone / (".github/workflows/evil.yml" if kind == "a workflow" else "src/cart.py")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("on: push\n" * (500 if kind == "many lines" else 1))
    if kind == "a link":
        path.unlink()
        path.symlink_to("/etc/passwd")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message", "Refuse an empty cart")
    sha = git(clone, "rev-parse", "HEAD")
    wanted = f"{sha}\n^{base}\n".encode()
    command = ["git", "pack-objects", "--quiet", "--revs", "--stdout"]
    packed = subprocess.run(command, cwd=clone, input=wanted, capture_output=True, check=True).stdout
    return kept._replace(change=kept.change | {"head_sha": sha}), packed


@pytest.mark.parametrize(
    "kind", long_after(1, ["a workflow", "many lines", "a link", "other lines", "on another commit"])
)
def test_the_commit_is_judged_again_right_before_the_push(opened: Open, kind: str) -> None:
    """Even a note with our seal, and a grant, push nothing that the policy does not allow."""
    place = opened()
    place.faults.mode, place.faults.only = "kill", ("/authorize",)
    assert place.start() == KILLED
    place.faults.mode = "none"
    kept, packed = evil_change(place, kind)
    note = Notes(place.home, place.secret).of(place.run()["run_id"])
    note.keep_change(kept.change, kept.base, packed, kept.diff)
    assert place.start() == 1
    assert "not the one that was judged and granted" in place.output
    assert place.run()["status"] == "escalated"
    assert place.branches == []
    assert place.host.pulls == []


@pytest.mark.parametrize(
    "change", long_after(1, ["another seal", "another credential", "another run", "another word", "other objects"])
)
def test_a_note_without_its_own_seal_is_none(opened: Open, change: str) -> None:
    """The change in it counts for nothing: nothing is granted by it, and nothing is pushed."""
    place = opened()
    place.faults.mode, place.faults.only = "kill", ("/consume",)
    place.faults.spared = ("GET",)
    assert place.start() == KILLED
    place.faults.mode = "none"
    [path] = (place.home / "runs").glob("*.json")
    seal, _, content = path.read_bytes().partition(b"\n")
    if change == "other objects":
        path.with_suffix(".pack").write_bytes(evil_change(place, "a workflow")[1])
    elif change == "another word":
        path.write_bytes(seal + b"\n" + content.replace(b"src/cart.py", b"src/care.py"))
    else:
        name = "run_1" if change == "another run" else path.stem
        credential = "another" if change == "another credential" else place.secret
        other = Notes(place.home, credential).seal(name, content).encode()
        path.write_bytes((b"0" * 64 if change == "another seal" else other) + b"\n" + content)
    assert place.start() == 1
    assert "has a grant for another runner's commit" in place.output
    assert place.branches == []
    assert place.host.pulls == []


@pytest.mark.parametrize("of", long_after(1, ["a run without a grant", "no run", "a granted run"]))
@pytest.mark.parametrize("kind", long_after(1, KINDS))
def test_a_pull_request_that_nobody_granted_stops_the_automation(opened: Open, kind: str, of: str) -> None:
    """Whoever has the runner's token pushes a branch like that of a run, and opens a pull request. CI tells of it."""
    place = opened(kind)
    if of == "a granted run":
        assert place.start() == 0, place.output
        place.host.close_pull("mallory")
    else:
        place.faults.mode, place.faults.only = "kill", ("/authorize",)
        assert place.start() == KILLED
        place.faults.mode = "none"
    run_id = f"run_{'0' * 26}" if of == "no run" else place.run()["run_id"]
    branch = f"repair/{run_id}"
    clone = place.directory / "stolen"
    git(place.directory, "clone", "--quiet", str(place.bare), str(clone))
    (clone / "src" / "cart.py").write_text("evil\n")
    git(clone, "commit", "--quiet", "--all", "--message", "Refuse an empty cart")
    git(clone, "push", "--quiet", "--force", "origin", f"HEAD:{branch}")
    place.host.refresh()
    place.host.open(branch, "Refuse an empty cart", "", draft=True)
    assert place.prove() == 1
    assert "was granted to nobody. Automations that are off now: heal." in place.proved
    contract = place.scene.must(place.scene.world.call("GET", place.scene.world.contract), 200)
    assert [one["disabled_reason"] for one in contract["automations"]] == ["ungranted_pull_request"]
    known = len(place.host.pulls)
    place.start()
    assert len(place.host.pulls) == known, "the runner goes no further"


@contextmanager
def listening() -> Iterator[tuple[int, list[bytes]]]:
    """A host that hears whatever is sent to it. Yields its port and what it heard."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    heard.append(connection.recv(65536))

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1], heard
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def told_by_service(place: Workplace) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """The run, its policy and its case, as the service tells them to the runner."""
    scene, run_id = place.scene, place.run()["run_id"]
    run = scene.must(scene.call("GET", f"/v1/automation-runs/{run_id}", who="heal"))
    policy = scene.must(scene.call("GET", f"/v1/automation-runs/{run_id}/policy", who="heal"))
    return run, policy, scene.must(scene.call("GET", f"/v1/cases/{run['case_id']}", who="heal"))


def told(body: Any) -> Given:
    """An answer of the service."""
    return Given(200, json.dumps(body).encode())


@pytest.mark.parametrize("at", long_after(1, ["before the repair", "before the pull request"]))
def test_no_request_goes_to_a_host_that_the_service_names(opened: Open, at: str) -> None:
    """The checkout's remote says where the token goes. A policy for another repository ends the start first."""
    place = opened()
    place.faults.mode = "kill"
    place.faults.only = ("/usage",) if at == "before the repair" else ("/pulls",)
    assert place.start() == KILLED
    place.faults.mode = "none"
    _, policy, _ = told_by_service(place)
    with listening() as (port, heard):
        policy["policy"]["runner"]["repository"] = f"https://127.0.0.1:{port}/acme/shop"
        place.relay.answers["/policy"] = [told(policy)] * 20
        for remote in ((), ("--remote", "https://code.example/acme/shop.git")):
            assert place.start("--host", "github", "--host-api", "", *remote) == 1
            assert "not the repository of the contract" in place.output
    assert heard == []
    assert place.branches == []


@pytest.mark.parametrize(
    ("member", "value"),
    long_after(
        1,
        [
            ("run_id", "../../../../evil"),
            ("run_id", "run_1\n"),
            ("case_id", "../../v1/accounts"),
            ("claim_id", "claim_1/../../x"),
            ("policy_sha256", "../x"),
            ("state_revision", "7"),
            ("grants", {}),
        ],
    ),
)
def test_an_id_of_the_service_is_no_path(opened: Open, member: str, value: Any) -> None:
    """A run with such a member is not worked on, and the start says which."""
    place = opened()
    place.faults.mode, place.faults.only = "kill", ("/usage",)
    assert place.start() == KILLED
    place.faults.mode = "none"
    run, policy, case = told_by_service(place)
    run |= {member: value, "charges": {"turns": 3, "cost_usd": 0, "runtime_seconds": 9}}
    place.relay.answers = {
        "/automation-runs": [told({"runs": [run]})],
        "/evil": [told(run)] * 9,
        "/renew": [told({})] * 9,
        "/policy": [told(policy)] * 9,
        "/evil/usage": [told({})] * 9,
        f"/cases/{run['case_id']}": [told(case)] * 9,
    }
    before = sorted(place.directory.iterdir())
    assert place.start() == 1
    assert member in place.output
    assert sorted(place.directory.iterdir()) == before
    assert place.branches == []


@pytest.mark.parametrize(
    "plant",
    long_after(
        1,
        [
            'mkfifo "$T"',
            'ln -s "$SECRET" "$T"',
            'mkdir "$T"',
            'truncate -s 100G "$T"',
            'ln -s /dev/zero "$T"',
            'cd ..; mv beside away; ln -s "$(dirname "$SECRET")" beside; cp "$SECRET" beside/title.txt; cd tree',
        ],
    ),
)
def test_the_file_of_the_title_is_a_short_file_or_none(opened: Open, plant: str) -> None:
    """Neither a pipe, nor a link, nor a device, nor an endless file: the title is then that of the runner."""
    place = opened()
    secret = place.directory / "private" / "secret"
    secret.parent.mkdir()
    secret.write_text("hidden\n")
    repair = REPAIR.replace('> "$SERVICE_TITLE_FILE"', "> /dev/null")
    place.repairs(f'{repair}\nT="$SERVICE_TITLE_FILE"; SECRET={secret}\nrm -f "$T"; {plant}')
    with place.begin(*OPEN) as process:
        try:
            place.output = process.communicate(timeout=300)[0]
        finally:
            process.kill()
    assert process.returncode == 0, place.output
    assert_delivered(place)
    assert place.host.pulls[0].title.endswith(f"Repair {place.run()['case_id']}")
    assert "hidden" not in json.dumps(place.relay.seen)


def test_a_start_beside_another_says_so_with_its_own_code(opened: Open) -> None:
    """A scheduler can tell a start that hangs from a start with nothing to do."""
    place = opened()
    home = place.home
    home.mkdir(mode=0o700)
    with (home / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert place.start() == 3
    assert "Another start is at work" in place.output
    assert place.start() == 0, place.output
    assert_delivered(place)


@pytest.mark.parametrize("plant", long_after(1, ["lock", "runs", "service-runner", "note", "packed"]))
def test_files_of_the_runner_that_a_repair_replaces_harm_nothing(opened: Open, plant: str) -> None:
    """A pipe, a link and an endless file in their places: no start waits for ever, and none writes elsewhere."""
    place = opened()
    home, private = place.home, place.directory / "private"
    private.mkdir()
    script = {
        "lock": f"rm -f {home}/lock; mkfifo {home}/lock",
        "runs": f"mv {home}/runs {home}/away; ln -s {private} {home}/runs",
        "service-runner": f"mv {home} {home}.away; ln -s {private} {home}",
        "note": f"rm -f {home}/runs/*; mkfifo {home}/runs/$SERVICE_RUN_ID.json",
        "packed": f"cd {home}/runs; truncate -s 100G $SERVICE_RUN_ID.json; ln -s /dev/zero $SERVICE_RUN_ID.pack; cd -",
    }[plant]
    flag = place.directory / "planted"
    kill = f"touch {flag}; kill -9 $(cat {place.pid_file}); sleep 900"
    place.repairs(f"[ -e {flag} ] || {{ {script}\n{kill}; }}\n{REPAIR}")
    assert place.start(*OPEN) == KILLED
    for _ in range(2):
        with place.begin(*OPEN) as process:
            try:
                place.output = process.communicate(timeout=300)[0]
            finally:
                process.kill()
        assert "Traceback" not in place.output
    assert list(private.iterdir()) == []
    assert_untouched(place)
