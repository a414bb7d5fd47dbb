"""How fast an outsider verifies a log: the stand-alone verifier over a made-up export, with a checkpoint."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from scripts import verify_proof
from tests.support.outsiders.logs import make_log
from tests.support.outsiders.signing import signer

EVENTS = 50_000


def verifying_rates() -> list[float]:
    """Verify an export of 50,000 events with the command, its start and the signatures included; events a second."""
    log, keys = make_log(EVENTS, streams=500), (signer(1), signer(6))
    rates = []
    with tempfile.TemporaryDirectory() as folder:
        exported, kept = Path(folder) / "log.jsonl", Path(folder) / "checkpoint"
        exported.write_bytes(log.export())
        kept.write_bytes(log.checkpoint(*keys))
        words = [sys.executable, "-I", verify_proof.__file__, str(exported), "--checkpoint", str(kept)]
        words += [word for key in keys for word in ("--key", key.vkey)]
        for _ in range(3):
            began = time.perf_counter()
            done = subprocess.run(words, capture_output=True, check=False)
            rates.append(EVENTS / (time.perf_counter() - began))
            assert done.returncode == 0, done.stdout + done.stderr
    return rates
