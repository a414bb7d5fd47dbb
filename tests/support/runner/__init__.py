"""What a runner works with, in tests: a checkout, a code host, the service behind a relay, and faults at every step."""
