"""The abilities of this installation by its settings, for the texts and manifests."""

from __future__ import annotations

from typing import NamedTuple

from service.analytics.connecting.registration import way_of
from service.settings import Settings
from service.settingvalues import Plan


class Installation(NamedTuple):
    """The settings shown to callers. It holds no secret.

    `provider`: an analytics provider can be connected. `payments`: plans can be bought. `sealing`: secrets can be kept
    and read again, so DSNs are shown again and webhooks are signed. `plans`: empty in a self-hosted installation
    (G-203). `rates` are requests a minute by class. A class that is not there has no limit. `residency` is the
    operator's own statement. `retention_days`: the days of its setting in a self-hosted installation.
    """

    base_url: str
    provider: bool
    payments: bool
    sealing: bool
    plans: tuple[tuple[str, Plan], ...]
    rates: tuple[tuple[str, int], ...]
    new_cases_per_hour: int
    residency: str | None
    retention_days: int | None


def installation(settings: Settings) -> Installation:
    """Read them from the settings."""
    sealing = settings.encryption_key is not None
    return Installation(
        base_url=settings.base_url,
        provider=way_of(settings) is not None and sealing,
        payments=settings.payment_api_key is not None,
        sealing=sealing,
        plans=() if settings.self_hosted else tuple(settings.plans.items()),
        rates=tuple(settings.rate_limits.items()),
        new_cases_per_hour=settings.new_cases_per_hour,
        residency=settings.data_residency,
        retention_days=settings.retention_days,
    )
