"""A program whose reports are refused at first; it reports once more when its SDK may send again."""

import sys
import time

import sentry_sdk

sentry_sdk.init(release="shop@1.2.3", debug=True)
sys.stdin.readline()
sentry_sdk.capture_message("first", "error")
sentry_sdk.flush(5)
sentry_sdk.capture_message("second", "error")
sentry_sdk.flush(5)
print("refused", flush=True)
sys.stdin.readline()
time.sleep(1.5)
sentry_sdk.capture_message("third", "error")
sentry_sdk.flush(5)
