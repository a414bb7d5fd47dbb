"""Property tests of an installation: strategies, a model of onboarding, and walks against both.

Needs Hypothesis, an extra of this package: `pip install '.[testing]'` in a checkout. `OnboardingWalk` sends random
steps to a driver and compares every answer with the model. `HttpDriver` is a driver for a running service.

Beside them stands the world of the demo and of the conformance kit, which needs no Hypothesis: an installation of its
own, a shop, and its code host.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from service.testing.onboarding_model import OnboardingModel, StepAnswer
    from service.testing.over_http import HttpDriver
    from service.testing.walks import (
        OnboardingDriver,
        OnboardingWalk,
        Shown,
        error_reports,
        forward_steps,
        product_events,
        steps,
    )

__all__ = [
    "HttpDriver",
    "OnboardingDriver",
    "OnboardingModel",
    "OnboardingWalk",
    "Shown",
    "StepAnswer",
    "error_reports",
    "forward_steps",
    "product_events",
    "steps",
]
_ELSEWHERE = {"HttpDriver": "over_http", "OnboardingModel": "onboarding_model", "StepAnswer": "onboarding_model"}


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for. Raises ImportError without Hypothesis."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import_module("hypothesis")
    except ImportError as missing:
        raise ImportError(
            "service.testing needs Hypothesis. In a checkout of the service: pip install '.[testing]'."
        ) from missing
    return getattr(import_module(f"{__name__}.{_ELSEWHERE.get(name, 'walks')}"), name)
