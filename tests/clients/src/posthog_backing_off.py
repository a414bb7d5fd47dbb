"""A program that reports to PostHog and asks for no flags; what it sends may be refused at first."""

import os

from posthog import Posthog

client = Posthog(os.environ["POSTHOG_API_KEY"], host=os.environ["POSTHOG_HOST"], debug=True)
client.capture("order placed", distinct_id="u1")
client.capture("order paid", distinct_id="u1")
client.shutdown()
