"""The shop's CI, after a merge: tests the commit that is checked out and records its deploy, once.

SERVICE_ONBOARDING_PROOF ties the deploy to an open proof.
"""

import json
import os
import sys

from ci import git, tell_service, tests_pass


def main() -> None:
    if not tests_pass():
        sys.exit("the tests fail")
    sha = git("rev-parse", "HEAD")
    marker = os.environ.get("SERVICE_ONBOARDING_PROOF")
    proof = {"x-service-onboarding-proof": marker} if marker else {}
    body = {
        "version": sha[:12],
        "environment": "production",
        "sha": sha,
        "branch": git("rev-parse", "--abbrev-ref", "HEAD"),
        "message": git("log", "-1", "--format=%s"),
    }
    print(json.dumps(tell_service("/v1/deploys/", body, f"deploy-{sha}", **proof)))


if __name__ == "__main__":
    main()
