"""The shop's CI: tests the commit that is checked out and records its deploy, once.

SERVICE_CI_API_KEY authorises it, SERVICE_ONBOARDING_PROOF ties it to an open proof, SERVICE_URL is the service.
"""

import json
import os
import subprocess
import sys
from urllib.request import Request, urlopen


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout.strip()


def main() -> None:
    subprocess.run([sys.executable, "-m", "unittest", "-q", "test_shop"], check=True, capture_output=True)
    sha = git("rev-parse", "HEAD")
    headers = {
        "authorization": f"Bearer {os.environ['SERVICE_CI_API_KEY']}",
        "content-type": "application/json",
        "user-agent": "shop-ci/1",
        "idempotency-key": f"deploy-{sha}",
    }
    if marker := os.environ.get("SERVICE_ONBOARDING_PROOF"):
        headers["x-service-onboarding-proof"] = marker
    body = {
        "version": sha[:12],
        "environment": "production",
        "sha": sha,
        "branch": git("rev-parse", "--abbrev-ref", "HEAD"),
        "message": git("log", "-1", "--format=%s"),
    }
    request = Request(os.environ["SERVICE_URL"] + "/v1/deploys/", data=json.dumps(body).encode(), headers=headers)
    with urlopen(request, timeout=10) as response:
        print(response.read().decode())


if __name__ == "__main__":
    main()
