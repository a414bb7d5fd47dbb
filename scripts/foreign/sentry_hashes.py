"""Compute what Sentry's own code groups events by. Runs in the environment of requirements/sentry.txt (Python 3.8).

Reads lines of JSON, each an event, and writes a line of JSON for each: its hashes. As when Sentry saves an event, it
is normalized, its frames are marked by the default rules, and a client's fingerprint counts. There is no project, so
there are no rules of one. The configuration is Sentry's default one, newstyle:2023-01-11.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")
os.environ["_SENTRY_SKIP_CONFIGURATION"] = "1"
os.environ["DJANGO_SETTINGS_MODULE"] = "sentry.conf.server"

CONFIGURATION = "newstyle:2023-01-11"
PROJECT = 1


def configure() -> None:
    """Load Sentry's models without a database: nothing is stored, and caches stay in this process."""
    import django
    from django.conf import settings
    from sentry.runner.initializer import bootstrap_options

    settings.SECRET_KEY = "none"  # noqa: S105 (nothing is signed)
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    settings.SENTRY_CACHE = "sentry.cache.django.DjangoCache"
    bootstrap_options(settings)
    django.setup()


def hashes(payload: dict, configuration: dict, grouping: Any) -> list:
    """The hashes of an event. Two events that share one are in one group. `grouping` is the loaded configuration."""
    from sentry.event_manager import EventManager
    from sentry.eventstore.models import Event
    from sentry.grouping import api
    from sentry.grouping.fingerprinting import FingerprintingRules

    manager = EventManager(data=payload)
    manager.normalize(project_id=PROJECT)
    data = dict(manager.get_data())
    event = Event(project_id=PROJECT, event_id=data["event_id"], group_id=None, data=data)
    event.normalize_stacktraces_for_grouping(grouping)
    event.data["fingerprint"] = event.data.data.get("fingerprint") or ["{{ default }}"]
    api.apply_server_fingerprinting(event.data.data, FingerprintingRules([]))
    return event.get_hashes(configuration).hashes


def main() -> None:
    """Answer each line of the standard input with one."""
    configure()
    from sentry.grouping import api

    configuration = api.get_default_grouping_config_dict(CONFIGURATION)
    grouping = api.load_grouping_config(configuration)
    for line in sys.stdin:
        print(json.dumps(hashes(json.loads(line), configuration, grouping)))


if __name__ == "__main__":
    main()
