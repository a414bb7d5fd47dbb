"""The steps of a Dockerfile, run in a root of their own that holds nothing but this machine's system.

No image is built: what the base image would bring (a Python, a shell, the libraries) is bound from the machine, and
each stage is a folder. COPY, RUN, USER, WORKDIR and ENV are carried out as they stand; anything else is kept as said.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

SYSTEM = ("usr", "bin", "sbin", "lib", "lib64", "proc", "dev")
ENTER = 'root="$1"; shift; for name in $BOUND; do mount --rbind "/$name" "$root/$name"; done; exec "$@"'


@dataclass
class Stage:
    """A root, and what the instructions said about it."""

    root: Path
    user: int = 0
    directory: str = "/"
    env: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    def command(self, line: list[str]) -> list[str]:
        """The command that runs `line` in this root, in a mount namespace of its own."""
        chroot = ["chroot", f"--userspec={self.user}:{self.user}", str(self.root)]
        change = ["/bin/sh", "-c", 'cd "$1" && shift && exec "$@"', "sh", self.directory]
        enter = ["/bin/sh", "-ec", ENTER, "sh", str(self.root)]
        return ["unshare", "--mount", "--propagation", "private", *enter, *chroot, *change, *line]

    def environment(self, **more: str) -> dict[str, str]:
        """What a container would see, and how this machine's pip reaches its index."""
        bound = " ".join(path.name for path in self.root.iterdir() if path.name in SYSTEM)
        index = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        path = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
        return {"PATH": path, "HOME": "/tmp", "BOUND": bound, **index, **self.env, **more}  # noqa: S108


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """The instructions in order: keyword and rest."""
    lines = [line for line in dockerfile.read_text().splitlines() if line and not line.startswith("#")]
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in lines)]


def new_stage(root: Path) -> Stage:
    """A root with this machine's configuration copied, so that a step may change it, and its system bound."""
    for name in SYSTEM:
        if Path("/", name).exists():
            (root / name).mkdir(parents=True)
    (root / "tmp").mkdir(mode=0o777)
    (root / "tmp").chmod(0o1777)
    shutil.copytree("/etc", root / "etc", symlinks=True, ignore_dangling_symlinks=True)
    return Stage(root)


def build(dockerfile: Path, context: Path, roots: Path) -> Stage:
    """Carry out every instruction; returns the last stage. Raises CalledProcessError when a step fails."""
    stages: dict[str, Stage] = {}
    stage = Stage(roots)
    for number, (word, rest) in enumerate(instructions(dockerfile)):
        match word:
            case "FROM":
                stage = new_stage(roots / str(number))
                stages[rest.partition(" AS ")[2]] = stage
            case "COPY":
                source = re.match(r"--from=(\S+) ", rest)
                *names, target = shlex.split(rest[source.end() :] if source else rest)
                origin = stages[source[1]].root if source else context
                for name in names:
                    copy(origin / name.lstrip("/"), stage, target, into=len(names) > 1 or target.endswith("/"))
            case "RUN":
                subprocess.run(
                    stage.command(["/bin/sh", "-c", rest]), env=stage.environment(), check=True, stdout=sys.stderr
                )
            case "USER":
                stage.user = int(rest)
            case "WORKDIR":
                stage.directory = rest
                (stage.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
            case "ENV":
                stage.env |= dict(item.split("=", 1) for item in shlex.split(rest))
            case _:
                stage.said[word] = rest
    return stage


def copy(source: Path, stage: Stage, target: str, *, into: bool) -> None:
    """COPY one file or folder; a relative target is below the working directory."""
    place = stage.root / str(Path(stage.directory, target)).lstrip("/")
    if source.is_dir():
        shutil.copytree(source, place, symlinks=True, dirs_exist_ok=True)
    else:
        place = place / source.name if into else place
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, place)


def words(said: str) -> list[str]:
    """The words of an instruction in its JSON form."""
    found: list[str] = json.loads(said[said.index("[") :])
    return found
