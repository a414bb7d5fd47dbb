"""What every job of the shop's CI needs: git, the tests, the code host, and the service."""

import json
import os
import subprocess
import sys
from urllib.error import HTTPError
from urllib.request import Request, urlopen


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout.strip()


def hub(*arguments: str) -> dict:
    done = subprocess.run(["hub", *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)


def tests_pass() -> bool:
    command = [sys.executable, "-m", "unittest", "-q", "test_shop"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def tell_service(path: str, body: dict, key: str, **headers: str) -> dict:
    """POST as CI. SERVICE_URL is the service, SERVICE_CI_API_KEY the one credential that CI has for it."""
    headers |= {
        "authorization": f"Bearer {os.environ['SERVICE_CI_API_KEY']}",
        "content-type": "application/json",
        "user-agent": "shop-ci/1",
        "idempotency-key": key,
    }
    request = Request(os.environ["SERVICE_URL"] + path, data=json.dumps(body).encode(), headers=headers)
    try:
        with urlopen(request, timeout=10) as response:
            return json.load(response)
    except HTTPError as error:
        sys.exit(f"the service answered {error.code}: {error.read().decode()}")
