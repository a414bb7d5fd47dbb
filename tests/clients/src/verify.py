"""Has svix's package judge signed requests: a JSON array of them on stdin, one of verdicts on stdout."""

import json
import sys

from svix.webhooks import Webhook, WebhookVerificationError


def accepts(request: dict) -> bool:
    try:
        Webhook(request["secret"]).verify(request["body"], request["headers"])
    except WebhookVerificationError:
        return False
    return True


json.dump([accepts(request) for request in json.load(sys.stdin)], sys.stdout)
