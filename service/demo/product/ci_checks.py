"""The shop's CI, on a pull request: tests its head, which is checked out, and tells the code host how that went."""

import json
import sys

from ci import git, hub, tests_pass

CHECK = "unit tests"


def main(number: str) -> None:
    head = hub("view", number)["head_sha"]
    if git("rev-parse", "HEAD") != head:
        sys.exit("another commit is checked out than the head of the pull request")
    print(json.dumps(hub("check", head, CHECK, "success" if tests_pass() else "failure")))


if __name__ == "__main__":
    main(sys.argv[1])
